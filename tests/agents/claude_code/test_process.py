"""A role's limits as words of Claude Code's command line: only ever such as take away."""

from __future__ import annotations

import pytest

from upthread.agents.claude_code.adapter import TOOLS, UNATTENDED, limiting_words
from upthread.core.roles.limits import NO_LIMITS, RoleLimits
from upthread.core.roles.role import limits_of_codex, limits_of_front_matter

USUAL = f"--disallowedTools={','.join(UNATTENDED)}"


def words(of: RoleLimits) -> tuple[str, ...]:
    return limiting_words(of, agent="claude-code")


def front(**fields: object) -> RoleLimits:
    return limits_of_front_matter(fields, "a")


def test_without_limits_only_what_waits_for_a_person_is_off():
    assert words(NO_LIMITS) == (USUAL,)


def test_what_is_denied_wholly_is_not_offered():
    of = front(disallowedTools="Bash, mcp__a__b, WebFetch")
    assert words(of) == (f"{USUAL},Bash,PowerShell,WebFetch,mcp__a__b",)
    assert words(front(permission={"bash": {"rm *": "deny"}})) == (USUAL,)
    assert words(limits_of_codex({"sandbox_mode": "read-only"}, "a")) == (
        f"{USUAL},Bash,Edit,MultiEdit,NotebookEdit,PowerShell,Write",
    )


def test_where_only_named_tools_are_left_no_other_is_offered():
    disallowed, offered = words(front(tools="Read, Grep"))
    assert offered == "--tools=Grep,NotebookRead,Read"
    denied = disallowed.removeprefix(f"{USUAL},").split(",")
    assert {*denied, "Grep", "NotebookRead", "Read"} == set(TOOLS)
    assert words(front(tools=[]))[1] == "--tools="


def test_its_model_is_named_and_no_other_agents():
    assert words(front(model="haiku")) == (USUAL, "--model=haiku")
    assert words(front(model="a/b")) == (USUAL,)


@pytest.mark.parametrize(
    "fields",
    [
        {"permissionMode": "bypassPermissions"},
        {"permissionMode": "acceptEdits"},
        {"permission": "allow"},
        {"permission": {"bash": "allow"}},
    ],
)
def test_what_a_file_allows_becomes_no_word(fields: dict[str, object]):
    assert words(front(**fields)) == (USUAL,)
