"""S24 and S25: what sessions have examined, and what persons made of briefings."""

from __future__ import annotations

from msgspec import structs

from upthread.core.commands import OpenConversation
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import ConversationId, UpstreamSessionId
from upthread.errors import ConflictError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refused, refuses
from upthread.testing.store_conformance.samples import CONVERSATION, edit, examined

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


@promise("S24")
def the_last_word_on_each_path_comes_back_whole(trial: Trial) -> None:
    store = trial.store
    store.commit([*samples.home(), examined(0, READ, VANISHED)])
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ, VANISHED)
    store.commit([examined(1 << 16, WROTE)])  # a gap is none
    trial.reopen()
    assert trial.store.examined(CONVERSATION, upstream_session_id=A) == (VANISHED, WROTE)
    assert trial.store.examined(ConversationId("con_nobody")) == ()


@promise("S24")
def sessions_and_conversations_know_their_own_files(trial: Trial) -> None:
    key = samples.sibling_key(role="auditor")
    other = OpenConversation(conversation=samples.conversation(OTHER, key=key))
    trial.store.commit([*samples.home(), other])
    later = structs.replace(READ, digest="later")
    trial.store.commit([examined(0, READ), examined(1, later, session=B)])
    trial.store.commit([examined(2, VANISHED, owner=OTHER)])
    trial.reopen()
    store = trial.store
    assert store.examined(CONVERSATION, upstream_session_id=A) == (READ,)
    assert store.examined(CONVERSATION, upstream_session_id=B) == (later,)
    assert store.examined(CONVERSATION, upstream_session_id="ses_c") == ()
    assert store.examined(CONVERSATION) == (later,)
    assert store.examined(OTHER) == (VANISHED,)


@promise("S24")
def a_place_is_written_once(trial: Trial) -> None:
    store = trial.store
    store.commit([*samples.home(), examined(0, READ, VANISHED)])
    store.commit([examined(0, READ, VANISHED), examined(1, VANISHED)])  # the same again (S2)
    for other in (
        examined(0, WROTE),
        examined(1, READ),
        examined(0, READ, session=B),
        structs.replace(examined(0, READ), recorded_at_ms=9_001),
    ):
        with refused(ConflictError):
            store.commit([examined(7, WROTE), other])
    assert store.examined(CONVERSATION) == (READ, VANISHED)


@promise("S25")
def the_newest_edit_of_a_briefing_stands(trial: Trial) -> None:
    trial.store.commit(samples.home())
    assert trial.store.briefing_edit(CONVERSATION) is None
    trial.store.commit([edit(1, "first"), edit(2, "\ud800\0")])
    trial.store.commit([edit(1, "first")])  # the same again (S2)
    trial.reopen()
    assert trial.store.briefing_edit(CONVERSATION) == edit(2, "\ud800\0")


@promise("S25")
def of_two_who_edit_at_once_the_second_is_told(trial: Trial) -> None:
    trial.store.commit([*samples.home(), edit(1, "mine")])
    refuses(trial, ConflictError, (edit(1, "theirs"), edit(3, "a gap"), edit(0, "none")))
    assert trial.store.briefing_edit(CONVERSATION) == edit(1, "mine")
