"""The history of a turn: what a turn reads of its conversation before it sends or goes on.

Briefings for sessions that know nothing, prompts that failed, calls and children that a crash left
open. Reads only, and blocking, so that one hop has all that is looked up at a time; what is written
is made by those who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from upthread.core.acts import settlements_in
from upthread.core.commands import RecordDecision
from upthread.core.context.briefing import build_briefing
from upthread.core.context.prior_context import (
    PRIOR_EXCHANGES_MAX,
    PriorContext,
    prior_context,
    render_prior_context,
    work_of,
)
from upthread.core.decision.freshness import change_lines
from upthread.core.decision.handshake import RESUME, RESUME_WITH_UPDATE, START_FRESH
from upthread.core.decision.model import has_looked
from upthread.core.events import PromptSent, SessionAttached, TurnEvent
from upthread.core.history.model import history_of
from upthread.core.history.repair import damage_told
from upthread.core.sessions import readable
from upthread.core.turns import turn as turns
from upthread.core.turns.effects import Effect, effects_of, held, settled
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS, effects_block, render_update
from upthread.core.turns.recognition import EarlierPrompt
from upthread.core.turns.recorder import Recorder
from upthread.core.turns.replayed_history import open_calls
from upthread.core.types import (
    Conversation,
    ConversationId,
    Message,
    Outcome,
    Speaker,
    UpstreamSessionId,
)
from upthread.runtime.record.briefing import briefing_inputs
from upthread.runtime.record.effects import RecordedEffect, effects_in_doubt, left_open
from upthread.runtime.record.turn_views import totals_of, turn_events, turn_view
from upthread.runtime.turns.examination import Examiner, first_file_after
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.store.base import Store

EARLIER_MESSAGES_MAX = 256
"""How far back prompts are looked for that failed and may yet be in the agent's history."""

REPLAYED_MESSAGES_MAX = 1_024
"""How far back calls, a plan, actions and damage are looked for: a turn of hundreds of steps."""

CUT_OFF_MESSAGES_MAX = 16
"""How far back a child's calls are looked for that a crash left open."""


def earlier_prompts(live: LiveTurn) -> tuple[list[EarlierPrompt], bool]:
    """Read what left for the session before the prompt that left last, oldest first.

    With it whether there may be more that is not read.
    """
    assert live.view.sent is not None
    last = live.view.sent.prompt_seq
    found = live.store.messages(live.conversation_id, newest=EARLIER_MESSAGES_MAX)
    asked = {m.seq: m for m in found if m.speaker is Speaker.USER and m.seq < last}
    prompts: list[EarlierPrompt] = []
    for turn_id in dict.fromkeys(message.turn_id for message in asked.values()):
        events = turn_events(live.store, live.conversation_id, turn_id)
        sent = [seq for seq in _sent_to(live.current_session, events) if seq in asked]
        ended = turns.fold(events).ended
        was_answered = ended is not None and ended.outcome is Outcome.OK
        # A prompt that is sent again has its number twice, and only the last one was answered.
        prompts += [EarlierPrompt(asked[seq].sent_text) for seq in sent[:-1]]
        prompts += [EarlierPrompt(asked[seq].sent_text, was_answered) for seq in sent[-1:]]
    return prompts, len(found) == EARLIER_MESSAGES_MAX


def _sent_to(session: UpstreamSessionId | None, events: Iterable[TurnEvent]) -> Iterator[int]:
    """Yield the prompts of a turn that left for a session."""
    attached = None
    for event in events:
        if isinstance(event, SessionAttached):
            attached = event.upstream_session_id
        elif isinstance(event, PromptSent) and attached == session:
            yield event.prompt_seq


def recorder_of_rest(live: LiveTurn) -> Recorder:
    """Return a recorder that goes on where recording stopped, knowing children and open calls."""
    messages = live.messages(after_seq=live.intended.prompt_seq)
    recorder = Recorder(
        conversation=live.conversation,
        turn_id=live.turn_id,
        link=live.require_link(),
        next_seq=live.next_seq,
        # What is read back is of the session that was asked for: what names none is its own.
        guarantees_owner=True,
        quarantined=live.quarantined(),
    )
    for part in open_calls(messages):
        recorder.know_open_call(part)
    for child in recorded_children(live.store, live.conversation):
        newest = live.store.messages(child.conversation_id, newest=CUT_OFF_MESSAGES_MAX)
        recorder.know_child(
            child.upstream_session_id,
            child.conversation_id,
            next_seq=child.next_seq,
            open_calls=open_calls(each for each in newest if each.turn_id == live.turn_id),
        )
    return recorder


class RecordedChild(Struct, frozen=True, kw_only=True):
    """A child's session and conversation; `next_seq` is its next message."""

    upstream_session_id: UpstreamSessionId
    conversation_id: ConversationId
    next_seq: int


def recorded_children(store: Store, conversation: Conversation) -> tuple[RecordedChild, ...]:
    """Return the children of a conversation, and theirs. Blocking.

    An agent may call one again at any time.
    """
    family = {conversation.conversation_id}
    found: list[RecordedChild] = []
    # In the order they were opened, so that whoever called one is in the family before it.
    for child in store.conversations(conversation.key.project_id, conversation.key.workstream):
        if child.parent_conversation_id not in family:
            continue
        family.add(child.conversation_id)
        found += [
            RecordedChild(
                upstream_session_id=link.upstream_session_id,
                conversation_id=child.conversation_id,
                next_seq=store.message_count(child.conversation_id) + 1,
            )
            for link in store.links(child.conversation_id)
        ]
    return tuple(found)


def effects_of_turn(live: LiveTurn) -> tuple[Effect, ...]:
    """Return what this turn and its sub-agents did, or intended to do."""
    own = live.messages(after_seq=live.intended.prompt_seq)
    found = [(live.conversation_id, own)]
    for child in recorded_children(live.store, live.conversation):
        messages = live.store.messages(child.conversation_id)
        own = tuple(each for each in messages if each.turn_id == live.turn_id)
        found += [(child.conversation_id, own)] if own else []
    patterns = live.request.settings.outward_patterns
    return tuple(
        effect
        for conversation_id, messages in found
        for effect in settled(
            effects_of(messages, outward_patterns=patterns),
            settlements_in(live.store.acts(conversation_id)),
        )
    )


def doubts(live: LiveTurn) -> tuple[Effect, ...]:
    """Return what may have reached beyond this machine before this turn, in the workstream.

    Whoever did it: what nobody has looked at must be done by nobody again.
    """
    return _of_workstream(live, effects_in_doubt)


def effects_before(live: LiveTurn) -> tuple[Effect, ...]:
    """Return the doubts, and what each role did before this turn since its last known end."""
    return (*doubts(live), *_of_workstream(live, left_open))


def _of_workstream(
    live: LiveTurn, find: Callable[..., tuple[RecordedEffect, ...]]
) -> tuple[Effect, ...]:
    found = find(
        live.store,
        live.conversation.key.project_id,
        live.conversation.key.workstream,
        outward_patterns=live.request.settings.outward_patterns,
        apart_from=live.turn_id,
    )
    return tuple(each.effect for each in found)


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
        upstream_session_ids=readable(link.upstream_session_id for link in links),
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


def past_of(live: LiveTurn, prior: PriorContext, *, is_prior_injected: bool) -> str:
    """Return what a session is told of the past; empty for one that remembers it.

    A conversation that goes on in another session hears what was said last; one that starts fresh
    hears a briefing. With either go the actions that must not be done again. One that goes on in
    its session hears what has changed around it, where that was decided.
    """
    past = damage = effects = ""
    is_fresh = live.telling == START_FRESH
    is_new = live.telling in NEW_SESSION_DECISIONS
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
        elif is_fresh:
            past = _briefing_of_past(live)
        # Sent once already in this turn, it may have been acted on before its session was lost.
        is_told = bool(past) or bool(live.view.sends)
        effects = _effects_told(live, newest if is_told else ())
    is_updated = live.telling == RESUME_WITH_UPDATE
    is_role_told = live.request.call is not None
    update = (
        render_update(live.freshness, role=live.role_told, is_role_told=is_role_told)
        if is_updated
        else ""
    )
    return "\n\n".join(piece for piece in (past, damage, effects, update) if piece)


def _briefing_of_past(live: LiveTurn) -> str:
    if live.turn_number <= 1:
        return ""
    # That nothing has changed is said only where somebody looked (ADR 81).
    looked = has_looked(live.intended.inputs)
    inputs = briefing_inputs(
        live.store,
        live.conversation,
        changes=change_lines(live.freshness) if looked else None,
        before_seq=live.intended.prompt_seq,
        is_independent=live.request.claim.role.continuity == "fresh",
    )
    return build_briefing(inputs)


def is_unheeded(store: Store, refused: RecordDecision, named: Mapping[str, int]) -> bool:
    """Return whether a refusal's inputs have these members and no turn resumed since. Blocking."""
    inputs = refused.inputs
    if not isinstance(inputs, Mapping) or not named.items() <= inputs.items():
        return False
    known = store.turns(refused.conversation_id)
    later = (each.turn_id for each in known if each.opened_at_ms > refused.decided_at_ms)
    begun = (turn_view(store, refused.conversation_id, each).intended for each in later)
    return not any(each and each.decision in {RESUME, RESUME_WITH_UPDATE} for each in begun)


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
    conversation_id, turn_id = live.conversation_id, live.turn_id
    session = live.require_link().upstream_session_id
    return Examiner(
        root=live.request.open.working_directory,
        conversation_id=conversation_id,
        turn_id=turn_id,
        upstream_session_id=session,
        known=live.store.examined(conversation_id, upstream_session_id=session),
        first_ordinal=first_file_after(live.view.events),
        unseen_after_ns=unseen_after_ns,
    )
