"""Delivery: what a prompt is made of, and what is recorded while its reply comes.

The prior context of every send is computed and kept; the core says whether the prompt tells it.
What is sent is committed before it leaves. How the turn then ends is the driver's to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio
from msgspec import structs

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core.commands import Write
from upthread.core.decision.rollover import PoisonSigns, detectors_with, poison
from upthread.core.decision.words import RESUME_WITH_REPLAY
from upthread.core.events import (
    AgentEvent,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    UnknownReceived,
    UsageReported,
)
from upthread.core.quotas import RESET_S_MAX, require_tokens
from upthread.core.turns.effects import Effect
from upthread.core.turns.prompt import context_for
from upthread.core.turns.recorder import Recorder
from upthread.core.types import ContextPart, Message, Outcome, Part, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.runtime.turns.attach import notify_if_due, telling_of_wait
from upthread.runtime.turns.examination import Examiner
from upthread.runtime.turns.live_turn import Answer, LiveTurn, Recording
from upthread.runtime.turns.turn_history import (
    RecordedChild,
    effects_before,
    effects_of_turn,
    examiner_of,
    past_of,
    prior_of,
    recorded_children,
    sent_event,
)
from upthread.tasks import task_group

NOTHING_TO_REPLAY: Final = "nothing_to_replay"

DRAIN_S: Final = 5.0
"""How long the agent of a cancelled turn may take to end its turn, while that is recorded."""

GRACE_S: Final = 2.0
"""How long a turn that another process will continue may take to come to its own end first.

A process that was suspended is cancelled when it wakes, and finds its agent's reply waiting.
"""


class _Beforehand(NamedTuple):
    """What is read before a prompt leaves: all that is asked while its reply comes.

    `known` are the actions that must not be done again.
    """

    children: tuple[RecordedChild, ...]
    quarantined: int
    examiner: Examiner
    known: tuple[Effect, ...]


async def send(live: LiveTurn, connection: AgentConnection) -> Answer | None:
    """Send the turn's prompt to the session that is attached; None where it is not all kept."""
    begun = await live.read(lambda: _begun(live))
    if begun is None:
        return None
    text, beforehand, is_past_told = begun
    if live.telling == RESUME_WITH_REPLAY and not is_past_told:
        said = "nothing of what was said is left on record: the new session begins without it"
        live.notice(NOTHING_TO_REPLAY, said)
    return await _stream(live, connection, text, beforehand)


async def stream(live: LiveTurn, connection: AgentConnection, text: str) -> Answer:
    """Let a prompt leave that is committed, and record the reply while it comes."""
    beforehand = await live.read(lambda: _beforehand(live))
    return await _stream(live, connection, text, beforehand)


def _begun(live: LiveTurn) -> tuple[str, _Beforehand, bool] | None:
    """Commit the prompt as it will leave, and read what is known by then. Blocking.

    With it whether the session is told anything of the past.
    """
    # Without what redaction took from it, it would be another prompt than the person's.
    if not live.has_whole_prompt():
        return None
    # Also where it is not told: what a session could have been told is on record (ADR 13).
    prior = prior_of(live)
    is_injected = live.must_inject
    past = past_of(live, prior, is_prior_injected=is_injected)
    context = context_for(
        role=live.request.claim.role,
        task=live.request.task,
        decision=live.telling,
        past=past,
    )
    message, writes = _prompt_message(live, context)
    sent = sent_event(message.seq, prior, is_injected=is_injected)
    # Before it leaves: whoever finds the turn then asks the agent's history what
    # became of it, and never sends a prompt a second time that may have arrived.
    live.commit_here(sent, writes=writes)
    live.advance_past(writes)
    return message.sent_text, _beforehand(live), bool(past)


async def _stream(
    live: LiveTurn, connection: AgentConnection, text: str, beforehand: _Beforehand
) -> Answer:
    async with telling_of_wait(live, "answer", is_prompted=True) as has_spoken:
        return await _record(live, connection, text, beforehand, has_spoken)


async def _record(
    live: LiveTurn,
    connection: AgentConnection,
    text: str,
    beforehand: _Beforehand,
    has_spoken: Callable[[], None],
) -> Answer:
    live.recording = recording = _recording(live, beforehand, _hearing(live, has_spoken))
    live.gate.expect(known=beforehand.known, keep=recording.intend)
    session = live.require_link().upstream_session_id
    results: list[PromptResult] = []
    began_s = anyio.current_time()

    async def ask() -> None:
        results.append(await _prompt(live, connection, text))

    def answer() -> Answer:
        writes = recording.close()
        live.make_with_next = recording.examined
        if live.recorder is not None:  # some of it is committed: more is written after it
            live.advance_to(live.recorder.own.next_seq)
        return Answer(
            result=results[0],
            writes=writes,
            prompt_characters=len(text),
            duration_s=anyio.current_time() - began_s,
            late_events=connection.late_events,
        )

    try:
        async with task_group() as tasks:
            tasks.start_soon(recording.keep_flushing)
            grace_s = GRACE_S if live.request.is_handed_back else 0.0
            await heard_out(ask, lambda: connection.cancel(session), grace_s=grace_s)
            tasks.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class():
        # The agent came to its own end before the cancel reached it: that is how it ended.
        if results and results[0].outcome is Outcome.OK:
            live.answer = answer()
        raise
    if results[0].outcome is not Outcome.UNKNOWN:
        notify_if_due(live)
    return answer()


def _recording(
    live: LiveTurn, beforehand: _Beforehand, on_event: Callable[[AgentEvent], None]
) -> Recording:
    recorder = Recorder(
        conversation=live.conversation,
        turn_id=live.turn_id,
        link=live.require_link(),
        next_seq=live.next_seq,
        call_durability=live.request.durability,
        quarantined=beforehand.quarantined,
    )
    # Children have conversations already, from this turn or earlier ones.
    for child in beforehand.children:
        recorder.know_child(
            child.upstream_session_id, child.conversation_id, next_seq=child.next_seq
        )
    live.recorder = recorder
    live.account.begin(recorder)
    return Recording(
        store=live.store,
        system=live.system,
        recorder=recorder,
        examiner=beforehand.examiner,
        fences=live.fences,
        on_event=on_event,
        is_own=lambda session: _is_own_child(live, session),
    )


def _hearing(live: LiveTurn, has_spoken: Callable[[], None]) -> Callable[[AgentEvent], None]:
    """Return what hands the events on, and tells once that the agent waits and tries again."""
    progress = ""

    def hear(event: AgentEvent) -> None:
        nonlocal progress
        # Steps and tokens are no words: an agent may ask its model again and again.
        if isinstance(event, TextReceived | ReasoningReceived | ToolCallAnnounced):
            has_spoken()
            notify_if_due(live)
        live.request.listener.event(event)
        if isinstance(event, UnknownReceived) and event.progress not in {"", progress}:
            progress, agent = event.progress, live.request.claim.agent
            live.notice("agent_retries", f"{agent}: {progress}", agent=agent)

    return hear


def _beforehand(live: LiveTurn) -> _Beforehand:
    # Sent for the first time, a turn has done nothing yet that it could do again.
    is_again = live.view.was_sent_again
    own = effects_of_turn(live) if is_again else ()
    return _Beforehand(
        children=recorded_children(live.store, live.conversation),
        # Counted over all sends of the turn, so that nothing is written over; a first has none.
        quarantined=live.quarantined() if is_again else 0,
        examiner=examiner_of(live),
        known=(*effects_before(live), *own),
    )


def judged(live: LiveTurn, answer: Answer) -> PromptResult:
    """Return how the prompt ended; a reply that is an earlier turn's is poison, whatever it says.

    Only a session that was resumed can give one.
    """
    result, attached = answer.result, live.view.attached
    if result.outcome is not Outcome.OK or attached is None or attached.how == "new":
        return result
    signs = PoisonSigns(
        was_interrupted=live.was_interrupted_before,
        prompt_characters=answer.prompt_characters,
        duration_s=answer.duration_s,
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        # Silence after a call is no sign: sent again, what the call did would be done twice.
        is_reply_empty=not live.reply.strip() and not live.has_worked,
    )
    is_on = live.request.settings.rolls_over_when_empty(live.request.claim.agent)
    detectors = detectors_with(empty_reply=is_on)
    detector = poison(signs, detectors=detectors)
    return (
        structs.replace(result, outcome=Outcome.POISONED, detail=detector) if detector else result
    )


def _is_own_child(live: LiveTurn, session: UpstreamSessionId) -> bool:
    """Whether nobody holds a session, or a sub-agent of this very conversation. Blocking."""
    own = live.conversation
    owner = live.store.owner(own.key.project_id, session)
    # Upwards, since a sub-agent's own sub-agents are of this conversation as well.
    while owner is not None and owner.parent_conversation_id is not None:
        if owner.parent_conversation_id == own.conversation_id:
            return True
        owner = live.store.conversation(owner.parent_conversation_id)
    return owner is None or owner.conversation_id == own.conversation_id


def _sound(result: PromptResult, *, now_ms: int) -> PromptResult:
    """Return how a prompt ended, without what cannot be. Raises QuotaExceededError."""
    require_tokens(result.tokens_used, result.tokens_in, result.tokens_out)
    at_ms = result.reset_at_ms
    # A time that cannot be would have a run wait for years, or resume at once without end.
    is_time = at_ms is None or 0 <= at_ms - now_ms <= RESET_S_MAX * 1000
    return result if is_time else structs.replace(result, reset_at_ms=None)


def _prompt_message(live: LiveTurn, context: str) -> tuple[Message, tuple[Write, ...]]:
    """Return the message as it is sent, and the writes that complete the record of it."""
    message = live.prompt()
    if live.view.sends:  # it went to a session that was given up: what is sent now is another one
        text = "\n\n".join(piece for piece in (context, message.text) if piece)
        parts: tuple[Part, ...] = (ContextPart(text=text),)
        write = live.user_parts(live.next_seq, 0, parts, stamp=live.current_session)
        return structs.replace(message, seq=live.next_seq, parts=parts), (write,)
    if not context:
        return message, ()
    parts = (ContextPart(text=context),)
    stamp = message.upstream_session_id
    write = live.user_parts(message.seq, len(message.parts), parts, stamp=stamp)
    return structs.replace(message, parts=(*message.parts, *parts)), (write,)


async def heard_out(
    prompt: Callable[[], Awaitable[None]],
    cancel: Callable[[], Awaitable[None]],
    *,
    grace_s: float = 0.0,
) -> None:
    """Prompt; for a caller that is cancelled, cancel the prompt and take what the agent still says.

    After `grace_s`, and for DRAIN_S at most: then the agent is ended, and what it says after that
    is in its store alone.
    """
    kept, is_over = anyio.CancelScope(shield=True), anyio.Event()

    async def run() -> None:
        try:
            with kept:
                await prompt()
        finally:
            is_over.set()

    async with task_group() as tasks:
        tasks.start_soon(run)
        try:
            await is_over.wait()
        except anyio.get_cancelled_exc_class():
            try:
                with anyio.move_on_after(grace_s, shield=True):
                    await is_over.wait()
                with anyio.move_on_after(DRAIN_S, shield=True):
                    await cancel()
                    await is_over.wait()
            finally:
                kept.cancel()  # also for a caller that is cancelled once more
            raise


async def _prompt(live: LiveTurn, connection: AgentConnection, text: str) -> PromptResult:
    """Prompt, and turn the agent's failure into the outcome it is.

    A turn that would spend more than may be is cancelled once a request has told what it took.
    """
    session, recording = live.require_link().upstream_session_id, live.recording
    assert recording is not None
    began_ms = live.now_ms()

    async def take(event: AgentEvent) -> None:
        # First, since the account counts what its recorder has heard.
        await recording.take(event)
        if isinstance(event, UsageReported) and live.account.is_passing():
            await connection.cancel(session)

    try:
        result = await connection.prompt(session, text, on_event=take)
        return _sound(result, now_ms=began_ms)
    # The prompt has left: from here on a failure of the agent's is its outcome, with what
    # is done about it in core/decision/rollover.py, and not an error that ends the turn.
    except UpstreamError as error:
        return PromptResult(
            outcome=Outcome(error.outcome), detail=str(error), reset_at_ms=error.reset_at_ms
        )
