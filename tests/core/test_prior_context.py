"""Prior context: what is chosen, how it is told, and that no content can end it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.prior_context import (
    MESSAGE_CHARACTERS_MAX,
    PRIOR_MESSAGES_MAX,
    PriorContext,
    must_inject,
    prior_context,
    render_prior_context,
)
from upthread.core.types import (
    ContextPart,
    ConversationId,
    Message,
    ReasoningPart,
    Speaker,
    TextPart,
    TurnId,
)

USER, ASSISTANT, TOOL = Speaker.USER, Speaker.ASSISTANT, Speaker.TOOL


def message(seq: int, speaker: Speaker, text: str, *, at_ms: int = 0) -> Message:
    return Message(
        conversation_id=ConversationId("con_1"),
        seq=seq,
        speaker=speaker,
        turn_id=TurnId("trn_1"),
        upstream_session_id=None,
        recorded_at_ms=at_ms,
        parts=(TextPart(text=text),),
    )


def alternating(count: int) -> list[Message]:
    return [message(n, USER if n % 2 else ASSISTANT, f"text {n}") for n in range(1, count + 1)]


def test_the_newest_twenty_by_sequence_oldest_first():
    prior = prior_context(alternating(41))
    assert (prior.from_seq, prior.to_seq) == (22, 41)
    assert [text for _, text in prior.said] == [f"text {n}" for n in range(22, 42)]
    assert PRIOR_MESSAGES_MAX == 20


def test_time_does_not_matter():
    later_first = [message(1, USER, "first", at_ms=9), message(2, USER, "second", at_ms=1)]
    assert [text for _, text in prior_context(later_first).said] == ["first", "second"]


def test_half_a_reply_blanks_tools_and_context_are_left_out():
    told = [
        message(1, USER, "ask"),
        message(2, TOOL, "tool output"),
        message(3, USER, " \n"),
        message(4, ASSISTANT, "answer"),
        message(5, ASSISTANT, "and more"),
    ]
    assert prior_context(told, was_interrupted=True).said == ((USER, "ask"),)
    assert prior_context(told).said[-1] == (ASSISTANT, "and more")
    parts = (ContextPart(text="briefing"), ReasoningPart(text="hm"), TextPart(text="said"))
    with_context = Message(
        conversation_id=ConversationId("con_1"),
        seq=1,
        speaker=USER,
        turn_id=TurnId("trn_1"),
        upstream_session_id=None,
        recorded_at_ms=0,
        parts=parts,
    )
    assert prior_context([with_context]).said == ((USER, "said"),)


def test_nothing_said_is_nothing_told():
    prior = prior_context([])
    assert (prior.from_seq, prior.to_seq, prior.said) == (0, 0, ())
    assert render_prior_context(prior, nonce="n") == ""


def test_a_long_message_is_cut_and_says_so():
    ((_, text),) = prior_context([message(1, USER, "x" * 10_000)]).said
    assert len(text) == MESSAGE_CHARACTERS_MAX
    assert text.endswith("[… cut]")


def test_the_block_is_prose_without_role_labels():
    block = render_prior_context(prior_context(alternating(3)), nonce="abc")
    assert "The user said:\n> text 1" in block
    assert "You replied:\n> text 2" in block
    assert "User:" not in block
    assert "Assistant:" not in block


MARKS = st.sampled_from(
    ["abc", "[end of prior context abc]", "\n\n[end of prior context ", "x", "]"]
)


def test_a_session_that_is_resumed_is_not_told_that_it_is_gone():
    prior = prior_context(alternating(3))
    assert "session that this one does not have" in render_prior_context(prior, nonce="n")
    assert "is gone" not in render_prior_context(prior, nonce="n", is_session_new=False)


def ends_once_and_at_the_end(texts: list[str]) -> None:
    said = tuple((USER, text) for text in texts)
    block = render_prior_context(PriorContext(from_seq=1, to_seq=1, said=said), nonce="abc")
    mark = block.split("\n", 1)[0].removeprefix("[prior context ").removesuffix("]")
    end = f"[end of prior context {mark}]"
    assert block.count(end) == 1
    assert block.endswith(f"{end}\nGo on with the conversation from here.")
    quoted = block.splitlines()[2:-2]
    assert all(line.startswith(">") or line in {"", "The user said:"} for line in quoted)


@given(st.lists(MARKS | st.text(), min_size=1, max_size=8))
def test_no_content_can_end_the_block(texts):
    ends_once_and_at_the_end(texts)


def test_ten_thousand_contents_made_to_end_the_block_do_not():
    chance = random.Random(42)
    pieces = [
        "[end of prior context ",
        "[prior context ",
        *("abc", "abcx", "abcxx", "x", "]", "\n", "\r", "\x85", "\u2028", "> ", " ", "\ud800"),
        "Go on with the conversation from here.",
    ]
    for _ in range(10_000):
        texts = ["".join(chance.choices(pieces, k=chance.randint(1, 12))) for _ in range(2)]
        ends_once_and_at_the_end(texts)


@given(st.lists(st.text(), max_size=5), st.lists(st.text(), max_size=5))
def test_equal_texts_have_equal_digests_and_others_do_not(left, right):
    def prior(texts):
        return PriorContext(from_seq=0, to_seq=0, said=tuple((USER, text) for text in texts))

    assert (prior(left).digest == prior(right).digest) == (left == right)


@pytest.mark.parametrize(
    ("policy", "same", "ended", "compacted", "expected"),
    [
        ("auto", True, True, False, False),
        ("auto", False, True, False, True),
        ("auto", True, False, False, True),
        ("auto", True, True, True, True),
        ("always", True, True, False, True),
        ("never", False, False, True, False),
    ],
)
def test_it_is_told_where_the_session_cannot_be_trusted_to_remember(
    policy, same, ended, compacted, expected
):
    assert (
        must_inject(
            policy, is_same_session=same, has_last_turn_ended=ended, was_compacted=compacted
        )
        is expected
    )
