"""Recovery: what is read of a conversation and of an agent's own history, so that work continues.

After a crash the agent's history decides (core/turns/agent_history.py). Reply complete: adopted.
Prompt there: a continuation. Absent: sent again, with what the record has of the turn. Cannot be
told: parked. An agent may outlive us and go on alone: what it then reports, with an action failed
that nobody was there to allow, is not complete.

Before a prompt leaves, here is what a session is told of the past: briefings for sessions that know
nothing, what has changed, the actions that must not be done again. Before a prompt is decided upon,
the session is compared with the record, which may be older. Everything is blocking, so that one hop
has all that is looked up at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from upthread.agents.base import PromptResult
from upthread.core.commands import ADOPTED
from upthread.core.context.briefing import build_briefing
from upthread.core.context.prior_context import (
    PRIOR_EXCHANGES_MAX,
    PriorContext,
    prior_context,
    render_prior_context,
    work_of,
)
from upthread.core.decision.freshness import Freshness, change_lines
from upthread.core.decision.model import has_looked
from upthread.core.decision.rollover import LOST
from upthread.core.decision.words import RESUME_WITH_UPDATE
from upthread.core.events import (
    AgentEvent,
    PromptRecognised,
    PromptSent,
    ReasoningReceived,
    SessionAttached,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    TurnEnded,
    TurnEvent,
    TurnParked,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.history.model import history_of
from upthread.core.history.repair import damage_told
from upthread.core.runs.stops import REFUSAL
from upthread.core.text import without_mentions
from upthread.core.turns import turn as turns
from upthread.core.turns.agent_history import (
    NOTHING_LACKED,
    TOO_MANY,
    EarlierPrompt,
    Lacked,
    Recognised,
    StoredSession,
    answered_turns,
    attended_calls,
    gone_turns,
    has_prompt,
    lacked,
    open_calls,
    recognise,
    unrecorded,
)
from upthread.core.turns.effects import Effect, effects_of, held
from upthread.core.turns.recorder import KnownChild, Recorder
from upthread.core.turns.spent_tokens import NOTHING_COUNTED, Counted, recognised_event
from upthread.core.turns.turn import (
    EFFECTS_DONE_HEADING,
    HELD_BACK,
    NEW_SESSION_DECISIONS,
    STARTS,
    Recognition,
    TurnView,
    context_for,
    continuation,
    effects_block,
    is_continuation,
    render_update,
    without_fresh,
)
from upthread.core.types import (
    ContextPart,
    Conversation,
    Link,
    Message,
    Outcome,
    Speaker,
    TurnId,
    UpstreamSessionId,
    readable_chain,
)
from upthread.errors import StoreError
from upthread.runtime.record.briefing import briefing_edit, briefing_inputs
from upthread.runtime.record.turn_views import (
    WorkstreamEffects,
    last_attached,
    recorded_effects,
    stamp_at_end,
    totals_of,
    turn_events,
    turn_view,
)
from upthread.runtime.turns.delegation import OwnSessions
from upthread.runtime.turns.live_turn import LiveTurn, ended_event
from upthread.runtime.turns.recording import Examiner, first_file_after
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

EARLIER_MESSAGES_MAX = 256
"""How far back prompts are looked for that failed and may yet be in the agent's history."""

NOTHING_RECOGNISED = Recognised(recognition=Recognition.UNDECIDABLE)

REPLAYED_MESSAGES_MAX = 1_024
"""How far back calls, a plan, actions and damage are looked for: a turn of hundreds of steps."""

CUT_OFF_MESSAGES_MAX = 16
"""How far back a child's calls are looked for that a crash left open."""


_WORDS = frozenset({"text", "title", "arguments", "locations", "entries", "raw"})
"""The fields of events that hold what people, agents and programs said."""

_SPOKEN = (UserTextReplayed, TextReceived, ReasoningReceived)

ANSWERS_MESSAGES_MAX = 256
"""How far back an answer of a session is looked for."""


def adopt(live: LiveTurn, found: Recognised) -> None:
    """Commit the end of a turn with the reply that was found whole. Blocking."""
    ended = _adopted_end(live, found)
    # With the end, as for a reply that was heard: a run must not wait for one that is there.
    live.add(*live.request.at_end(live.turn_id, ended, live.reply))
    live.commit_here(_known(live, found), ended)


def continuation_of(live: LiveTurn, message: Message, found: Recognised, changes: str) -> str:
    """Commit a continuation, with the actions known of the turn, and return its text.

    `changes` is the block that lists what has changed since, empty for nothing. A session that
    lacks the prompt gets it once more, with the actions of the turn if it has any: an agent may
    store a turn at its end only, and die before.
    """
    is_absent = found.recognition is Recognition.ABSENT
    if is_absent and not changes and not effects_of_turn(live):
        # Counted before it leaves: a prompt that ends this process is not sent for ever.
        live.commit_here(_known(live, found), _sent(live))
        return message.sent_text
    record_tail(live, found)
    effects = _known_effects(live, found)
    # The newest prompt that is no continuation, because those would grow. It may be newer than
    # the turn's first one: a session that was made since was told the role and the past.
    own = live.messages(after_seq=live.intended.prompt_seq - 1)
    sent = [each.sent_text for each in reversed(own) if each.speaker is Speaker.USER]
    # Of a turn that continues another one, its first prompt.
    asked = next((text for text in sent if not is_continuation(text)), sent[-1])
    if asked.startswith(EFFECTS_DONE_HEADING):
        asked = asked.partition("\n\n")[2]  # that list was of then
    text = continuation(asked, effects, was_unattended=found.was_unattended)
    if is_absent and not is_continuation(message.sent_text):
        text = "\n\n".join(filter(None, (without_mentions(effects_block(effects)), asked)))
    if changes:
        text = f"{text}\n\n{without_mentions(changes)}"
    prompt = live.next_prompt(ContextPart(text=text))
    again = sent_event(
        prompt.seq,
        prior_of(live),
        # A session that has the prompt needs no past; else it is in the prompt.
        is_injected=is_absent and _sent(live).is_prior_injected,
    )
    live.add(live.recorded(prompt))
    live.commit_here(_known(live, found), again)
    return text


def holds_back(live: LiveTurn, found: Recognised) -> bool:
    """Park the turn for what an agent may do again that neither asks nor tells before it acts.

    It did not ask the last time. What only the agent's history knows is put on record first.
    """
    record_tail(live, found)
    live.commit_here()
    parked = parked_unheld(live)
    if not parked:
        return False
    live.commit_here(_known(live, found), parked)
    return True


def parked_unheld(live: LiveTurn) -> TurnParked | None:
    """Return the park of a turn whose agent may do an action again that it does not ask for."""
    done = held((*effects_before(live), *effects_of_turn(live)))
    unheld = next((effect for effect in done if not effect.was_asked), None)
    return TurnParked(reason=HELD_BACK, detail=unheld.in_words) if unheld else None


def recognised_replay(
    live: LiveTurn, history: Sequence[AgentEvent] | None
) -> tuple[Message, Recognised]:
    """Return the prompt that was sent last, and what the history says of it.

    What cannot be told counts as cut off once a person said to go on: a continuation is right
    for a prompt that arrived and for one that did not.
    """
    message = _prompt_of_session(live)
    found = NOTHING_RECOGNISED if history is None else _judged(live, message, history)
    if found.recognition is Recognition.UNDECIDABLE and live.view.is_person_asked:
        found = replace(found, recognition=Recognition.INCOMPLETE)
    return message, found


def _prompt_of_session(live: LiveTurn) -> Message:
    """Return the prompt that left last for the session: a new one may have refused a later one."""
    last = live.message(_sent(live).prompt_seq)
    own = live.messages(after_seq=live.intended.prompt_seq - 1)
    of_session = [
        each
        for each in own
        if each.speaker is Speaker.USER and each.upstream_session_id == live.current_session
    ]
    return last if last in of_session or not of_session else of_session[-1]


def recognised_in_store(live: LiveTurn) -> Recognised | None:
    """Return what the agent's own store says of the prompt that was sent last, nothing started.

    None where nothing was sent, and where nobody here reads that agent's store. Blocking.
    """
    try:
        return read_in_store(live)
    except StoreError:
        return None  # the person is told why once the record is compared with the session


def read_in_store(live: LiveTurn) -> Recognised | None:
    """As `recognised_in_store`; raises StoreError for a store that cannot be read. Blocking."""
    found = session_in_store(live)
    if not found:
        return None
    judged = _judged(live, _prompt_of_session(live), found.events)
    return replace(judged, written_at_ns=found.written_at_ns)


def with_reply(live: LiveTurn, tail: Sequence[AgentEvent], reply: str) -> tuple[AgentEvent, ...]:
    """Return what a turn did with its reply, which the agent's store may not have yet.

    Calls without an end are left out then: they have ended, and their ends are not written yet.
    """
    redactor = live.request.redactor
    text = "".join(event.text for event in tail if isinstance(event, TextReceived))
    said = redactor.redact(reply) if redactor else reply
    if not reply or reply in text or said in text:
        return tuple(tail)
    ended = {
        event.call_id
        for event in tail
        if isinstance(event, ToolCallUpdated) and event.status in {"completed", "failed"}
    }
    kept = (
        event
        for event in tail
        if not isinstance(event, ToolCallAnnounced | ToolCallUpdated) or event.call_id in ended
    )
    return (*kept, TextReceived(upstream_session_id=live.current_session, text=reply))


def session_in_store(live: LiveTurn) -> StoredSession | None:
    """Return the session that the prompt went to, or its call's, as the agent's store has it."""
    link = live.link
    if not link or not live.view.sent:
        return None
    return live.own_sessions.read(link.agent, link.upstream_session_id, link.agent)


def _judged(live: LiveTurn, message: Message, history: Sequence[AgentEvent]) -> Recognised:
    recorded = live.messages(after_seq=message.seq)
    earlier, has_older = earlier_prompts(live)
    return recognise(
        as_recorded(history, live.request.redactor),
        sent_text=message.sent_text,
        earlier=earlier,
        has_older=has_older,
        attended_calls=attended_calls(recorded),
    )


def _adopted_end(live: LiveTurn, found: Recognised) -> TurnEnded:
    """Return the end of a turn whose reply was found whole, and record what goes with it."""
    record_tail(live, found)
    live.adopted_reply = found.reply
    return ended_event(live, PromptResult(outcome=Outcome.OK))


def rest_of(live: LiveTurn, ended: TurnEnded) -> TurnEnded:
    """Record what only its agent knew of a turn that nobody goes on with; return its end. Blocking.

    The next commit has it, with what became of the prompt where the agent's own store says it.
    `ended` is how the turn ends where its reply is not known to be complete.
    """
    found = recognised_in_store(live)
    if found and found.recognition is Recognition.COMPLETE:
        # Whole, with its report: a run that the turn is a step of looks at how it ended.
        ended = _adopted_end(live, found)
    elif live.link:
        record_tail(live, found or NOTHING_RECOGNISED)
    if found:
        live.hold(_known(live, found))
    return ended


def _known(live: LiveTurn, found: Recognised) -> PromptRecognised:
    """Return what a history says of the turn's prompt, once the history has been recorded."""
    # What this process counted itself comes with the turn's end.
    counted = NOTHING_COUNTED if live.account.spent else live.counted
    return recognised_event(found.recognition, counted)


def record_tail(live: LiveTurn, found: Recognised) -> None:
    """Record what the agent did before the crash and we had not recorded. Blocking.

    Calls without an end get an unknown one: no provider takes a history with an open call.
    """
    sent = live.view.sent
    messages = live.messages(after_seq=sent.prompt_seq) if sent else ()
    # Goes on with the calls that the crash left open: their results may be in the history only.
    recorder = recorder_of(live, is_read_back=True)
    for event in unrecorded(found.tail, messages):
        recorder.record(event, at_ms=live.now_ms())
    # A history that came otherwise than from the store may count nothing: Codex's does not.
    is_stored = bool(found.written_at_ns)
    live.counted = recorder.counted if is_stored else _counted_in_store(live)
    live.add(*recorder.finish(at_ms=live.now_ms()))


def _counted_in_store(live: LiveTurn) -> Counted:
    """Return what the agent's own store counts of the prompt that was sent last. Blocking."""
    found, counted = recognised_in_store(live), NOTHING_COUNTED
    for event in found.tail if found else ():
        if isinstance(event, UsageReported):
            is_own = event.upstream_session_id == live.current_session
            counted = counted.and_one(event, is_own=is_own)
    return counted


def _known_effects(live: LiveTurn, found: Recognised) -> tuple[str, ...]:
    """Return the actions known, in words: those on record, then what only the history tells.

    The record has what each was; a history may tell no more than the tool's name, or nothing.
    """
    recorded = (*doubts(live), *effects_of_turn(live))
    statuses = {call_id: status for call_id, _, status in found.effects}
    on_record = {effect.call_id for effect in recorded}
    told = [f"{title}: {status}" for id_, title, status in found.effects if id_ not in on_record]
    known = (each.with_outcome(statuses.get(each.call_id, each.state)) for each in recorded)
    return (*known, *told)


def _sent(live: LiveTurn) -> PromptSent:
    assert live.view.sent
    return live.view.sent


# --- what is read of the conversation -------------------------------------------------------------


def earlier_prompts(live: LiveTurn) -> tuple[list[EarlierPrompt], bool]:
    """Read what left for the session before the prompt that left last, oldest first.

    With it whether there may be more that is not read.
    """
    last = _sent(live).prompt_seq
    found = live.store.messages(live.conversation_id, newest=EARLIER_MESSAGES_MAX)
    asked = {m.seq: m for m in found if m.speaker is Speaker.USER and m.seq < last}
    prompts: list[EarlierPrompt] = []
    for turn_id in dict.fromkeys(message.turn_id for message in asked.values()):
        events = turn_events(live.store, live.conversation_id, turn_id)
        sent = [seq for seq in _sent_to(live.current_session, events) if seq in asked]
        ended = turns.fold(events).ended
        was_answered = ended is not None and ended.outcome is Outcome.OK
        # A prompt that is sent again has its number twice, and only the last one was answered.
        prompts += [
            EarlierPrompt(asked[seq].sent_text, was_answered and at == len(sent))
            for at, seq in enumerate(sent, start=1)
        ]
    return prompts, len(found) == EARLIER_MESSAGES_MAX


def _sent_to(session: UpstreamSessionId | None, events: Iterable[TurnEvent]) -> Iterator[int]:
    """Yield the prompts of a turn that left for a session."""
    attached = None
    for event in events:
        if isinstance(event, SessionAttached):
            attached = event.upstream_session_id
        elif isinstance(event, PromptSent) and attached == session:
            yield event.prompt_seq


def recorder_of(live: LiveTurn, *, is_read_back: bool = False) -> Recorder:
    """Return a recorder of the turn that knows the children of its conversation.

    One of what `is_read_back` goes on where recording stopped, and knows the open calls.
    """
    own_id, turn_id = live.conversation_id, live.turn_id
    # Counted over all sends of the turn, so that nothing is written over; a first has none.
    is_again = is_read_back or live.view.was_sent_again
    recorder = Recorder(
        conversation=live.conversation,
        turn_id=turn_id,
        link=live.require_link(),
        next_seq=live.next_seq,
        # What is read back is of the session that was asked for: what names none is its own.
        guarantees_owner=is_read_back,
        call_durability=live.request.durability,
        quarantined=len(live.store.quarantined(own_id, turn_id)) if is_again else 0,
        # Children have conversations already, from this turn or earlier ones.
        children=known_children(
            live.store, live.conversation, cut_off=turn_id if is_read_back else None
        ),
    )
    if is_read_back:
        for part in open_calls(live.messages(after_seq=live.intended.prompt_seq)):
            recorder.own.expect(part)
    return recorder


def known_children(
    store: Store, conversation: Conversation, *, cut_off: TurnId | None = None
) -> tuple[KnownChild, ...]:
    """Return the children of a conversation, and theirs, with what a `cut_off` turn left open.

    An agent may call one again at any time. Blocking.
    """
    found: list[KnownChild] = []
    for child in _family(store, conversation):
        last = store.messages(child.conversation_id, newest=CUT_OFF_MESSAGES_MAX) if cut_off else ()
        found += [
            KnownChild(
                upstream_session_id=link.upstream_session_id,
                conversation_id=child.conversation_id,
                next_seq=store.message_count(child.conversation_id) + 1,
                open_calls=open_calls(each for each in last if each.turn_id == cut_off),
            )
            for link in store.links(child.conversation_id)
        ]
    return tuple(found)


def _family(store: Store, conversation: Conversation) -> Iterator[Conversation]:
    """Yield the children of a conversation, and theirs."""
    family = {conversation.conversation_id}
    # In the order they were opened, so that whoever called one is in the family before it.
    for child in store.conversations(conversation.key.project_id, conversation.key.workstream):
        if child.parent_conversation_id in family:
            family.add(child.conversation_id)
            yield child


def effects_of_turn(live: LiveTurn) -> tuple[Effect, ...]:
    """Return what this turn and its sub-agents did, or intended to do."""
    done = recorded_effects(
        live.store,
        [live.conversation, *_family(live.store, live.conversation)],
        outward_patterns=live.request.settings.outward_patterns,
        is_asked=lambda turn: turn == live.turn_id,
    )
    # The gap of a restore is of no turn.
    return tuple(each.effect for each in done if each.effect.turn_id == live.turn_id)


def doubts(live: LiveTurn) -> tuple[Effect, ...]:
    """Return what may have reached beyond this machine before this turn, in the workstream.

    Whoever did it: what nobody has looked at must be done by nobody again.
    """
    return tuple(each.effect for each in _effects_beside(live).in_doubt())


def effects_before(live: LiveTurn) -> tuple[Effect, ...]:
    """Return the doubts, and what each role did before this turn since its last known end."""
    left = _effects_beside(live).left_open()
    return (*doubts(live), *(each.effect for each in left))


def _effects_beside(live: LiveTurn) -> WorkstreamEffects:
    return WorkstreamEffects(
        store=live.store,
        project_id=live.conversation.key.project_id,
        workstream=live.conversation.key.workstream,
        outward_patterns=live.request.settings.outward_patterns,
        apart_from=live.turn_id,
    )


def _effects_told(live: LiveTurn, messages: Sequence[Message]) -> str:
    """Return what must not be done again, as a block: also of roles and generations before."""
    # A turn that did not end has told nobody what it did: all
    # of that, and not only what reached beyond this machine.
    open_turns = {live.turn_id} if live.has_last_turn_ended else {live.turn_id, live.claim.last_id}
    untold = {message.seq for message in messages if message.turn_id in open_turns}
    effects = effects_of(messages, outward_patterns=live.request.settings.outward_patterns)
    # Of the turns that ended, what reached beyond this machine.
    told = (each for each in effects if each.actions or each.seq in untold)
    known = (*told, *held(effects_before(live)))
    return effects_block(tuple(dict.fromkeys(each.in_words for each in known)))


def prior_of(live: LiveTurn) -> PriorContext:
    """Read what was said before this turn's prompt, over the readable chain, and what began it."""
    store, conversation_id = live.store, live.conversation_id
    links = store.links(conversation_id)
    # Over all sessions of the chain in one scan: what was said does not end with a session.
    said = store.prior_messages(
        conversation_id,
        upstream_session_ids=readable_chain(link.upstream_session_id for link in links),
        newest=PRIOR_EXCHANGES_MAX + 1,  # the prompt at hand is one
    )
    earlier = [each for each in said if each.seq < live.intended.prompt_seq]
    is_all = not earlier or earlier[0].seq == 1
    # Who was cut off did not end well: only those few are looked at.
    failed = set(totals_of(store, conversation_id).failed) & {each.turn_id for each in earlier}
    return prior_context(
        earlier,
        first=None if is_all else next(iter(store.messages(conversation_id, first=1)), None),
        cut_off={each for each in failed if turn_view(store, conversation_id, each).was_left_open},
    )


def past_of(live: LiveTurn, prior: PriorContext) -> str:
    """Return what a session is told of the past; empty for one that remembers it.

    A conversation that goes on in another session hears what was said last; one that starts fresh
    hears a briefing. With either go the actions that must not be done again. One that goes on in
    its session hears what has changed around it, where that was decided.
    """
    past = damage = effects = ""
    is_new = live.telling in NEW_SESSION_DECISIONS
    is_prior_injected = live.must_inject
    if is_prior_injected or is_new or live.view.sends:
        newest = live.store.messages(live.conversation_id, newest=REPLAYED_MESSAGES_MAX)
        prompt_seq = live.intended.prompt_seq
        earlier = [message for message in newest if message.seq < prompt_seq]
        if is_prior_injected:
            past = render_prior_context(
                prior,
                # A word that no content can have known.
                nonce=live.system.new_id("prior"),
                is_session_new=is_new,
                work=work_of(earlier),
            )
            damage = damage_told(history_of(earlier))
        elif live.telling in STARTS:
            past = _briefing_of_past(live)
        # Sent once already in this turn, it may have been acted on before its session was lost.
        is_told = bool(past) or bool(live.view.sends)
        effects = _effects_told(live, newest if is_told else ())
    update = ""
    if live.telling == RESUME_WITH_UPDATE:
        update = update_of(live, live.freshness)
    return "\n\n".join(piece for piece in (past, damage, effects, update) if piece)


def update_of(live: LiveTurn, found: Freshness) -> str:
    """Return the block that tells a session what has changed around it; empty for nothing."""
    return render_update(found, role=live.role_told, is_role_told=live.request.call is not None)


def context_of(live: LiveTurn, past: str) -> str:
    """Return what goes before the prompt, with what is told of the past."""
    return context_for(
        role=live.role_told, task=live.request.task, decision=live.telling, past=past
    )


def _briefing_of_past(live: LiveTurn) -> str:
    if live.turn_number <= 1 and not briefing_edit(live.store, live.conversation_id)[0]:
        return ""
    # That nothing has changed is said only where somebody looked (ADR 81).
    looked = has_looked(live.intended.inputs)
    inputs = briefing_inputs(
        live.store,
        live.conversation,
        changes=change_lines(live.freshness) if looked else None,
        before_seq=live.intended.prompt_seq,
        task=without_fresh(live.request.task.text),
        is_independent=live.request.role.is_independent,
    )
    return build_briefing(inputs)


def sent_event(prompt_seq: int, prior: PriorContext, *, is_injected: bool) -> PromptSent:
    """Return the event that keeps what leaves, and what was said before it."""
    return PromptSent(
        prompt_seq=prompt_seq,
        prior_from_seq=prior.from_seq,
        prior_to_seq=prior.to_seq,
        prior_digest=prior.digest if prior.said else "",
        is_prior_injected=is_injected and bool(prior.said),
    )


def examiner_of(live: LiveTurn, *, unseen_after_ns: int | None = None) -> Examiner:
    """Return who keeps what the session reads, knowing what it read before."""
    link = live.require_link()
    session = link.upstream_session_id
    return Examiner(
        root=live.working_directory,
        link=link,
        turn_id=live.turn_id,
        known=live.store.examined(live.conversation_id, upstream_session_id=session),
        first_ordinal=first_file_after(live.view.events),
        unseen_after_ns=unseen_after_ns,
        environment=live.environment(),
    )


# --- an older record: what the agent's session has and the record lacks ---------------------------

# A copy of the database that was put back, by whatever means, knows less than the session it goes
# on in; so does a record of which a person passed by. Before a prompt is decided upon and numbered,
# the session's store is looked at: one look where nobody has gone on in it since our last turn.


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
    if not link:
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
    if not found or not (is_proven or has_prompt(found.events)):
        return Lacked(stamp=stamp) if is_proven else _empty(link, stamp)
    compared = _compared(store, link, as_recorded(found.events, redactor))
    return replace(compared, stamp=stamp, written_at_ns=found.written_at_ns)


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


def look_at_replay(live: LiveTurn, replay: Sequence[AgentEvent]) -> Lacked:
    """Return what a session lacks that its agent replayed, because nobody reads its store.

    Turns that only the session has are not read back: the prompt has its number by now.
    """
    link = live.require_link()
    if not (has_prompt(replay) or has_answered(live.store, link, live.claim.last)):
        return _empty(link)
    history = as_recorded(replay, live.request.redactor)
    compared = _compared(live.store, link, history, was_streamed=True)
    return Lacked(gone=compared.gone, fault=TOO_MANY if compared.fault == TOO_MANY else "")


def _compared(
    store: Store, link: Link, history: Sequence[AgentEvent], *, was_streamed: bool = False
) -> Lacked:
    recorded, session = store.messages(link.conversation_id), link.upstream_session_id
    compared = lacked(history, recorded, session)
    if compared.fault == TOO_MANY:
        return compared
    prompts = gone_turns(history, recorded, session, was_streamed=was_streamed)
    return replace(compared, gone=_gone(store, link, prompts))


def _gone(store: Store, link: Link, prompts: Iterable[Message]) -> str:
    """Name the newest turns that ended well and that the session lacks, empty for none."""
    found: set[TurnId] = set()
    for prompt in prompts:
        ended = turn_view(store, link.conversation_id, prompt.turn_id).ended
        if ended and ended.was_compacted:
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
    if not found:
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
            yield replace(first, text=text)
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
        new: Any = redactor.redact_json(value)
        if isinstance(value, tuple):  # the places of a call, or the entries of a plan
            new = tuple(each if isinstance(each, str) else tuple(each) for each in new)
        redacted[name] = new
    return replace(event, **redacted)
