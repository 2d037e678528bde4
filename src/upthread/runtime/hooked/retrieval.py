"""Retrieval: what a call that hooks saw said and did, from its agent's own store into the record.

The events of its turn are recorded as those of our own turns are: an open call gets an unknown
end, a file that was read or written is kept as examined. A file that was touched after the store
was last written to may be anybody's work, and is kept as one the session does not know. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from upthread.core.commands import RecordExamined, Write
from upthread.core.decision.examined import ExaminedFile
from upthread.core.quotas import TurnQuota
from upthread.core.turns.hooked_call import (
    CutOffCall,
    ReadAsked,
    ReadStored,
    Sought,
    StoredSession,
    StoredTurn,
    is_unheard,
    own_words,
    turn_of,
)
from upthread.core.turns.recorder import Recorder
from upthread.core.types import Conversation, Link, Message, TurnId, UpstreamSessionId
from upthread.errors import QuotaExceededError, StoreError
from upthread.runtime.turns.examination import Examiner
from upthread.store.base import Store


class Retrieved(Struct, frozen=True, kw_only=True):
    """What was found. Both are None where nothing was; `fault` says why it could not be read.

    `asked` is the prompt as the main session has it, where the sub-agent's own does not:
    `is_unheard` then says that this was read, and has never got it. `refusal` is what the agent
    said for which there is no sub-agent.
    """

    session: UpstreamSessionId | None = None
    turn: StoredTurn | None = None
    written_at_ns: int = 0
    asked: str = ""
    is_unheard: bool = False
    fault: str = ""
    refusal: str = ""


NOTHING = Retrieved()

SoughtIn: TypeAlias = Callable[[UpstreamSessionId], Sought]
"""Says what of a call is looked for in the session that it is found to have worked in."""


class Destination(Struct, frozen=True, kw_only=True):
    """Where what was found is recorded: `link` is the session's, `next_seq` its next message."""

    conversation: Conversation
    turn_id: TurnId
    link: Link
    next_seq: int
    at_ms: int


class Retrieval:
    """Reads what was cut off. `redact` takes the secrets out of a text, as recording does."""

    def __init__(
        self, store: Store, read: ReadStored, read_asked: ReadAsked, redact: Callable[[str], str]
    ) -> None:
        self._store = store
        self._read = read
        self._read_asked = read_asked
        self._redact = redact

    def find(
        self,
        call: CutOffCall,
        conversation: Conversation,
        sought_in: SoughtIn,
        *,
        apart_from: TurnId | None = None,
    ) -> Retrieved:
        """Return what the agent's store holds of a call of which nothing is on record yet.

        `apart_from` is the call's own turn, where it was recorded before this could be read.
        """
        said = self._store.messages(conversation.conversation_id)
        # Else its own prompt would count as one that is on record, and not be found.
        others = [each for each in said if each.turn_id != apart_from]
        found = self._own(call, others, sought_in)
        if found.turn is not None:
            return found
        try:
            asked = self._read_asked(call)
        except StoreError as error:
            return structs.replace(found, fault=found.fault or error.message)
        sought = sought_in(found.session or UpstreamSessionId(call.session))
        return structs.replace(found, asked=own_words(asked, sought))

    def _own(self, call: CutOffCall, said: Sequence[Message], sought_in: SoughtIn) -> Retrieved:
        """Return what the session of the call's own sub-agent holds."""
        try:
            found = self._read(call)
        except StoreError as error:
            return Retrieved(fault=error.message)
        return NOTHING if found is None else self._of(found, said, sought_in)

    def _of(self, found: StoredSession, said: Sequence[Message], sought_in: SoughtIn) -> Retrieved:
        session = found.upstream_session_id
        mine = tuple(each for each in said if each.upstream_session_id == session)
        sought = structs.replace(sought_in(session), recorded=mine, redact=self._redact)
        return Retrieved(
            session=session or None,
            turn=turn_of(found.events, sought),
            written_at_ns=found.written_at_ns,
            is_unheard=is_unheard(found.events, sought),
            refusal=self._redact(found.refusal),
        )

    def ended_with(self, found: Retrieved, reply: str, *, is_answered: bool) -> Retrieved:
        """Return what was found with the reply that a call's end was told with."""
        if found.turn is None:
            return found
        turn = found.turn.ended_with(reply, self._redact, is_answered=is_answered)
        return structs.replace(found, turn=turn)

    def writes(
        self, found: Retrieved, destination: Destination, *, seen: Sequence[ExaminedFile] = ()
    ) -> tuple[Write, ...]:
        """Return `found_writes` of what was found."""
        return found_writes(self._store, found, destination, seen=seen)


def found_writes(
    store: Store, found: Retrieved, destination: Destination, *, seen: Sequence[ExaminedFile] = ()
) -> tuple[Write, ...]:
    """Return what was said and done after the prompt, for the commit that ends the turn.

    Of the files in `seen`, which the turn records itself, it is known already how they were. More
    than a turn may hold is left out, from the event on that goes past the limit. Blocking.
    """
    if found.turn is None:
        return ()
    recorder = Recorder(
        conversation=destination.conversation,
        turn_id=destination.turn_id,
        link=destination.link,
        next_seq=destination.next_seq,
        # What was read is of the one session: what names none is its own.
        guarantees_owner=True,
    )
    quota = TurnQuota()
    for event in found.turn.events:
        try:
            quota.take(event)
        # The call is over, and what it said until then is worth having.
        except QuotaExceededError:
            break
        recorder.record(event, at_ms=destination.at_ms)
    said = recorder.finish(at_ms=destination.at_ms)
    return (*said, *_examined(store, said, destination, seen, unseen_after_ns=found.written_at_ns))


def _examined(
    store: Store,
    said: tuple[Write, ...],
    destination: Destination,
    seen: Sequence[ExaminedFile],
    *,
    unseen_after_ns: int,
) -> tuple[Write, ...]:
    conversation_id = destination.conversation.conversation_id
    session = destination.link.upstream_session_id
    known = store.examined(conversation_id, upstream_session_id=session)
    examiner = Examiner(
        root=destination.link.working_directory,
        conversation_id=conversation_id,
        turn_id=destination.turn_id,
        upstream_session_id=session,
        known=known,
        # Behind those that the turn records itself, which are counted from 0.
        first_ordinal=len(seen),
        unseen_after_ns=unseen_after_ns,
    )
    examiner.notice(said)
    looked_at = examiner.look(at_ms=destination.at_ms)
    # Of those that are as they were known before, nobody has seen anything in this turn.
    seen_now = {each.path for each in seen if each not in known}
    return tuple(_apart_from(seen_now, looked_at))


def _apart_from(paths: Collection[str], writes: Sequence[Write]) -> Iterator[Write]:
    """Yield what was examined without the files of these paths."""
    for write in writes:
        if isinstance(write, RecordExamined):
            files = tuple(each for each in write.files if each.path not in paths)
            yield from [structs.replace(write, files=files)] if files else []
