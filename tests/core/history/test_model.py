"""Our own messages as a history."""

import pytest
from tests.core.history.histories import call, history, message, result, text
from tests.core.messages import stored

from upthread.core.history.model import CURES, faults, history_of, results_without_calls
from upthread.core.types import JsonValue, Speaker, UnknownPart


def test_our_messages_keep_speaker_parts_and_place():
    (said,) = history_of([stored(text("hi"), seq=7, speaker=Speaker.USER)])
    assert (said.speaker, said.parts, said.place) == (Speaker.USER, (text("hi"),), "message 7")


# --- soundness: each fault is named with its cure -------------------------------------------------


NOTE = UnknownPart(kind="plan", raw=None)
FAULTS = {
    "every_call_has_a_result": (message("user", text("a")), message("assistant", call("c"))),
    "every_result_has_a_call": (message("user", text("a")), message("tool", result("c"))),
    "one_result_for_a_call": (
        message("assistant", call("c")),
        message("tool", result("c"), result("c")),
    ),
    "call_ids_differ": (
        message("assistant", call("c")),
        message("tool", result("c")),
        message("assistant", call("c")),
        message("tool", result("c")),
    ),
    "results_stand_after_their_calls": (
        message("assistant", call("c"), text("meanwhile")),
        message("tool", result("c")),
    ),
}


@pytest.mark.parametrize("rule", CURES)
def test_each_fault_is_named_with_its_place_and_its_cure(rule):
    found = faults(FAULTS[rule])
    assert rule in {fault.rule for fault in found}
    assert all(fault.cure and fault.what and fault.place for fault in found)


def test_a_step_made_of_two_messages_is_sound():
    made = history(
        message("assistant", call("c1")),
        message("assistant", NOTE, call("c2")),
        message("tool", NOTE, result("c2"), result("c1")),
    )
    assert faults(made) == ()


def test_a_result_after_the_next_step_is_late():
    late = (
        message("assistant", call("c1"), call("c2")),
        message("tool", result("c1")),
        message("assistant", call("c3")),
        message("tool", result("c2"), result("c3")),
    )
    assert faults(late)
    assert [fault.rule for fault in faults(late)] == ["results_stand_after_their_calls"]


def test_faults_come_in_the_order_of_the_history():
    found = faults(
        history(
            message("assistant", call("open")),
            message("tool", result("x")),
            message("tool", result("y")),
        )
    )
    assert [fault.place for fault in found] == ["message 1", "message 2", "message 3"]


def test_a_result_of_the_openai_agents_sdk_is_held_against_the_calls_that_were_not_taken_back():
    made, ended = ({"type": f"function_call{end}", "call_id": "c"} for end in ("", "_output"))
    said = {"role": "user", "content": "hi"}

    def places(*values: JsonValue, kind: str = "framework:openai-agents") -> list[str]:
        kept = [stored(UnknownPart(kind=kind, raw=each), seq=n) for n, each in enumerate(values, 1)]
        return [fault.place for fault in results_without_calls(kept)]

    assert places({"item": said}, {"item": made}, {"item": ended}) == []
    assert places({"item": made}, {"popped": 1}, {"item": ended}, {"item": made}) == ["message 3"]
    assert places({"item": ended}, {"popped": 1}) == []
    assert places({"item": ended}, kind="framework:langgraph") == []
