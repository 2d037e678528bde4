"""The hooks Codex lists: which of them it would run. The real one is asked in tests/live."""

import pytest

from upthread.agents.codex.hooks import Hook, hooks_in


def listed(**more):
    return {"eventName": "preToolUse", "command": "look", "enabled": True, **more}


@pytest.mark.parametrize(
    ("more", "is_run"),
    [
        ({"trustStatus": "trusted"}, True),
        ({"trustStatus": "managed"}, True),
        ({"trustStatus": "untrusted"}, False),
        ({"trustStatus": "modified"}, False),
        ({"trustStatus": "trusted", "enabled": False}, False),
        ({}, False),
    ],
)
def test_a_hook_is_run_when_it_is_on_and_somebody_trusts_it(more, is_run):
    answer = {"data": [{"cwd": "/p", "hooks": [listed(**more)]}]}
    assert hooks_in(answer) == (Hook(event="preToolUse", command="look", is_run=is_run),)


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": [{"hooks": "none"}]}])
def test_an_answer_without_hooks_lists_none(answer):
    assert hooks_in(answer) == ()
