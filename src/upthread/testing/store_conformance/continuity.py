"""S22 to S25: what a conversation is gone on with, what is done once, and what was examined."""

from collections.abc import Collection

from msgspec.structs import replace

from upthread.core.commands import OpenConversation
from upthread.core.context.prior_context import REPLY_BEGINNING_MAX, REPLY_END_MAX
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.types import (
    ContextPart,
    ConversationId,
    ErasedPart,
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UpstreamSessionId,
)
from upthread.errors import ConflictError, NotFoundError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refused, refuses
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, edit, examined, step

CALL = ToolCallPart(call_id="c", title="t", tool_kind="read")
RESULT = ToolResultPart(call_id="c", status="completed", text="a result")
A, B = UpstreamSessionId("ses_a"), UpstreamSessionId("ses_b")

_BATCH_MESSAGES = 1_000
_TOOLS_BETWEEN = 3_000


def _prior(
    trial: Trial, *upstreams: UpstreamSessionId, newest: int = 20
) -> tuple[tuple[int, str], ...]:
    found = trial.store.prior_messages(CONVERSATION, upstream_session_ids=upstreams, newest=newest)
    return tuple((message.seq, message.text) for message in found)


@promise("S22")
def what_was_said_comes_back_without_tools(trial: Trial) -> None:
    speeches: tuple[tuple[Speaker, tuple[Part, ...]], ...] = (
        (Speaker.USER, (ContextPart(text="read this"), TextPart(text="do it"))),
        (Speaker.ASSISTANT, (ReasoningPart(text="hm"), CALL)),
        (Speaker.TOOL, (RESULT, TextPart(text="not said by anybody"))),
        (Speaker.ASSISTANT, (TextPart(text=" \n"), ReasoningPart(text="well"))),
        (Speaker.ASSISTANT, (TextPart(text="\u2003"), CALL, TextPart(text="a\0\ud800"))),
        (Speaker.USER, (ErasedPart(kind="text"),)),
        (Speaker.USER, (TextPart(text=""),)),
    )
    trial.commit(*samples.home())
    for seq, (speaker, parts) in enumerate(speeches, 1):
        trial.commit(samples.said(seq, *parts, speaker=speaker))
    trial.reopen()
    found = trial.store.prior_messages(CONVERSATION, upstream_session_ids=(A,), newest=20)
    whole = {message.seq: message for message in trial.store.messages(CONVERSATION)}

    def only(seq: int, *texts: str) -> Message:
        return replace(whole[seq], parts=tuple(TextPart(text=text) for text in texts))

    assert found == (only(1, "do it"), only(5, "\u2003", "a\0\ud800"))


@promise("S22")
def only_readable_sessions_and_no_session_are_read(trial: Trial) -> None:
    trial.commit(*samples.home())
    for seq, upstream in enumerate((None, A, B, None, A), 1):
        trial.commit(replace(samples.said(seq), upstream_session_id=upstream))

    def seqs(upstreams: Collection[UpstreamSessionId]) -> list[int]:
        return [seq for seq, _ in _prior(trial, *upstreams)]

    assert seqs(()) == [1, 4]
    assert seqs((A,)) == [1, 2, 4, 5]
    assert seqs((A, B, B)) == [1, 2, 3, 4, 5]
    assert seqs((UpstreamSessionId("ses_\ud800"), B)) == [1, 3, 4]


@promise("S22")
def the_newest_are_returned_oldest_first_by_number(trial: Trial) -> None:
    trial.commit(*samples.home())
    for seq, at_ms in enumerate((9_000, 1_000, -1, 5_000, 1_000), 1):
        trial.commit(replace(samples.said(seq), recorded_at_ms=at_ms))
    assert [seq for seq, _ in _prior(trial, A, newest=3)] == [3, 4, 5]
    assert [seq for seq, _ in _prior(trial, A, newest=5)] == [1, 2, 3, 4, 5]
    assert _prior(trial, A, newest=0) == _prior(trial, A, newest=-1) == ()
    nobody = ConversationId("con_nobody")
    assert trial.store.prior_messages(nobody, upstream_session_ids=(A,), newest=9) == ()


@promise("S22")
def a_reply_in_many_steps_is_one_and_pushes_nobody_out(trial: Trial) -> None:
    steps = 200
    trial.commit(*samples.home(), samples.said(1))
    replies = [samples.said(seq, speaker=Speaker.ASSISTANT) for seq in range(2, 2 + steps)]
    trial.commit(*replies, samples.said(2 + steps))
    kept = [*range(2, 2 + REPLY_BEGINNING_MAX), *range(2 + steps - REPLY_END_MAX, 2 + steps)]
    assert [seq for seq, _ in _prior(trial, A, newest=2)] == [1, *kept, 2 + steps]
    assert [seq for seq, _ in _prior(trial, A, newest=1)] == [2 + steps]


@promise("S22")
def however_much_tools_did_between_it_is_found(trial: Trial) -> None:
    trial.commit(*samples.home(), samples.said(1), samples.said(2))
    last = _TOOLS_BETWEEN + 3
    for first in range(3, last, _BATCH_MESSAGES):
        seqs = range(first, min(first + _BATCH_MESSAGES, last))
        trial.store.commit([samples.said(seq, RESULT, speaker=Speaker.TOOL) for seq in seqs])
    assert _prior(trial, A) == ((1, "message 1"), (2, "message 2"))
    trial.commit(samples.said(last))
    assert [seq for seq, _ in _prior(trial, A, newest=2)] == [2, last]


@promise("S23")
def one_attempt_begins_and_leaves_its_receipt(trial: Trial) -> None:
    store = trial.store
    assert store.once(PROJECT, "deploy") is None
    trial.commit(step("intent"))
    assert store.once(PROJECT, "deploy") == step("intent")
    with refused(ConflictError):
        trial.commit(samples.workstream(), step("intent", "att_2"))
    assert store.workstreams(PROJECT) == ()
    receipt: JsonValue = {"url": "\ud800", "n": [1, None, float("inf")]}
    trial.commit(step("done", receipt=receipt))
    trial.reopen()
    assert trial.store.once(PROJECT, "deploy") == step("done", receipt=receipt)
    with refused(ConflictError):
        trial.commit(step("intent", "att_2"))


@promise("S23")
def a_failed_attempt_makes_room_for_the_next(trial: Trial) -> None:
    store = trial.store
    trial.commit(step("intent"), step("failed"))
    assert store.once(PROJECT, "deploy") == step("failed")
    trial.commit(step("intent", "att_2"))
    with refused(ConflictError):
        trial.commit(step("done", receipt="too late"))
    assert store.once(PROJECT, "deploy") == step("intent", "att_2")


@promise("S23")
def an_attempt_ends_once_and_only_after_it_began(trial: Trial) -> None:
    store = trial.store
    refuses(trial, NotFoundError, (step("done"), step("failed")))
    trial.commit(step("intent"))
    refuses(trial, ConflictError, (step("done", "att_2"), step("failed", "att_2")))
    trial.commit(step("done", receipt=1))
    refuses(trial, ConflictError, (step("failed"), step("done", receipt=2)))
    trial.commit(step("intent"), step("done", receipt=1))  # the same again (S2)
    assert store.once(PROJECT, "deploy") == step("done", receipt=1)


# --- what was examined, and what persons made of briefings ----------------------------------------


ODD = UpstreamSessionId("ses_\ud800")
OTHER = ConversationId("con_two")
READ = ExaminedFile(
    path="src/a.py",
    how="read",
    state="hashed",
    size_bytes=3_000_000_000,
    mtime_ns=1_763_731_118_123_456_789,
    digest="c0ffee",
)
WROTE = replace(READ, how="wrote", mtime_ns=None, digest="beef")
VANISHED = ExaminedFile(path="/etc/\0'; DROP\ud800", how="read", state="missing")


@promise("S24")
def the_last_word_on_each_path_comes_back_whole(trial: Trial) -> None:
    store = trial.store
    trial.commit(*samples.home(), examined(0, READ, VANISHED))
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ, VANISHED)
    trial.commit(examined(1 << 16, WROTE))  # a gap is none
    trial.reopen()
    assert trial.store.examined(CONVERSATION, upstream_session_id=A) == (VANISHED, WROTE)
    assert trial.store.examined(ConversationId("con_nobody")) == ()


@promise("S24")
def sessions_and_conversations_know_their_own_files(trial: Trial) -> None:
    key = samples.sibling_key(role="auditor")
    other = OpenConversation(conversation=samples.conversation(OTHER, key=key))
    trial.commit(*samples.home(), other)
    later = replace(READ, digest="later")
    trial.commit(examined(0, READ), examined(1, later, session=ODD))
    trial.commit(examined(2, VANISHED, owner=OTHER))
    trial.reopen()
    store = trial.store
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ,)
    assert store.examined(CONVERSATION, upstream_session_id=ODD) == (later,)
    assert store.examined(CONVERSATION, upstream_session_id="ses_c") == ()
    assert store.examined(CONVERSATION) == (later,)
    assert store.examined(OTHER) == (VANISHED,)


@promise("S24")
def a_place_is_written_once(trial: Trial) -> None:
    store = trial.store
    trial.commit(*samples.home(), examined(0, READ, VANISHED))
    trial.commit(examined(0, READ, VANISHED), examined(1, VANISHED))  # the same again (S2)
    for other in (
        examined(0, WROTE),
        examined(1, READ),
        examined(0, READ, session=ODD),
        replace(examined(0, READ), recorded_at_ms=9_001),
    ):
        with refused(ConflictError):
            trial.commit(examined(7, WROTE), other)
    assert store.examined(CONVERSATION) == (READ, VANISHED)


@promise("S25")
def the_newest_edit_of_a_briefing_stands(trial: Trial) -> None:
    trial.commit(*samples.home())
    assert trial.store.briefing_edit(CONVERSATION) is None
    trial.commit(edit(1, "first"), edit(2, "\ud800\0"))
    trial.commit(edit(1, "first"))  # the same again (S2)
    trial.reopen()
    assert trial.store.briefing_edit(CONVERSATION) == edit(2, "\ud800\0")
