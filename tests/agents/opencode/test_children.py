"""When a sub-agent began and ended."""

from __future__ import annotations

from upthread.agents.opencode.turn import ROLE_UNKNOWN, Family
from upthread.core.events import ChildEnded, ChildStarted
from upthread.core.types import Outcome


def task(child="ses_child", status="running", output=""):
    state = {
        "status": status,
        "input": {"subagent_type": "reviewer"},
        "metadata": {"sessionId": child} if child else {},
        "output": output,
    }
    return {"type": "tool", "tool": "task", "callID": "c", "state": state}


def test_a_child_starts_with_the_call_that_names_it_and_only_once():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main", "agent": "general"})
    assert family.called(task(), "ses_main") == (
        ChildStarted(
            upstream_session_id="ses_main",
            child_upstream_session_id="ses_child",
            role="reviewer",
            call_id="c",
        ),
    )
    assert family.called(task(), "ses_main") == ()
    assert family.speaks("ses_child") == ()


def test_a_child_that_speaks_before_its_call_names_it_starts_there():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main"})
    (started,) = family.speaks("ses_child")
    assert (started.role, started.call_id) == (ROLE_UNKNOWN, None)
    assert family.called(task(), "ses_main") == ()


def test_a_grandchild_is_of_the_family_and_its_parents_child():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main"})
    family.born({"id": "ses_grandchild", "parentID": "ses_child"})
    assert family.speaks("ses_grandchild")[0].upstream_session_id == "ses_child"


def test_a_session_of_others_is_let_be():
    family = Family("ses_main")
    family.born({"id": "ses_other", "parentID": "ses_elsewhere"})
    family.born({"id": "ses_alone"})
    assert not family.has("ses_other")
    assert not family.has("ses_alone")
    assert family.speaks("ses_other") == ()


def test_a_child_of_an_earlier_prompt_starts_again_when_it_is_given_work():
    family = Family("ses_main")
    assert family.called(task(), "ses_main")
    assert family.has("ses_child")


def test_a_child_ends_with_its_call_once():
    family = Family("ses_main")
    family.called(task(), "ses_main")
    assert family.returned(task(), "ses_main") == ()
    assert family.returned(task(status="error"), "ses_main") == (
        ChildEnded(
            upstream_session_id="ses_main",
            child_upstream_session_id="ses_child",
            outcome=Outcome.UNKNOWN,
        ),
    )
    assert family.returned(task(status="completed"), "ses_main") == ()


def test_a_child_in_the_background_outlives_its_call():
    family = Family("ses_main")
    family.called(task(), "ses_main")
    running = task(status="completed", output='<task id="ses_child" state="running">')
    assert family.returned(running, "ses_main") == ()


def test_a_child_may_be_named_in_the_output_alone():
    family = Family("ses_main")
    done = task(child="", status="completed", output='<task id="ses_late" state="completed">')
    assert family.called(done, "ses_main")[0].child_upstream_session_id == "ses_late"
    older = task(child="", status="completed", output="task_id: ses_older (for resuming)")
    assert family.called(older, "ses_main")[0].child_upstream_session_id == "ses_older"
