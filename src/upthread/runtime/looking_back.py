"""Looking back: what a turn reads of its conversation before it sends or goes on.

Briefings for sessions that know nothing, prompts that failed, calls and children that a crash left
open. Reads only; what is written is made by those who ask.
"""

from __future__ import annotations

from dataclasses import dataclass

from upthread.core import turn as turns
from upthread.core.briefing import BriefingInputs, build_briefing
from upthread.core.catching_up import open_calls
from upthread.core.chain import readable
from upthread.core.changes import change_lines
from upthread.core.effects import Effect, effects_of
from upthread.core.handshake import RESUME_WITH_UPDATE, START_FRESH
from upthread.core.history.handing_over import damage_told
from upthread.core.history.model import history_of
from upthread.core.prior_context import (
    PRIOR_MESSAGES_MAX,
    PriorContext,
    prior_context,
    render_prior_context,
)
from upthread.core.prompt import NEW_SESSION_DECISIONS
from upthread.core.recorder import Recorder
from upthread.core.types import (
    Conversation,
    ConversationId,
    Message,
    Outcome,
    Speaker,
    ToolCallPart,
    UpstreamSessionId,
)
from upthread.core.update import render_update
from upthread.runtime.briefing import BriefingRequest, briefing_inputs
from upthread.runtime.live_turn import LiveTurn
from upthread.runtime.replay import effects_told
from upthread.store.base import Store

EARLIER_MESSAGES_MAX = 256
"""How far back prompts are looked for that failed and may yet be in the agent's history."""

CUT_OFF_MESSAGES_MAX = 16
"""How far back a child's calls are looked for that a crash left open."""


async def earlier_texts(live: LiveTurn) -> tuple[str, ...]:
    """Read the prompts of earlier turns that failed, as far back as they may matter."""
    return await live.read(lambda store: _earlier_texts(live, store))


def _earlier_texts(live: LiveTurn, store: Store) -> tuple[str, ...]:
    found = store.messages(live.conversation.conversation_id, newest=EARLIER_MESSAGES_MAX)
    asked = [m for m in found if m.speaker is Speaker.USER and m.turn_id != live.turn_id]
    ended = {
        turn_id: turns.fold(store.turn_events(turn_id)).ended
        for turn_id in {message.turn_id for message in asked}
    }
    answered = {i for i, end in ended.items() if end and end.outcome is Outcome.OK}
    return tuple(message.sent_text for message in asked if message.turn_id not in answered)


async def recorder_of_rest(live: LiveTurn) -> Recorder:
    """Return a recorder that goes on where recording stopped, knowing the calls left open."""
    messages = await live.messages_of_turn(after_seq=live.require_intended().prompt_seq)
    recorder = Recorder(
        conversation=live.conversation,
        turn_id=live.turn_id,
        link=live.require_link(),
        next_seq=live.next_seq,
        guarantees_owner=True,
        quarantined=await quarantined(live),
    )
    for part in open_calls(messages):
        recorder.know_open_call(part)
    for child, calls in await live.read(lambda store: _children_cut_off(store, live)):
        recorder.know_child(
            child.upstream_session_id,
            child.conversation_id,
            next_seq=child.next_seq,
            open_calls=calls,
        )
    return recorder


def _children_cut_off(
    store: Store, live: LiveTurn
) -> tuple[tuple[RecordedChild, tuple[ToolCallPart, ...]], ...]:
    """Return the children that called something in this turn which was never answered."""
    found: list[tuple[RecordedChild, tuple[ToolCallPart, ...]]] = []
    for child in recorded_children(store, live.conversation):
        newest = store.messages(child.conversation_id, newest=CUT_OFF_MESSAGES_MAX)
        calls = open_calls(message for message in newest if message.turn_id == live.turn_id)
        found += [(child, calls)] if calls else []
    return tuple(found)


async def quarantined(live: LiveTurn) -> int:
    """Read how many events of this turn are in quarantine."""
    turn_id = live.turn_id
    return len(await live.read(lambda store: store.quarantined(turn_id)))


async def know_children(live: LiveTurn, recorder: Recorder) -> None:
    """Tell a recorder which children have conversations already, from this turn or earlier ones."""
    for child in await live.read(lambda store: recorded_children(store, live.conversation)):
        recorder.know_child(
            child.upstream_session_id, child.conversation_id, next_seq=child.next_seq
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChild:
    """A child's session and conversation; `next_seq` is its next message."""

    upstream_session_id: UpstreamSessionId
    conversation_id: ConversationId
    next_seq: int


def recorded_children(store: Store, conversation: Conversation) -> tuple[RecordedChild, ...]:
    """Return the children of a conversation, and theirs. An agent may call one again at any time.

    Blocking.
    """
    family = {conversation.conversation_id}
    found: list[RecordedChild] = []
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


async def effects_of_turn(live: LiveTurn) -> tuple[Effect, ...]:
    """Return what this turn is known to have done, or to have meant to do."""
    messages = await live.messages_of_turn(after_seq=live.require_intended().prompt_seq)
    return effects_of(messages, outward_patterns=live.request.outward_patterns)


async def _effects_told(live: LiveTurn) -> str:
    """Return what must not be done again, as a block."""
    conversation_id = live.conversation.conversation_id
    messages = await live.read(
        lambda store: store.messages(conversation_id, newest=EARLIER_MESSAGES_MAX)
    )
    open_turns = {live.turn_id} if live.has_last_turn_ended else {live.turn_id, live.claim.last_id}
    return effects_told(messages, open_turns, outward_patterns=live.request.outward_patterns)


async def prior_of(live: LiveTurn) -> PriorContext:
    """Read what was said before this turn's prompt, over the readable chain. One range scan."""
    prompt_seq = live.require_intended().prompt_seq
    conversation_id = live.conversation.conversation_id

    def read(store: Store) -> tuple[Message, ...]:
        links = store.links(conversation_id)
        chain = readable(link.upstream_session_id for link in links)
        # One more than is told: the prompt at hand is recorded already.
        newest = PRIOR_MESSAGES_MAX + 1
        return store.prior_messages(conversation_id, upstream_session_ids=chain, newest=newest)

    earlier = [message for message in await live.read(read) if message.seq < prompt_seq]
    return prior_context(earlier, was_interrupted=not live.has_last_turn_ended)


async def past_of(live: LiveTurn, prior: PriorContext, *, is_prior_injected: bool) -> str:
    """Return what a session is told of the past; empty for one that remembers it.

    A conversation that goes on in another session hears what was said last; one that starts fresh
    hears a briefing. With either go the actions that must not be done again. One that goes on in
    its session hears what has changed around it, where that was decided.
    """
    past = ""
    if is_prior_injected:
        is_new = live.telling in NEW_SESSION_DECISIONS
        past = render_prior_context(prior, nonce=live.new_nonce(), is_session_new=is_new)
    elif live.telling == START_FRESH:
        past = await _briefing_of_past(live)
    is_told = bool(past) or bool(live.view.sends)
    update = render_update(live.freshness, role=live.request.claim.role)
    pieces = (
        past,
        await _damage_told(live) if is_prior_injected else "",
        await _effects_told(live) if is_told else "",
        update if live.telling == RESUME_WITH_UPDATE else "",
    )
    return "\n\n".join(piece for piece in pieces if piece)


async def _damage_told(live: LiveTurn) -> str:
    """Return what a session is told of damage in the record it is replayed from."""
    prompt_seq = live.require_intended().prompt_seq
    conversation_id = live.conversation.conversation_id
    newest = await live.read(
        lambda store: store.messages(conversation_id, newest=EARLIER_MESSAGES_MAX)
    )
    earlier = history_of(message for message in newest if message.seq < prompt_seq)
    return damage_told(earlier.messages)


async def _briefing_of_past(live: LiveTurn) -> str:
    if live.turn_number <= 1:
        return ""
    conversation = live.conversation
    changes = change_lines(live.freshness)
    before_seq = live.require_intended().prompt_seq
    is_independent = live.request.claim.role.continuity == "fresh"

    def read(store: Store) -> BriefingInputs:
        request = BriefingRequest(
            conversation=conversation,
            changes=changes,
            before_seq=before_seq,
            is_independent=is_independent,
        )
        return briefing_inputs(store, request)

    return build_briefing(await live.read(read))
