"""S24 and S25: what sessions have examined, and what persons made of briefings."""

from __future__ import annotations

from msgspec import structs

from upthread.core.commands import OpenConversation, RecordBriefingEdit, RecordExamined
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import ConversationId, TurnId, UpstreamSessionId
from upthread.errors import ConflictError, NotFoundError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises, refused
from upthread.testing.store_conformance.samples import CONVERSATION, TURN

A, B = UpstreamSessionId("ses_a"), UpstreamSessionId("ses_\ud800")
OTHER = ConversationId("con_two")
READ = ExaminedFile(
    path="src/a.py",
    how="read",
    state="hashed",
    size_bytes=3_000_000_000,
    mtime_ns=1_763_731_118_123_456_789,
    digest="c0ffee",
)
WROTE = structs.replace(READ, how="wrote", mtime_ns=None, digest="beef")
VANISHED = ExaminedFile(path="/etc/\0'; DROP\ud800", how="read", state="missing")


def _examined(
    first_ordinal: int,
    *files: ExaminedFile,
    owner: ConversationId = CONVERSATION,
    upstream: UpstreamSessionId = A,
    turn_id: TurnId = TURN,
) -> RecordExamined:
    return RecordExamined(
        conversation_id=owner,
        turn_id=turn_id,
        first_ordinal=first_ordinal,
        upstream_session_id=upstream,
        files=files,
        recorded_at_ms=9_000,
    )


def the_last_word_on_each_path_comes_back_whole(trial: Trial) -> None:
    store = trial.store
    store.commit([*samples.home(), _examined(0, READ, VANISHED)])
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ, VANISHED)
    store.commit([_examined(1 << 16, WROTE)])  # a gap is none
    trial.reopen()
    assert trial.store.examined(CONVERSATION, upstream_session_id=A) == (VANISHED, WROTE)
    assert trial.store.examined(ConversationId("con_nobody")) == ()


def sessions_and_conversations_know_their_own_files(trial: Trial) -> None:
    key = samples.sibling_key(role="auditor")
    other = OpenConversation(conversation=samples.conversation(OTHER, key=key))
    trial.store.commit([*samples.home(), other])
    later = structs.replace(READ, digest="later")
    trial.store.commit([_examined(0, READ), _examined(1, later, upstream=B)])
    trial.store.commit([_examined(2, VANISHED, owner=OTHER)])
    trial.reopen()
    store = trial.store
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ,)
    assert store.examined(CONVERSATION, upstream_session_id=B) == (later,)
    assert store.examined(CONVERSATION, upstream_session_id="ses_c") == ()
    assert store.examined(CONVERSATION) == (later,)
    assert store.examined(OTHER) == (VANISHED,)


def a_place_is_written_once_and_only_in_what_was_opened(trial: Trial) -> None:
    store = trial.store
    store.commit([*samples.home(), _examined(0, READ, VANISHED)])
    store.commit([_examined(0, READ, VANISHED), _examined(1, VANISHED)])  # the same again (S2)
    for other in (
        _examined(0, WROTE),
        _examined(1, READ),
        _examined(0, READ, upstream=B),
        structs.replace(_examined(0, READ), recorded_at_ms=9_001),
    ):
        with refused(ConflictError):
            store.commit([_examined(7, WROTE), other])
    for unknown in (
        _examined(2, READ, owner=ConversationId("con_nobody")),
        _examined(2, READ, turn_id=TurnId("trn_nobody")),
    ):
        with refused(NotFoundError):
            store.commit([unknown])
    assert store.examined(CONVERSATION) == (READ, VANISHED)


def _edit(seq: int, text: str, *, owner: ConversationId = CONVERSATION) -> RecordBriefingEdit:
    edit = {"sections": {"Goal": text}}
    return RecordBriefingEdit(conversation_id=owner, seq=seq, edit=edit, recorded_at_ms=9_000)


def the_newest_edit_of_a_briefing_stands(trial: Trial) -> None:
    trial.store.commit(samples.home())
    assert trial.store.briefing_edit(CONVERSATION) is None
    trial.store.commit([_edit(1, "first"), _edit(2, "\ud800\0")])
    trial.store.commit([_edit(1, "first")])  # the same again (S2)
    trial.reopen()
    newest = trial.store.briefing_edit(CONVERSATION)
    assert newest is not None
    assert (newest.seq, newest.edit, newest.recorded_at_ms) == (
        2,
        {"sections": {"Goal": "\ud800\0"}},
        9_000,
    )


def of_two_who_edit_at_once_the_second_is_told(trial: Trial) -> None:
    trial.store.commit([*samples.home(), _edit(1, "mine")])
    for late in (_edit(1, "theirs"), _edit(3, "a gap"), _edit(0, "none")):
        with refused(ConflictError):
            trial.store.commit([late])
    with refused(NotFoundError):
        trial.store.commit([_edit(1, "x", owner=ConversationId("con_nobody"))])
    newest = trial.store.briefing_edit(CONVERSATION)
    assert newest is not None
    assert newest.seq == 1


FRESHNESS_PROMISES = promises(
    {
        "S24": [
            the_last_word_on_each_path_comes_back_whole,
            sessions_and_conversations_know_their_own_files,
            a_place_is_written_once_and_only_in_what_was_opened,
        ],
        "S25": [
            the_newest_edit_of_a_briefing_stands,
            of_two_who_edit_at_once_the_second_is_told,
        ],
    }
)
