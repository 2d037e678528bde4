"""Retrieval: what a call that hooks saw said and did, from its agent's own store into the record.

The events of its turn are recorded as those of our own turns are: an open call gets an unknown
end, a file that was read or written is kept as examined. A file that was touched after the store
was last written to may be anybody's work, and is kept as one the session does not know. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from upthread.core.commands import Write
from upthread.core.cut_off import CutOffCall, ReadStored, Sought, StoredSession, StoredTurn, turn_of
from upthread.core.quotas import TurnQuota
from upthread.core.recorder import Recorder
from upthread.core.types import Conversation, Link, TurnId, UpstreamSessionId
from upthread.errors import QuotaExceededError, StoreError
from upthread.runtime.examiner import Examiner
from upthread.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """What was found. Both are None where nothing was; `fault` says why it could not be read.

    `refusal` is what the agent said for which there is no sub-agent.
    """

    session: UpstreamSessionId | None = None
    turn: StoredTurn | None = None
    written_at_ns: int = 0
    fault: str = ""
    refusal: str = ""


NOTHING = Retrieved()

SoughtIn: TypeAlias = Callable[[UpstreamSessionId], Sought]
"""Says what of a call is looked for in the session that it is found to have worked in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where what was found is recorded: `link` is the session's, `next_seq` its next message."""

    conversation: Conversation
    turn_id: TurnId
    link: Link
    next_seq: int
    at_ms: int


class Retrieval:
    """Reads what was cut off. `redact` takes the secrets out of a text, as recording does."""

    def __init__(self, store: Store, read: ReadStored, redact: Callable[[str], str]) -> None:
        self._store = store
        self._read = read
        self._redact = redact

    def find(self, call: CutOffCall, conversation: Conversation, sought_in: SoughtIn) -> Retrieved:
        """Return what the agent's store holds of a call that is in no record yet."""
        try:
            found = self._read(call)
        except StoreError as error:
            return Retrieved(fault=error.message)
        return NOTHING if found is None else self._of(found, conversation, sought_in)

    def _of(
        self, found: StoredSession, conversation: Conversation, sought_in: SoughtIn
    ) -> Retrieved:
        session = found.upstream_session_id
        messages = self._store.messages(conversation.conversation_id)
        mine = tuple(each for each in messages if each.upstream_session_id == session)
        turn = turn_of(
            found.events, replace(sought_in(session), recorded=mine, redact=self._redact)
        )
        return Retrieved(
            session=session or None,
            turn=turn,
            written_at_ns=found.written_at_ns,
            refusal=self._redact(found.refusal),
        )

    def ended_with(self, found: Retrieved, reply: str, *, is_answered: bool) -> Retrieved:
        """Return what was found with the reply that a call's end was told with."""
        if found.turn is None:
            return found
        turn = found.turn.ended_with(reply, self._redact, is_answered=is_answered)
        return replace(found, turn=turn)

    def writes(
        self, found: Retrieved, place: Place, *, is_examined: bool = False
    ) -> tuple[Write, ...]:
        """Return what was said and done after the prompt, for the commit that ends the turn.

        Where `is_examined`, it is known already which files were examined, and how they were. More
        than a turn may hold is left out, from the event on that goes past the limit.
        """
        if found.turn is None:
            return ()
        recorder = Recorder(
            conversation=place.conversation,
            turn_id=place.turn_id,
            link=place.link,
            next_seq=place.next_seq,
            guarantees_owner=True,
        )
        quota = TurnQuota()
        for event in found.turn.events:
            try:
                quota.take(event)
            except QuotaExceededError:
                break
            recorder.record(event, at_ms=place.at_ms)
        said = recorder.finish(at_ms=place.at_ms)
        if is_examined:
            return said
        return (*said, *self._examined(said, place, unseen_after_ns=found.written_at_ns))

    def _examined(
        self, said: tuple[Write, ...], place: Place, *, unseen_after_ns: int
    ) -> tuple[Write, ...]:
        conversation_id = place.conversation.conversation_id
        session = place.link.upstream_session_id
        examiner = Examiner(
            root=place.link.working_directory,
            conversation_id=conversation_id,
            turn_id=place.turn_id,
            upstream_session_id=session,
            known=self._store.examined(conversation_id, upstream_session_id=session),
            unseen_after_ns=unseen_after_ns,
        )
        examiner.notice(said)
        return examiner.look(at_ms=place.at_ms)
