"""What limits say of a call: the strictest of all lists, and nothing is ever given by one."""

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


BASH, NO_RM = limits(deny("bash")), limits(deny("bash", pattern="rm *"))
ASKED = limits((ToolRule(tool="bash", word="ask"),))
SERVERS = limits(deny("github_*"))
BEYOND = limits(deny("external_directory"))
READER = LimitedCall(tool="exec_command", kinds=frozenset({"execute"}), only_reads=True)
NAMELESS = LimitedCall(tool="", kinds=frozenset({"execute"}), only_reads=True)
OUTSIDE = LimitedCall(tool="Read", kinds=frozenset({"read"}), is_beyond=True)


def kinds(*names: str) -> LimitedCall:
    """A call of which only its kinds are known."""
    return call("", kinds=names)


WORDS = {
    "a patch writes": (limits(deny("write")), call("apply_patch"), "deny"),
    "a patch edits": (limits(deny("edit")), call("apply_patch"), "deny"),
    "an edit does not write": (limits(deny("write")), call("Edit"), "allow"),
    "a named tool": (ONLY_READING, call("Read"), "allow"),
    "another named tool": (ONLY_READING, call("Grep"), "allow"),
    "a server's own name": (SERVERS, call("github_create"), "deny"),
    "another server's": (SERVERS, call("gitlab_create"), "allow"),
    "not known, it may be anything": (NO_RM, call("bash"), "deny"),
    "known to be another": (NO_RM, call("bash", "ls"), "allow"),
    "not known, and to be asked": (ASKED, call("bash"), "ask"),
    **{
        f"by its kind: {kind}": (ONLY_READING, kinds(kind), "deny")
        for kind in ("edit", "delete", "move", "execute", "switch_mode")
    },
    "reading by its kind": (ONLY_READING, kinds("read"), "allow"),
    "searching by its kind": (ONLY_READING, kinds("search"), "allow"),
    "reading and running": (ONLY_READING, kinds("read", "execute"), "deny"),
    "a kind of a denied tool": (limits(deny("websearch")), kinds("fetch"), "deny"),
    "a kind of no denied tool": (BASH, kinds("edit"), "allow"),
    "of no known kind": (BASH, kinds("other"), "deny"),
    "of no known kind, something denied": (NO_RM, kinds("other"), "deny"),
    "of no known kind, nothing denied": (limits(allow("bash")), kinds("other"), "allow"),
    "a command that only reads": (ONLY_READING, READER, "allow"),
    "a command that only reads, no commands": (BASH, READER, "allow"),
    "a command that only reads, no reading": (limits(deny("read")), READER, "deny"),
    "a nameless command that only reads": (BASH, NAMELESS, "allow"),
    "out of the tree": (BEYOND, OUTSIDE, "deny"),
    "within the tree": (BEYOND, call("Read"), "allow"),
    **{
        f"not among the named: {tool}": (ONLY_READING, call(tool), "deny")
        for tool in ("Bash", "Write", "mcp__a__b", "Task", "WhatComesNext")
    },
}


@pytest.mark.parametrize(("of", "asked", "expected"), WORDS.values(), ids=WORDS)
def test_a_call_is_judged_by_its_name_its_kind_and_all_it_may_be(of, asked, expected):
    assert word(of, asked) == expected


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("a*b *", "axbxb c", "axbxbc"),
        ("a*b*c", "abxbcxc", "abxbcx"),
        ("*a*", "bab", "bbb"),
        ("a**b?", "axybz", "axyb"),
        ("a?*b *", "axb", "ab"),
        ("rm? (a|b)", "rmx (a|b)", "rmx a"),  # a pattern is no expression
    ],
)
def test_stars_and_question_marks_fit_as_in_a_shell(pattern: str, fitting: str, other: str):
    of = limits(deny("bash", pattern=pattern))
    assert (word(of, call("bash", fitting)), word(of, call("bash", other))) == ("deny", "allow")


@pytest.mark.timeout(60)
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
