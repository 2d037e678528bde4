"""A role's limits as OpenCode takes them with a prompt: tools that are off, none that is on."""

from __future__ import annotations

from upthread.agents.opencode.adapter import prompt_limits
from upthread.core.roles.limits import NO_LIMITS
from upthread.core.roles.role import limits_of_front_matter


def body(**fields: object) -> dict[str, object]:
    return dict(prompt_limits(limits_of_front_matter(fields, "a"), agent="opencode"))


def test_without_limits_a_prompt_is_as_it_was():
    assert prompt_limits(NO_LIMITS, agent="opencode") == {}


def test_what_is_denied_wholly_is_off():
    denied = {"bash": "deny", "edit": "deny", "github_*": "deny", "external_directory": "deny"}
    assert body(permission=denied) == {
        "tools": dict.fromkeys(("bash", "external_directory", "edit", "github_*"), False)
    }
    assert body(mode="subagent") == {
        "tools": {"task": False, "todoread": False, "todowrite": False}
    }


def test_what_is_denied_for_some_arguments_or_asked_about_is_left_to_the_gate():
    assert body(permission={"bash": {"*": "deny", "git *": "allow"}, "edit": "ask"}) == {}
    assert body(disallowedTools="Write") == {}


def test_nothing_is_ever_switched_on():
    off = body(tools="Read, Grep")["tools"]
    assert isinstance(off, dict)
    assert set(off.values()) == {False}
    assert off.keys().isdisjoint({"read", "grep"})
    assert {"bash", "edit", "task", "question", "webfetch"} <= off.keys()
    assert body(permission="allow") == {}


def test_its_model_is_named_and_no_other_agents():
    assert body(model="a/b/c") == {"model": {"providerID": "a", "modelID": "b/c"}}
    assert body(model="haiku") == {}
