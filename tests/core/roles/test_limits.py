"""What limits say of a call: the strictest of all lists, and nothing is ever given by one."""

from __future__ import annotations

import pytest

from upthread.core.roles.limits import (
    KINDS_OF_TOOLS,
    NO_LIMITS,
    LimitedCall,
    RoleLimits,
    ToolRule,
    allows_only_named,
    denies_wholly,
    in_words,
    joined,
    limited,
    named_tools,
    unheld_in_words,
)
from upthread.core.shell.call_commands import KINDS


def deny(*tools: str, pattern: str = "*") -> tuple[ToolRule, ...]:
    return tuple(ToolRule(tool=tool, pattern=pattern, word="deny") for tool in tools)


def allow(*tools: str, pattern: str = "*") -> tuple[ToolRule, ...]:
    return tuple(ToolRule(tool=tool, pattern=pattern, word="allow") for tool in tools)


def limits(*lists: tuple[ToolRule, ...]) -> RoleLimits:
    return RoleLimits(lists=lists)


def call(tool: str, *called_with: str, kinds: tuple[str, ...] = ("other",)) -> LimitedCall:
    return LimitedCall(tool=tool, kinds=frozenset(kinds), called_with=called_with)


def word(of: RoleLimits, asked: LimitedCall, *, is_sandboxed: bool = False) -> str:
    return limited(of, asked, is_sandboxed=is_sandboxed)[0]


ONLY_READING = limits((*deny("*"), *allow("read", "grep")))


def test_without_limits_nothing_is_denied():
    assert not NO_LIMITS.are_any
    assert limited(NO_LIMITS, call("Bash")) == ("allow", "=allow")


@pytest.mark.parametrize("tool", ["bash", "Bash", "exec_command", "PowerShell", "write_stdin"])
def test_a_tool_is_known_under_the_names_all_agents_have_for_it(tool: str):
    assert limited(limits(deny("bash")), call(tool)) == ("deny", "bash=deny")


def test_a_patch_both_edits_and_writes():
    assert word(limits(deny("write")), call("apply_patch")) == "deny"
    assert word(limits(deny("edit")), call("apply_patch")) == "deny"
    assert word(limits(deny("write")), call("Edit")) == "allow"


def test_where_only_some_are_named_all_others_are_denied():
    assert [word(ONLY_READING, call(tool)) for tool in ("Read", "Grep")] == ["allow", "allow"]
    for tool in ("Bash", "Write", "mcp__a__b", "Task", "WhatComesNext"):
        assert word(ONLY_READING, call(tool)) == "deny"


def test_a_tool_of_a_server_is_limited_by_its_own_name():
    of = limits(deny("github_*"))
    assert word(of, call("github_create")) == "deny"
    assert word(of, call("gitlab_create")) == "allow"


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("a*b *", "axbxb c", "axbxbc"),
        ("a*b*c", "abxbcxc", "abxbcx"),
        ("*a*", "bab", "bbb"),
        ("a**b?", "axybz", "axyb"),
        ("a?*b *", "axb", "ab"),
    ],
)
def test_stars_and_question_marks_fit_as_in_a_shell(pattern: str, fitting: str, other: str):
    of = limits(deny("bash", pattern=pattern))
    assert (word(of, call("bash", fitting)), word(of, call("bash", other))) == ("deny", "allow")


@pytest.mark.timeout(20)
def test_a_pattern_of_many_stars_is_judged_at_once():
    of = limits(deny("bash", pattern="*a" * 12 + "*b"))
    assert word(of, call("bash", "a" * 20_000)) == "allow"


def test_the_last_rule_that_fits_decides_within_a_list_and_the_strictest_list_counts():
    few = (*deny("bash"), *allow("bash", pattern="git diff *"))
    assert word(limits(few), call("bash", "git diff")) == "allow"
    assert word(limits(few), call("bash", "git diff a")) == "allow"
    assert word(limits(few), call("bash", "git differs")) == "deny"
    assert word(limits(few), call("bash", "git diff a", "rm b")) == "deny"
    assert word(limits(few, deny("bash")), call("bash", "git diff")) == "deny"
    assert word(limits(few, allow("bash")), call("bash", "rm a")) == "deny"


def test_what_is_not_known_of_a_call_may_be_anything():
    assert word(limits(deny("bash", pattern="rm *")), call("bash")) == "deny"
    assert word(limits(deny("bash", pattern="rm *")), call("bash", "ls")) == "allow"
    ask = (ToolRule(tool="bash", word="ask"),)
    assert word(limits(ask), call("bash")) == "ask"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("edit", "deny"), ("delete", "deny"), ("move", "deny"), ("execute", "deny")],
)
def test_a_call_of_which_only_the_kind_is_known_is_judged_by_it(kind: str, expected: str):
    assert word(ONLY_READING, call("", kinds=(kind,))) == expected


def test_reading_is_reading_by_its_kind_too():
    assert word(ONLY_READING, call("", kinds=("read",))) == "allow"
    assert word(ONLY_READING, call("", kinds=("search",))) == "allow"
    assert word(ONLY_READING, call("", kinds=("read", "execute"))) == "deny"
    assert word(ONLY_READING, call("", kinds=("switch_mode",))) == "deny"


def test_a_kind_is_denied_where_one_of_its_tools_is():
    assert word(limits(deny("websearch")), call("", kinds=("fetch",))) == "deny"
    assert word(limits(deny("bash")), call("", kinds=("edit",))) == "allow"


def test_what_is_of_no_known_kind_is_denied_where_anything_is():
    assert word(limits(deny("bash")), call("", kinds=("other",))) == "deny"
    assert word(limits(deny("bash", pattern="rm *")), call("", kinds=("other",))) == "deny"
    assert word(limits(allow("bash")), call("", kinds=("other",))) == "allow"


def test_a_command_that_only_reads_is_reading():
    reads = LimitedCall(tool="exec_command", kinds=frozenset({"execute"}), only_reads=True)
    assert word(ONLY_READING, reads) == "allow"
    assert word(limits(deny("bash")), reads) == "allow"
    assert word(limits(deny("read")), reads) == "deny"
    nameless = LimitedCall(tool="", kinds=frozenset({"execute"}), only_reads=True)
    assert word(limits(deny("bash")), nameless) == "allow"


def test_what_reaches_out_of_the_tree_is_also_that():
    beyond = LimitedCall(tool="Read", kinds=frozenset({"read"}), is_beyond=True)
    assert word(limits(deny("external_directory")), beyond) == "deny"
    assert word(limits(deny("external_directory")), call("Read")) == "allow"


def test_a_sandbox_holds_commands_where_there_is_one_and_our_gate_where_not():
    of = RoleLimits(sandbox="read-only")
    assert of.are_any
    assert word(of, call("Bash")) == "deny"
    assert word(of, call("Bash"), is_sandboxed=True) == "allow"
    assert word(of, call("apply_patch"), is_sandboxed=True) == "deny"
    assert word(of, call("Read")) == "allow"


def test_workspace_write_keeps_edits_within_the_tree():
    of = RoleLimits(sandbox="workspace-write")
    within = LimitedCall(tool="Write", kinds=frozenset({"edit"}))
    beyond = LimitedCall(tool="Write", kinds=frozenset({"edit"}), is_beyond=True)
    by_kind = LimitedCall(tool="", kinds=frozenset({"delete"}), is_beyond=True)
    reading = LimitedCall(tool="Read", kinds=frozenset({"read"}), is_beyond=True)
    assert [word(of, each) for each in (within, beyond, by_kind, reading)] == [
        *("allow", "deny", "deny", "allow")
    ]


def test_only_what_is_denied_whatever_it_is_called_with_is_wholly_denied():
    few = limits((*deny("bash"), *allow("bash", pattern="git *")))
    assert not denies_wholly(few, "Bash")
    assert not denies_wholly(limits(deny("bash", pattern="rm *")), "bash")
    assert denies_wholly(limits((*allow("bash", pattern="git *"), *deny("bash"))), "bash")
    assert denies_wholly(limits((*deny("bash"), *deny("bash", pattern="rm *"))), "bash")
    assert denies_wholly(ONLY_READING, "mcp__a__b")
    assert not denies_wholly(ONLY_READING, "Read")
    assert denies_wholly(RoleLimits(sandbox="read-only"), "Write")


def test_whether_only_named_tools_are_left():
    assert allows_only_named(ONLY_READING)
    assert not allows_only_named(limits(deny("bash", "edit")))


def test_tools_of_servers_are_those_nobody_here_knows():
    of = limits((*deny("*", "bash", "github_*"), *allow("github_*", "x")))
    assert named_tools(of) == ("github_*", "x")


def test_a_model_is_the_agents_whose_name_for_it_that_is():
    of = RoleLimits(model="haiku", model_of="claude-code")
    assert (of.model_for("claude-code"), of.model_for("codex")) == ("haiku", "")
    assert not of.are_any


def test_a_person_reads_what_is_held_and_what_is_not_given():
    of = RoleLimits(
        said=("tools: Read, and no others",),
        model="haiku",
        model_of="claude-code",
        not_given=("permissionMode: bypassPermissions",),
    )
    assert in_words(of) == (
        "tools: Read, and no others",
        "model: haiku, as claude-code calls it",
        "not given: permissionMode: bypassPermissions",
    )
    assert in_words(NO_LIMITS) == ()


def test_a_person_is_told_what_an_agent_may_pass_by():
    def unheld(of: RoleLimits, *, agent: str, can_hold: bool) -> str:
        return unheld_in_words(of, agent=agent, can_hold=can_hold, is_sandboxed=agent == "codex")

    assert unheld(ONLY_READING, agent="codex", can_hold=True) == ""
    assert unheld(ONLY_READING, agent="gemini", can_hold=False) == (
        "what it may not do holds only where gemini asks before it acts"
    )
    sandboxed = RoleLimits(sandbox="workspace-write", model="gpt", model_of="codex")
    assert unheld(sandboxed, agent="codex", can_hold=True) == ""
    assert unheld(sandboxed, agent="opencode", can_hold=True) == (
        "opencode has no sandbox: its commands may write beyond the working tree; "
        "opencode uses its own model: gpt is codex's"
    )


def test_limits_from_several_keys_hold_all_at_once():
    one = RoleLimits(lists=(deny("bash"),), said=("a",), model="m", model_of="codex")
    other = RoleLimits(sandbox="workspace-write", asks_nobody=True, not_given=("b",))
    both = joined((one, other, RoleLimits(sandbox="read-only")))
    assert both == RoleLimits(
        lists=(deny("bash"),),
        sandbox="read-only",
        asks_nobody=True,
        model="m",
        model_of="codex",
        said=("a",),
        not_given=("b",),
    )
    assert joined(()) == NO_LIMITS


def test_every_kind_of_a_tool_is_one_of_acps():
    assert set(KINDS_OF_TOOLS.values()) <= {*KINDS, "other"}


def test_a_pattern_is_no_expression_and_a_question_mark_is_one_character():
    of = limits(deny("bash", pattern="rm? (a|b)"))
    assert word(of, call("bash", "rmx (a|b)")) == "deny"
    assert word(of, call("bash", "rmx a")) == "allow"
