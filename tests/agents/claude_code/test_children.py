"""Sub-agents: whose words a frame holds, when one began and ended."""

from __future__ import annotations

from tests.agents.claude_code.frames import CALL, CHILD, ENDED, OF_CHILD, SESSION, STARTED, system

from upthread.agents.claude_code.translation import Children, child_session, role_of
from upthread.core.events import ChildEnded, ChildStarted
from upthread.core.types import Outcome


def test_a_child_is_started_by_its_task_and_ended_by_its_notification():
    children = Children()
    assert children.started(STARTED, SESSION) == (
        ChildStarted(
            upstream_session_id=SESSION,
            child_upstream_session_id=CHILD,
            role="general-purpose",
            call_id=CALL,
        ),
    )
    assert children.speaking(OF_CHILD, SESSION) == ((), CHILD)
    assert children.of_call(CALL) == CHILD
    assert children.ended(ENDED, SESSION) == (
        ChildEnded(upstream_session_id=SESSION, child_upstream_session_id=CHILD),
    )


def test_a_child_that_speaks_before_it_is_told_of_starts_then():
    children = Children()
    started, speaker = children.speaking({"parent_tool_use_id": CALL}, SESSION)
    assert speaker == child_session(SESSION, CALL)
    assert [event.role for event in started] == ["subagent"]
    assert children.speaking({"parent_tool_use_id": CALL}, SESSION) == ((), speaker)


def test_a_childs_child_belongs_to_the_child():
    children = Children()
    children.started(STARTED, SESSION)
    deeper = {**STARTED, "task_id": "b2", "tool_use_id": "toolu_9"}
    (started,) = children.started({**deeper, "parent_task_id": STARTED["task_id"]}, SESSION)
    assert started.upstream_session_id == CHILD


def test_a_task_that_is_no_sub_agent_is_none():
    children = Children()
    assert children.started({**STARTED, "task_type": "local_bash"}, SESSION) == ()
    assert children.started(system("task_started", task_type="local_agent"), SESSION) == ()
    assert children.ended(ENDED, SESSION) == ()


def test_a_child_that_was_stopped_or_failed_says_so():
    outcomes = []
    for status in ("stopped", "failed", ""):
        children = Children()
        children.started(STARTED, SESSION)
        (ended,) = children.ended({**ENDED, "status": status}, SESSION)
        outcomes.append(ended.outcome)
    assert outcomes == [Outcome.CANCELLED, Outcome.UNKNOWN, Outcome.UNKNOWN]


def test_the_role_is_the_sub_agents_type():
    assert role_of({"subagent_type": "Explore"}) == "Explore"
    assert role_of({}) == "subagent"
