"""Exchanges: a reply is one however many steps narrate it; what is kept of a long one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.context.exchanges import (
    REPLY_BEGINNING_MAX,
    REPLY_END_MAX,
    calls_of,
    exchanges_of,
    newest_exchanges,
    plan_of,
    work_of,
)
from upthread.core.types import (
    ConversationId,
    Message,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
)

USER, ASSISTANT = Speaker.USER, Speaker.ASSISTANT


def message(seq: int, speaker: Speaker, turn: str = "trn_1", *parts: Part) -> Message:
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=seq,
        speaker=speaker,
        turn_id=TurnId(turn),
        upstream_session_id=None,
        recorded_at_ms=0,
        parts=parts or (TextPart(text=f"text {seq}"),),
    )


def turn(number: int, steps: int, *, first_seq: int) -> list[Message]:
    name = f"trn_{number}"
    asked = message(first_seq, USER, name)
    return [asked, *(message(first_seq + at, ASSISTANT, name) for at in range(1, steps + 1))]


def seqs(messages) -> list[int]:
    return [each.seq for each in messages]


def test_a_turn_of_two_hundred_steps_is_one_exchange_and_pushes_nobody_out():
    history = [*turn(1, 1, first_seq=1), *turn(2, 200, first_seq=3), *turn(3, 0, first_seq=204)]
    found = newest_exchanges(reversed(history), 3)
    beginning, end = range(4, 4 + REPLY_BEGINNING_MAX), range(204 - REPLY_END_MAX, 204)
    assert seqs(found) == [1, 2, 3, *beginning, *end, 204]
    assert seqs(newest_exchanges(reversed(history), 2)) == seqs(found)[2:]
    assert newest_exchanges(reversed(history), 0) == newest_exchanges(reversed(history), -1) == ()


def test_a_turn_without_a_prompt_is_an_exchange_of_its_own():
    history = [
        message(1, USER),
        message(2, ASSISTANT),
        message(3, ASSISTANT, "trn_2"),
        message(4, ASSISTANT, "trn_3"),
    ]
    assert [seqs(newest_exchanges(reversed(history), n)) for n in (1, 2, 3)] == [
        [4],
        [3, 4],
        [1, 2, 3, 4],
    ]
    found = list(exchanges_of(history))
    assert [each.prompt.seq if each.prompt else None for each in found] == [1, None, None]
    assert [seqs(each.reply) for each in found] == [[2], [3], [4]]


def test_prompts_of_one_turn_are_exchanges_of_their_own():
    history = [message(1, USER), message(2, USER), message(3, ASSISTANT), message(4, USER)]
    assert seqs(newest_exchanges(reversed(history), 2)) == [2, 3, 4]
    assert [seqs(each.reply) for each in exchanges_of(history)] == [[], [3], []]
    assert list(exchanges_of([])) == []


def test_no_message_is_taken_that_is_not_needed():
    def history():
        yield from reversed(turn(2, 3, first_seq=10))
        raise AssertionError("read on")

    assert seqs(newest_exchanges(history(), 1)) == [10, 11, 12, 13]


@given(
    st.lists(st.tuples(st.sampled_from((USER, ASSISTANT)), st.integers(1, 3)), max_size=60),
    st.integers(0, 8),
)
def test_it_is_bounded_ordered_and_never_without_a_prompt_that_is_within(spoken, newest):
    history, number = [], 0
    for seq, (speaker, turns) in enumerate(spoken, 1):
        number += turns // 3
        history.append(message(seq, speaker, f"trn_{number}"))
    found = newest_exchanges(reversed(history), newest)
    assert seqs(found) == sorted(set(seqs(found)))
    assert len(found) <= newest * (1 + REPLY_BEGINNING_MAX + REPLY_END_MAX)
    within = [each for each in history if found and each.seq >= found[0].seq]
    assert [m for m in within if m.speaker is USER] == [m for m in found if m.speaker is USER]
    assert len(list(exchanges_of(found))) == min(newest, len(list(exchanges_of(history))))


def test_calls_are_known_by_title_and_by_what_came_of_them():
    def call(call_id, title):
        return ToolCallPart(call_id=call_id, title=title, tool_kind="read")

    def result(call_id, status):
        return ToolResultPart(call_id=call_id, status=status, text="")

    history = [
        message(1, ASSISTANT, "trn_1", call("a", "Read a"), call("b", "Run b"), call("c", "Run c")),
        message(2, Speaker.TOOL, "trn_1", result("a", "completed"), result("b", "failed")),
        message(3, ASSISTANT, "trn_2", call("d", "Run d")),
        message(4, Speaker.TOOL, "trn_2", result("d", "unknown")),
    ]
    assert calls_of(history) == {
        "trn_1": ("Read a", "Run b: failed", "Run c: no result known"),
        "trn_2": ("Run d: unknown",),
    }
    assert work_of(history).calls == calls_of(history)


def test_the_newest_plan_is_told():
    older = UnknownPart(kind="plan", raw=[["old", "done"]])
    newer = UnknownPart(kind="plan", raw=[["look", "completed"], ["write", "pending"]])
    history = [message(1, ASSISTANT, "trn_1", older, newer), message(2, ASSISTANT)]
    assert plan_of(history) == work_of(history).plan
    assert plan_of(history) == (("look", "completed"), ("write", "pending"))
    assert plan_of([message(1, USER)]) == ()
