"""Delivery: what a prompt is made of, and what is recorded while its reply comes.

The prior context of every send is computed and kept; the core says whether the prompt tells it.
What is sent is committed before it leaves. How the turn then ends is the driver's to say.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
from msgspec import Struct, structs

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core.commands import Write
from upthread.core.context.prior_context import PriorContext
from upthread.core.events import AgentEvent, PromptSent, UsageReported
from upthread.core.quotas import RESET_S_MAX, require_tokens
from upthread.core.turns.prompt import context_for
from upthread.core.turns.recorder import Recorder
from upthread.core.types import ContextPart, Message, Outcome, Part, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.runtime.system import System
from upthread.runtime.turns.examiner import Examiner
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.recorder import Recording
from upthread.runtime.turns.turn_history import (
    doubts,
    effects_of_turn,
    know_children,
    left_open_before,
    past_of,
    prior_of,
    quarantined,
)
from upthread.store.base import Store
from upthread.tasks import task_group


class Answer(Struct, frozen=True, kw_only=True):
    """How a prompt ended. `writes` are what is recorded of it and not committed yet."""

    result: PromptResult
    writes: tuple[Write, ...]
    prompt_characters: int
    duration_s: float
    late_events: int


class Sender:
    """Sends prompts and records what comes of them."""

    def __init__(self, store: Store, system: System) -> None:
        self._store = store
        self._system = system

    async def send(self, live: LiveTurn, connection: AgentConnection) -> Answer:
        """Send the turn's prompt to the session that is attached."""
        # Also where it is not told: what a session could have been told is on record (ADR 13).
        prior = await prior_of(live)
        is_injected = live.must_inject
        context = context_for(
            role=live.request.claim.role,
            task=live.request.task,
            decision=live.telling,
            past=await past_of(live, prior, is_prior_injected=is_injected),
        )
        message, writes = await _prompt_message(live, context)
        sent = sent_event(
            message.seq, prior, prompts_before=live.prompts_before(), is_injected=is_injected
        )
        # Before it leaves: whoever finds the turn then asks the agent's history what
        # became of it, and never sends a prompt a second time that may have arrived.
        await live.log.commit(sent, writes=writes)
        live.messages.advance_past(writes)
        return await self.stream(live, connection, message.sent_text)

    async def stream(self, live: LiveTurn, connection: AgentConnection, text: str) -> Answer:
        """Let a prompt leave that is committed, and record the reply while it comes."""
        live.recording = recording = await self._recording(live)
        # Sent for the first time, a turn has done nothing yet that it could do again.
        own = await effects_of_turn(live) if live.log.view.sends > 1 else ()
        known = (*await doubts(live), *await left_open_before(live), *own)
        live.gate.expect(known=known, keep=recording.intend)
        results: list[PromptResult] = []
        began_s = anyio.current_time()
        async with task_group() as tasks:
            tasks.start_soon(recording.keep_flushing)
            now_ms = self._system.now_ms()
            results.append(await _prompt(live, connection, text, now_ms=now_ms))
            tasks.cancel_scope.cancel()
        writes = await recording.close()
        if live.recorder is not None:  # some of it is committed: what follows is written after it
            live.messages.advance_to(live.recorder.next_seq)
        return Answer(
            result=results[0],
            writes=writes,
            prompt_characters=len(text),
            duration_s=anyio.current_time() - began_s,
            late_events=connection.late_events,
        )

    async def _recording(self, live: LiveTurn) -> Recording:
        recorder = Recorder(
            conversation=live.conversation,
            turn_id=live.log.turn_id,
            link=live.require_link(),
            next_seq=live.messages.next_seq,
            call_durability=live.request.durability,
            # Counted over all sends of the turn, so that nothing is written over; a first has none.
            quarantined=await quarantined(live) if live.log.view.sends > 1 else 0,
        )
        await know_children(live, recorder)
        live.recorder = recorder
        live.account.begin(recorder)
        return Recording(
            store=self._store,
            system=self._system,
            recorder=recorder,
            examiner=await _examiner(live),
            fences=live.log.fences,
            on_event=live.request.listener.event,
            is_own=lambda session: _is_own_child(self._store, live, session),
        )


def sent_event(
    prompt_seq: int, prior: PriorContext, *, prompts_before: int, is_injected: bool
) -> PromptSent:
    """Return the event that keeps what leaves, and what was said before it."""
    return PromptSent(
        prompt_seq=prompt_seq,
        prompts_before=prompts_before,
        prior_from_seq=prior.from_seq,
        prior_to_seq=prior.to_seq,
        prior_digest=prior.digest if prior.said else "",
        is_prior_injected=is_injected and bool(prior.said),
    )


def _is_own_child(store: Store, live: LiveTurn, session: UpstreamSessionId) -> bool:
    """Whether nobody holds a session, or a sub-agent of this very conversation. Blocking."""
    own = live.conversation
    owner = store.link_owner(own.key.project_id, session)
    # Upwards, since a sub-agent's own sub-agents are of this conversation as well.
    while owner is not None and owner.parent_conversation_id is not None:
        if owner.parent_conversation_id == own.conversation_id:
            return True
        owner = store.conversation(owner.parent_conversation_id)
    return owner is None or owner.conversation_id == own.conversation_id


def _sound(result: PromptResult, *, now_ms: int) -> PromptResult:
    """Return how a prompt ended, without what cannot be. Raises QuotaExceededError."""
    require_tokens(result.tokens_used, result.tokens_in, result.tokens_out)
    at_ms = result.reset_at_ms
    # A time that cannot be would have a run wait for years, or resume at once without end.
    is_time = at_ms is None or 0 <= at_ms - now_ms <= RESET_S_MAX * 1000
    return result if is_time else structs.replace(result, reset_at_ms=None)


async def _examiner(live: LiveTurn) -> Examiner:
    """Return who keeps what the session reads, knowing what it read before."""
    conversation_id = live.conversation.conversation_id
    session = live.require_link().upstream_session_id
    turn_id = live.log.turn_id
    known, first_ordinal = await live.read(
        lambda store: (
            store.examined(conversation_id, upstream_session_id=session),
            store.examined_count(turn_id),
        )
    )
    return Examiner(
        root=live.request.open.working_directory,
        conversation_id=conversation_id,
        turn_id=turn_id,
        upstream_session_id=session,
        known=known,
        first_ordinal=first_ordinal,
    )


async def _prompt_message(live: LiveTurn, context: str) -> tuple[Message, tuple[Write, ...]]:
    """Return the message as it is sent, and the writes that complete the record of it."""
    message = await live.messages.prompt()
    if (
        live.log.view.sends
    ):  # it went to a session that was given up: what is sent now is another one
        text = "\n\n".join(piece for piece in (context, message.text) if piece)
        parts: tuple[Part, ...] = (ContextPart(text=text),)
        write = live.messages.user_parts(
            live.messages.next_seq, 0, parts, stamp=live.current_session
        )
        return replace(message, seq=live.messages.next_seq, parts=parts), (write,)
    if not context:
        return message, ()
    parts = (ContextPart(text=context),)
    stamp = message.upstream_session_id
    write = live.messages.user_parts(message.seq, len(message.parts), parts, stamp=stamp)
    return replace(message, parts=(*message.parts, *parts)), (write,)


async def _prompt(
    live: LiveTurn, connection: AgentConnection, text: str, *, now_ms: int
) -> PromptResult:
    """Prompt, and turn the agent's failure into the outcome it is.

    A turn that would spend more than may be is cancelled once a request has told what it took.
    """
    session, recording = live.require_link().upstream_session_id, live.recording
    assert recording is not None

    async def take(event: AgentEvent) -> None:
        # First, since the account counts what its recorder has heard.
        await recording.take(event)
        if isinstance(event, UsageReported) and live.account.is_passing():
            await connection.cancel(session)

    try:
        result = await connection.prompt(session, text, on_event=take)
        return _sound(result, now_ms=now_ms)
    # The prompt has left: from here on a failure of the agent's is its outcome, with what
    # is done about it in core/decision/rollover.py, and not an error that ends the turn.
    except UpstreamError as error:
        return PromptResult(
            outcome=Outcome(error.outcome), detail=str(error), reset_at_ms=error.reset_at_ms
        )
