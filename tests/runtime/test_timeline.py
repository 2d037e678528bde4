"""The timeline has all of the audit: calls with their results, sub-agents under their call."""

from upthread.core.turns.effects import INTENT, Settlement
from upthread.core.types import (
    PERMISSION,
    ConversationId,
    ErasedPart,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
)
from upthread.runtime.record.timeline import ToolCall, items_of


def message(seq: int, *parts: Part, speaker: Speaker = Speaker.ASSISTANT) -> Message:
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=seq,
        speaker=speaker,
        turn_id=TurnId("trn_1"),
        upstream_session_id=None,
        recorded_at_ms=seq * 1000,
        parts=parts,
    )


def call(call_id: str, **more: object) -> ToolCallPart:
    arguments = {"command": "git push origin main"}
    return ToolCallPart(call_id=call_id, title="Push", tool_kind="execute", arguments=arguments)


def result(call_id: str, text: str = "ok") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, status="completed", text=text)


def note(call_id: str, answer: str) -> UnknownPart:
    raw = {"call_id": call_id, "answer": answer, "answered_by": "ada"}
    return UnknownPart(kind=PERMISSION, raw=raw)


def test_a_call_has_its_result_its_permission_and_what_it_did_beyond_this_machine():
    (item,) = items_of([message(1, call("a"), note("a", "allow_once")), message(2, result("a"))])
    assert (item.title, item.status, item.tool_kind) == ("Push", "completed", "execute")
    assert (item.answer, item.answered_by) == ("allow_once", "ada")
    assert (item.at_ms, item.ended_at_ms) == (1000, 2000)
    assert item.effect.actions


def test_nothing_that_was_said_or_done_is_left_out_or_told_twice():
    said = [
        message(1, TextPart(text="go"), speaker=Speaker.USER),
        message(2, ReasoningPart(text="hm"), call("a"), note("a", "reject_once")),
        message(3, note("a", "allow_once"), result("a", "first"), result("a", "second")),
        message(4, call("a"), result("gone"), note("nobody", "cancelled")),
        message(5, UnknownPart(kind="plan", raw=[]), ErasedPart(kind="text")),
        message(6, ErasedPart(kind="tool_call", call_id="b")),
        message(7, ErasedPart(kind="tool_result", call_id="b")),
        message(8, UnknownPart(kind=INTENT, raw={"call_id": "a"})),
    ]
    items = items_of(said)
    told = [
        (item.call_id, item.asked is not None, getattr(item.result, "text", item.status))
        if isinstance(item, ToolCall)
        else type(item.part).__name__
        for item in items
    ]
    assert told == [
        "TextPart",
        "ReasoningPart",
        ("a", True, "second"),
        "UnknownPart",  # the permission that was refused first
        ("a", False, "first"),
        ("a", True, "open"),
        ("gone", False, "ok"),
        "UnknownPart",  # one for a call that is not on record
        "UnknownPart",
        "ErasedPart",
        ("b", True, "erased"),
        "UnknownPart",
    ]
    erased = items[10]
    assert (erased.title, erased.tool_kind) == ("", "other")


def test_what_a_person_said_of_an_action_is_told_with_its_call():
    (item,) = items_of([message(1, call("a"))], said={"a": Settlement.NOT_DONE})
    assert item.effect.settled is Settlement.NOT_DONE
    assert not item.effect.is_in_doubt
