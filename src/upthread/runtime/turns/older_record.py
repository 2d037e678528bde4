"""An older record: what the agent's own session has and the record lacks, found and read back.

A copy of the database that was put back, by whatever means, knows less than the session it goes on
in; so does a record of which a person passed by. Before a prompt is decided upon and numbered, the
session's store is looked at: one look where nobody has gone on in it since our last turn. What is
missing is recorded as turns, in order, as what they did. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from upthread.agents.base import AgentConnection
from upthread.core.acts import ADOPTED
from upthread.core.commands import OpenTurn, RecordParts, RecordTurnEvent, Write
from upthread.core.decision.rollover import LOST
from upthread.core.decision.words import READ_BACK, RESUME
from upthread.core.events import (
    AgentEvent,
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
)
from upthread.core.quotas import TurnQuota
from upthread.core.runs.stops import REFUSAL
from upthread.core.turns.recognition import UNANSWERED, CutOffCall, StoredSession, StoredTurn
from upthread.core.turns.recorder import Recorder
from upthread.core.turns.replayed_history import (
    NOTHING_LACKED,
    TOO_MANY,
    Lacked,
    answered_turns,
    gone_turns,
    has_prompt,
    is_finished,
    joined,
    lacked,
    redacted_history,
)
from upthread.core.turns.turn import TurnView
from upthread.core.types import (
    Link,
    Message,
    Outcome,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import QuotaExceededError, StoreError
from upthread.runtime.record.turn_views import last_attached, turn_view
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.examination import Examiner
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

UNFINISHED: Final = "the agent's own session has no end of it"


ANSWERS_MESSAGES_MAX: Final = 256
"""How far back an answer of a session is looked for."""


class OwnSessions(Struct, frozen=True, kw_only=True):
    """How the agents' own stores are looked into. Blocking; `stamp` and `read` raise StoreError.

    `is_read` says whether an agent's store is read here. `stamp` gives what a session is known by
    while nobody prompts it, empty where nothing is known of it; `read` gives all of it, None where
    there is none. `profile` gives the variable with the place of an agent's store, empty where that
    is not known, and `profile_without` the same if a session is not there and the given profile
    has it. Both are last given the running agent's environment, empty if it was not seen.
    `read` and `profile` name whose store it is, for example that of `codex` for an agent that is
    configured as `mine` and runs codex-acp. `of_call` gives the session of a call's sub-agent, and
    `version` the agent's version that a session is of, empty where that is not known. `writer`
    gives the process that has a session open in its agent, None where that is not known.
    """

    is_read: Callable[[str], bool]
    profile: Callable[[str, str, Mapping[str, str]], str]
    stamp: Callable[[str, UpstreamSessionId], str]
    profile_without: Callable[[str, UpstreamSessionId, str, Mapping[str, str]], str]
    read: Callable[[str, UpstreamSessionId, str], StoredSession | None]
    of_call: Callable[[CutOffCall], StoredSession | None]
    version: Callable[[str, UpstreamSessionId], str]
    writer: Callable[[str, UpstreamSessionId], int | None]

    def profile_in(self, agent: str, connection: AgentConnection) -> tuple[str, bool]:
        """Return the profile of a running agent, and whether its own command set it."""
        profile_with = partial(self.profile, agent, connection.capabilities.vendor)
        profile = profile_with(connection.environment())
        return profile, profile != profile_with({})


def look(
    store: Store,
    own: OwnSessions,
    link: Link | None,
    last: TurnView | None,
    *,
    redactor: Redactor | None,
) -> Lacked:
    """Return what the record lacks of a link's session. `last` is its conversation's newest turn.

    The session is read only where its stamp is not that of the end of the last turn, or where
    nothing on record proves that it ever got a prompt.
    """
    if link is None:
        return NOTHING_LACKED
    session = link.upstream_session_id
    try:
        stamp = own.stamp(link.agent, session)
        other = "" if stamp else other_profile(store, own, link)
        if other or not own.is_read(link.agent):
            return Lacked(other_profile=other)
        is_proven = has_answered(store, link, last)
        if is_proven and stamp and stamp == stamp_at_end(last, session):
            return Lacked(stamp=stamp)
        found = own.read(link.agent, session, link.agent)
    except StoreError as error:
        return Lacked(fault=error.message)
    if found is None or not (is_proven or has_prompt(found.events)):
        return Lacked(stamp=stamp) if is_proven else _empty(link, stamp)
    compared = _compared(store, link, as_recorded(found.events, redactor))
    return structs.replace(compared, stamp=stamp, written_at_ns=found.written_at_ns)


def _empty(link: Link, stamp: str = "") -> Lacked:
    # It took a lost session's place, and whoever is prompted next still takes that one's.
    lost = Outcome(link.opened_because) if link.opened_because in LOST else None
    return Lacked(is_empty=True, lost=lost, stamp=stamp)


def other_profile(store: Store, own: OwnSessions, link: Link | None) -> str:
    """Return the other profile of its agent that has a link's session, empty for none. Blocking."""
    profile = last_attached(store, link).agent_profile
    # In another profile a session is not lost, as long as it is there.
    is_elsewhere = link and own.profile_without(link.agent, link.upstream_session_id, profile, {})
    return profile if is_elsewhere else ""


def look_at_replay(
    store: Store,
    link: Link,
    last: TurnView | None,
    replay: Sequence[AgentEvent],
    redactor: Redactor | None,
) -> Lacked:
    """Return what a session lacks that its agent replayed, because nobody reads its store.

    Turns that only the session has are not read back: the prompt has its number by now.
    """
    if not (has_prompt(replay) or has_answered(store, link, last)):
        return _empty(link)
    compared = _compared(store, link, as_recorded(replay, redactor), was_streamed=True)
    return Lacked(gone=compared.gone, fault=TOO_MANY if compared.fault == TOO_MANY else "")


def _compared(
    store: Store, link: Link, history: Sequence[AgentEvent], *, was_streamed: bool = False
) -> Lacked:
    recorded, session = store.messages(link.conversation_id), link.upstream_session_id
    compared = lacked(history, recorded, session)
    if compared.fault == TOO_MANY:
        return compared
    prompts = gone_turns(history, recorded, session, was_streamed=was_streamed)
    return structs.replace(compared, gone=_gone(store, link, prompts))


def _gone(store: Store, link: Link, prompts: Iterable[Message]) -> str:
    """Name the newest turns that ended well and that the session lacks, empty for none."""
    found: set[TurnId] = set()
    for prompt in prompts:
        ended = turn_view(store, link.conversation_id, prompt.turn_id).ended
        if ended is not None and ended.was_compacted:
            break  # the agent itself left out what was said
        # An agent need not keep a command such as `/compact` as a prompt.
        is_command = prompt.sent_text.partition(" ")[0].rfind("/") == 0
        # Nor a refused prompt, because the hook or the model would refuse the next prompt with it.
        is_refused = ended is not None and ended.detail.startswith(REFUSAL)
        if ended and ended.outcome is Outcome.OK and not (is_command or is_refused):
            found.add(prompt.turn_id)
    turns = store.turns(link.conversation_id) if found else ()
    numbers = [number for number, each in enumerate(turns, 1) if each.turn_id in found]
    one = f"turn {numbers[0]}" if numbers else ""
    return f"turns {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else one


def has_answered(store: Store, link: Link, last: TurnView | None) -> bool:
    """Return whether the session is known to hold anything: an imported one does."""
    ended = last.ended if last else None
    # Most often, and without a look at any message.
    if link.opened_because == ADOPTED or (ended and ended.outcome is Outcome.OK):
        return True
    newest = store.messages(link.conversation_id, newest=ANSWERS_MESSAGES_MAX)
    return any(
        message.upstream_session_id == link.upstream_session_id
        and message.speaker is not Speaker.USER
        for message in newest
    )


def look_at_all(
    own: OwnSessions, agent: str, session: UpstreamSessionId, *, redactor: Redactor | None
) -> Lacked | None:
    """Return a whole session as what a new conversation lacks of it, None where there is none.

    Raises StoreError for one that cannot be read.
    """
    stamp = own.stamp(agent, session)
    found = own.read(agent, session, agent)
    if found is None:
        return None
    turns = answered_turns(as_recorded(found.events, redactor))
    return Lacked(turns=turns, stamp=stamp, written_at_ns=found.written_at_ns)


def as_recorded(events: Iterable[AgentEvent], redactor: Redactor | None) -> tuple[AgentEvent, ...]:
    """Return a session's events as they would be on record, to be compared with what is."""
    # A secret in one would else make a known prompt a missing one.
    return redacted_history(events, redactor) if redactor else tuple(joined(events))


def stamp_at_end(last: TurnView | None, session: UpstreamSessionId) -> str:
    """Return what a session was known by at the end of its conversation's turn, else empty."""
    if last is None or last.attached is None or last.ended is None:
        return ""
    # What another session ended with says nothing of this one.
    is_same = last.attached.upstream_session_id == session
    # What the session said last may be written after the turn has ended.
    return last.ended.session_stamp.removesuffix(UNANSWERED) if is_same else ""


def read_back(
    store: Store, claim: Claim, found: Lacked, *, new_id: Callable[[], str], at_ms: int
) -> tuple[Write, ...]:
    """Return the writes that put what was lacking on record, for one commit."""
    writes: list[Write] = []
    next_seq = claim.messages + 1
    for number, turn in enumerate(found.turns):
        is_last = number == len(found.turns) - 1
        recorded = _ReadBack(
            claim=claim,
            turn=turn,
            turn_id=TurnId(new_id()),
            prompt_seq=next_seq,
            # It is that of the whole session as it was
            # read, so it holds at the end of the last one.
            stamp=found.stamp if is_last else "",
            written_at_ns=found.written_at_ns,
            at_ms=at_ms,
        )
        writes += recorded.writes(store)
        next_seq = _after(writes, claim, next_seq)
    return tuple(writes)


def _after(writes: Sequence[Write], claim: Claim, next_seq: int) -> int:
    own = claim.conversation.conversation_id
    recorded = (
        each.seq + 1
        for each in writes
        # What sub-agents said has numbers in their own conversations.
        if isinstance(each, RecordParts) and each.conversation_id == own
    )
    return max(recorded, default=next_seq)


class _ReadBack(Struct, frozen=True, kw_only=True):
    """One turn that only the agent's session had."""

    claim: Claim
    turn: StoredTurn
    turn_id: TurnId
    prompt_seq: int
    stamp: str
    written_at_ns: int
    at_ms: int

    def writes(self, store: Store) -> Iterator[Write]:
        conversation, link = self.claim.conversation, self.link
        yield OpenTurn(
            turn_id=self.turn_id,
            conversation_id=conversation.conversation_id,
            opened_at_ms=self.at_ms,
        )
        yield RecordParts(
            conversation_id=conversation.conversation_id,
            seq=self.prompt_seq,
            first_ordinal=0,
            speaker=Speaker.USER,
            turn_id=self.turn_id,
            upstream_session_id=link.upstream_session_id,
            recorded_at_ms=self.at_ms,
            parts=(TextPart(text=self.turn.prompt),),
        )
        yield from self._done(store)
        for seq, event in enumerate(self._life(store), start=1):
            yield RecordTurnEvent(
                conversation_id=conversation.conversation_id,
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=self.at_ms,
            )

    def _done(self, store: Store) -> tuple[Write, ...]:
        """Return what was said and done after the prompt, with the files that it names. Blocking.

        More than a turn may hold is left out, from the event on that goes past the limit.
        """
        recorder = Recorder(
            conversation=self.claim.conversation,
            turn_id=self.turn_id,
            link=self.link,
            next_seq=self.prompt_seq + 1,
            # What was read is of the one session: what names none is its own.
            guarantees_owner=True,
        )
        quota = TurnQuota()
        for event in self.turn.events:
            try:
                quota.take(event)
            # The call is over, and what it said until then is worth having.
            except QuotaExceededError:
                break
            recorder.record(event, at_ms=self.at_ms)
        said = recorder.finish(at_ms=self.at_ms)
        conversation_id = self.claim.conversation.conversation_id
        session = self.link.upstream_session_id
        examiner = Examiner(
            root=self.link.working_directory,
            conversation_id=conversation_id,
            turn_id=self.turn_id,
            upstream_session_id=session,
            known=store.examined(conversation_id, upstream_session_id=session),
            unseen_after_ns=self.written_at_ns,
        )
        examiner.notice(said)
        return (*said, *examiner.look(at_ms=self.at_ms))

    @property
    def link(self) -> Link:
        assert self.claim.link is not None
        return self.claim.link

    def _life(self, store: Store) -> Iterator[TurnEvent]:
        link, usage = self.link, self.turn.usage
        yield TurnIntended(decision=RESUME, reasons=(READ_BACK,), prompt_seq=self.prompt_seq)
        yield SessionAttached(
            upstream_session_id=link.upstream_session_id,
            how="resumed",
            agent=link.agent,
            agent_host=self.claim.session_host,
            agent_profile=last_attached(store, link).agent_profile,
        )
        yield PromptSent(prompt_seq=self.prompt_seq)
        # The person may have closed the agent in the middle of it: its end is then not known.
        is_whole = is_finished(self.turn)
        yield TurnEnded(
            outcome=Outcome.OK if is_whole else Outcome.UNKNOWN,
            detail="" if is_whole else UNFINISHED,
            tokens_used=usage.tokens_used if usage else None,
            tokens_window=usage.tokens_window if usage else None,
            session_stamp=self.stamp,
            session_written_at_ms=self.written_at_ns // 1_000_000,
        )
