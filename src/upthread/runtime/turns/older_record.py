"""An older record: what the agent's own session has and the record lacks, found and read back.

A copy of the database that was put back, by whatever means, knows less than the session it goes on
in; so does a record of which a person passed by. Before a prompt is decided upon and numbered, the
session's store is looked at: one look where nobody has gone on in it since our last turn. What is
missing is recorded as turns, in order, as what they did. Blocking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from upthread.core.commands import ADOPTED, OpenTurn, RecordParts, Write
from upthread.core.decision.rollover import LOST
from upthread.core.decision.words import READ_BACK, RESUME
from upthread.core.events import (
    AgentEvent,
    PromptSent,
    ReasoningReceived,
    SessionAttached,
    TextReceived,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    UserTextReplayed,
)
from upthread.core.quotas import within_quota
from upthread.core.runs.stops import REFUSAL
from upthread.core.turns.agent_history import (
    NOTHING_LACKED,
    TOO_MANY,
    UNANSWERED,
    Lacked,
    StoredTurn,
    answered_turns,
    gone_turns,
    has_prompt,
    is_finished,
    lacked,
)
from upthread.core.turns.recorder import Recorder
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
from upthread.errors import StoreError
from upthread.runtime.record.turn_views import last_attached, turn_view
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.delegation import OwnSessions
from upthread.runtime.turns.recording import Examiner
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

UNFINISHED: Final = "the agent's own session has no end of it"


_WORDS: Final = frozenset({"text", "title", "arguments", "locations", "entries", "raw"})
"""The fields of events that hold what people, agents and programs said."""

_SPOKEN: Final = (UserTextReplayed, TextReceived, ReasoningReceived)

ANSWERS_MESSAGES_MAX: Final = 256
"""How far back an answer of a session is looked for."""


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
    whole = joined(events)
    return tuple(_redacted(each, redactor) for each in whole) if redactor else tuple(whole)


def joined(history: Iterable[AgentEvent]) -> Iterator[AgentEvent]:
    """Yield a history with whole texts: pieces that follow each other in one message are one."""
    for _, together in groupby(history, key=_text_of):
        first, *others = together
        if isinstance(first, _SPOKEN):
            text = "".join(piece.text for piece in (first, *others) if isinstance(piece, _SPOKEN))
            yield structs.replace(first, text=text)
        else:
            yield from (first, *others)


def _text_of(event: AgentEvent) -> object:
    """Return what says that two events are pieces of one text; for any other kind, its class."""
    if isinstance(event, _SPOKEN):
        # A child speaks between the pieces of its parent's text: by session, they are not joined.
        return type(event), event.upstream_session_id, getattr(event, "message_id", None)
    return type(event)


def _redacted(event: AgentEvent, redactor: Redactor) -> AgentEvent:
    redacted: dict[str, Any] = {}
    for name in _WORDS.intersection(event.__struct_fields__):
        value = getattr(event, name)
        new = redactor.redact_json(value)
        redacted[name] = _as_tuples(new) if isinstance(value, tuple) else new
    return structs.replace(event, **redacted)


def _as_tuples(members: Any) -> tuple[Any, ...]:
    """Return the places of a call, or the entries of a plan, as an event has them."""
    return tuple(each if isinstance(each, str) else tuple(each) for each in members)


def stamp_at_end(last: TurnView | None, session: UpstreamSessionId) -> str:
    """Return what a session was known by at the end of its conversation's turn, else empty."""
    # What another session ended with says nothing of this one.
    if last is None or last.ended is None or not last.is_in(session):
        return ""
    # What the session said last may be written after the turn has ended.
    return last.ended.session_stamp.removesuffix(UNANSWERED)


def read_back(store: Store, system: System, claim: Claim, found: Lacked) -> tuple[Write, ...]:
    """Return the writes that put what was lacking on record, for one commit. Blocking."""
    conversation_id, link = claim.conversation.conversation_id, claim.link
    assert link is not None
    session, at_ms = link.upstream_session_id, system.now_ms()
    known = store.examined(conversation_id, upstream_session_id=session)
    writes: list[Write] = []
    prompt_seq = claim.messages + 1
    for turn in found.turns:
        turn_id = TurnId(system.new_id("trn"))
        recorder = Recorder(
            conversation=claim.conversation,
            turn_id=turn_id,
            link=link,
            next_seq=prompt_seq + 1,
            # What was read is of the one session: what names none is its own.
            guarantees_owner=True,
        )
        for event in within_quota(turn.events):
            recorder.record(event, at_ms=at_ms)
        examiner = Examiner(
            root=link.working_directory,
            conversation_id=conversation_id,
            turn_id=turn_id,
            upstream_session_id=session,
            known=known,
            unseen_after_ns=found.written_at_ns,
        )
        prompt = RecordParts(
            conversation_id=conversation_id,
            seq=prompt_seq,
            first_ordinal=0,
            speaker=Speaker.USER,
            turn_id=turn_id,
            upstream_session_id=session,
            recorded_at_ms=at_ms,
            parts=(TextPart(text=turn.prompt),),
        )
        opened = OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms)
        # The stamp is that of the whole session as it was read: it holds at the end of the last.
        stamp = found.stamp if turn is found.turns[-1] else ""
        written_at_ms = found.written_at_ns // 1_000_000
        life = _life(store, claim, turn, prompt_seq, stamp=stamp, written_at_ms=written_at_ms)
        writes += (
            opened,
            prompt,
            *examiner.with_files(recorder.finish(at_ms=at_ms), at_ms=at_ms),
            *opened.with_events(*life),
        )
        prompt_seq = recorder.own.next_seq
    return tuple(writes)


def _life(
    store: Store,
    claim: Claim,
    turn: StoredTurn,
    prompt_seq: int,
    *,
    stamp: str,
    written_at_ms: int,
) -> tuple[TurnEvent, ...]:
    """Return the events of a turn as if it had been driven here."""
    link, usage = claim.link, turn.usage
    assert link is not None
    # The person may have closed the agent in the middle of it: its end is then not known.
    is_whole = is_finished(turn)
    return (
        TurnIntended(decision=RESUME, reasons=(READ_BACK,), prompt_seq=prompt_seq),
        SessionAttached(
            upstream_session_id=link.upstream_session_id,
            how="resumed",
            agent=link.agent,
            agent_host=claim.session_host,
            agent_profile=last_attached(store, link).agent_profile,
        ),
        PromptSent(prompt_seq=prompt_seq),
        TurnEnded(
            outcome=Outcome.OK if is_whole else Outcome.UNKNOWN,
            detail="" if is_whole else UNFINISHED,
            tokens_used=usage.tokens_used if usage else None,
            tokens_window=usage.tokens_window if usage else None,
            session_stamp=stamp,
            session_written_at_ms=written_at_ms,
        ),
    )
