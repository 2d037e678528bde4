"""Sub-agents of Codex: named by a call, started once, ended as their turn ended."""

from __future__ import annotations

import pytest

from upthread.agents.codex.turn import ROLE_UNKNOWN, Family, children_named
from upthread.core.types import Outcome


@pytest.mark.parametrize("tool", ["spawnAgent", "sendInput", "resumeAgent", "followupTask"])
def test_a_call_that_gives_work_names_whom(tool):
    item = {"type": "collabAgentToolCall", "tool": tool, "receiverThreadIds": ["a", "b"]}
    assert children_named(item) == ("a", "b")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "collabAgentToolCall", "tool": "wait", "receiverThreadIds": ["a"]},
        {"type": "collabAgentToolCall", "tool": "spawnAgent"},
        {"type": "subAgentActivity", "kind": "completed", "agentThreadId": "a"},
        {"type": "subAgentActivity", "kind": "started"},
        {"type": "agentMessage"},
        {},
    ],
)
def test_anything_else_names_nobody(item):
    assert children_named(item) == ()


def test_an_activity_names_the_thread_it_started():
    item = {"type": "subAgentActivity", "kind": "started", "agentThreadId": "a"}
    assert children_named(item) == ("a",)


def test_a_child_is_started_once_and_the_prompts_own_thread_is_none():
    family = Family("own")
    (started,) = family.start("a", parent="own", role="explorer", call_id="c")
    assert (started.role, started.call_id) == ("explorer", "c")
    assert family.start("a", parent="own") == ()
    assert family.start("own", parent="a") == ()
    (nested,) = family.start("b", parent="a")
    assert (nested.upstream_session_id, nested.role) == ("a", ROLE_UNKNOWN)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("completed", "ok"), ("interrupted", "cancelled"), ("failed", "unknown")],
)
def test_a_child_ends_as_its_turn_did_and_may_be_given_more_work(status, outcome):
    family = Family("own")
    family.start("a", parent="own")
    (ended,) = family.end("a", status)
    assert ended.outcome is Outcome(outcome)
    assert family.end("a", status) == ()
    assert family.working == set()
    family.goes_on("a")
    family.goes_on("a stranger")
    assert family.working == {"a"}
