"""Turns: one prompt to one conversation, claimed, decided, its intent committed, then driven.

Before anything is sent: the newest turn is ended or taken over, with the agent that a dead holder
left behind; what only the agent's session has is read back; the handshake decides; the intent is
kept with the person's words.

Then the executor drives the turn, from where it stands to its end, doing what `core.turns.turn`
names next. A session is attached exactly as decided and its id banked before the prompt runs. What
is done about the way a prompt ended is one table, core/decision/rollover.py; each of its words has
one method here. A turn whose prompt may have left continues by what the agent's own history says.
What is decided is in the core; what people see, in surfaces.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar, TypeVarTuple, assert_never

import anyio
from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core.decision.rollover import (
    LOST,
    NOT_STARTED,
    ROLLOVER,
    SENDS_AGAIN,
    SPOILT,
    STDERR_END,
    Recovery,
    is_stopping,
    recovery_of,
    says_not_started,
)
from upthread.core.decision.words import OTHER_PROFILE, RECOGNISED, REFUSE
from upthread.core.events import AttachFailed, PromptRecognised, TurnEnded, TurnParked
from upthread.core.runs.stops import CUT_OFF, NEW_REFUSED
from upthread.core.text import command, without_mentions
from upthread.core.turns.agent_history import Lacked, Recognised
from upthread.core.turns.effects import held
from upthread.core.turns.spent_tokens import spending_in_words
from upthread.core.turns.turn import (
    HELD_BACK,
    NEW_SESSION_DECISIONS,
    UNDECIDABLE,
    Recognition,
    TurnCommand,
    TurnView,
    role_block,
)
from upthread.core.types import Decision, Message, Outcome, TurnId
from upthread.errors import (
    ConfigError,
    FencedError,
    NoOpenTurnError,
    QuotaExceededError,
    UpstreamError,
)
from upthread.runtime.system import System
from upthread.runtime.turns import beginning
from upthread.runtime.turns.delegation import Conversations, TellRequest, TurnResult, refused
from upthread.runtime.turns.delivery import (
    attach,
    attach_as_decided,
    closed_in_words,
    elsewhere_in_words,
    judged,
    notify_started,
    prepare,
    restore_refused,
    send,
    stream,
    tell_kept,
    tell_of_lacking,
    telling_of_wait,
)
from upthread.runtime.turns.live_turn import (
    CANCELLED,
    LiveTurn,
    end_here,
    end_with,
    link_end,
    parked_event,
    result_of,
)
from upthread.runtime.turns.recording import Answer
from upthread.runtime.turns.recovery import (
    adopt,
    continuation_of,
    effects_of_turn,
    holds_back,
    parked_unheld,
    recognised_replay,
    rest_of,
    update_of,
)
from upthread.store.base import Store

NOT_KEPT = "the prompt was not sent, and of its text not all was kept: send it again"

STARTED_TWICE = "; it was started twice"

CLEAN_UP_S = 15.0
"""How long an interrupted turn may take to cancel its agent and commit its end."""

PASSING = frozenset({Outcome.PROCESS_DIED, Outcome.TIMED_OUT, Outcome.TRANSIENT, Outcome.UNKNOWN})
"""The failures that another attempt may mend, for example those of an agent that is killed."""

RETRY_AFTER_S = 1.0
"""How long an agent that failed for the moment is left alone before it is asked once more."""


async def drive(live: LiveTurn) -> TurnResult:
    """Drive a turn that is begun until it is over, and return what became of it."""
    try:
        await _drive_agents(live)
    except UpstreamError as error:
        await _fail(live, error)
    except ConfigError as error:  # the agent could not be started at all
        error.message = _with_session(live, error.message)
        words = str(error) if says_not_started(str(error)) else f"{NOT_STARTED}: {error}"
        await _fail(live, UpstreamError(words, outcome=Outcome.UNKNOWN))
        raise
    except anyio.get_cancelled_exc_class():
        await cancel(live)
        raise
    return result_of(live)


async def cancel(live: LiveTurn) -> None:
    """End a turn whose caller gave it up, and tell the caller's listener what became of it."""
    # Left open, as a crash would leave it: there is one way of taking a turn over (ADR 36).
    if live.request.is_handed_back and not live.answer:
        return
    await _end_cancelled(live)
    result = result_of(live)
    # It may have been taken over, or its prompt be uncertain; for its caller it is cancelled.
    if not live.view.ended and not live.view.parked:
        result = replace(result, outcome=Outcome.CANCELLED, detail=CANCELLED)
    live.request.listener.cancelled(result)


async def _drive_agents(live: LiveTurn) -> None:
    """Drive an agent; one that is killed before it was sent anything is started once more.

    What happens to one that has its prompt is no error but the prompt's outcome.
    """
    was_killed = False
    while not live.is_over:
        try:
            await _drive_agent(live)
        except UpstreamError as error:
            # Only where somebody else's signal ended it:
            # what exits by itself would do so again.
            if not error.was_killed:
                raise
            if was_killed:
                error.message += STARTED_TWICE
                raise
            was_killed = True
            text = f"{error.message}; it is started once more"
            live.notice("started_again", text, agent=live.agent)
        # A new session is asked of another process, and not of a moment later.
        if (was_killed or not live.is_given_up) and not live.is_over:
            await anyio.sleep(RETRY_AFTER_S)


async def _drive_agent(live: LiveTurn) -> None:
    """Carry out commands on one process of the agent, until another one is needed."""
    needs_another = False
    assert live.request.adapter, "a turn that upthread drives has an adapter"
    async with (
        telling_of_wait(live, "start") as has_started,
        live.request.adapter.open(live.open_request()) as connection,
    ):
        has_started()
        live.environment = connection.environment
        while not (live.is_over or needs_another):
            needs_another = await _STEPS[live.view.command](live, connection)


async def _fail(live: LiveTurn, error: UpstreamError) -> None:
    """End the turn with the agent's failure; what may have been sent is parked.

    So is a turn whose session was gone or refused, as well as a new one: the old one stays.
    """
    view, outcome = live.view, Outcome(error.outcome)
    detail = _with_session(live, str(error))
    if view.is_over:
        return
    if closed := await live.in_thread(closed_in_words):
        outcome, detail = Outcome.UNKNOWN, f"{closed}; {detail}"
    is_kept = live.is_given_up and live.link is not None
    if live.is_given_up:
        detail = _both_refused(live, detail)
    if is_kept:
        live.learn(session_lost=None, is_refused=False)
        await live.commit(live.decided_again())
        tell_kept(live)
    # Ended here, the next prompt would be sent beside one that may have arrived.
    command = view.command
    is_in_doubt = command is TurnCommand.RECOGNISE and not live.is_given_up and not closed
    if is_in_doubt and outcome in PASSING and live.may_be_left_open:
        # So that refusals in a row are counted over the attempts of a step.
        await live.commit(live.taken_up(refused_as=outcome, detail=error.message))
        live.interrupted_by = outcome, detail
        return
    is_asked = view.is_person_asked and command is TurnCommand.ATTACH
    if command is TurnCommand.RECOGNISE or is_asked or is_kept:
        parked = TurnParked(reason=outcome, detail=detail, reset_at_ms=error.reset_at_ms)
        await live.commit(parked)
        return
    await live.in_thread(end_here, TurnEnded(outcome=outcome, detail=detail))


async def _end_cancelled(live: LiveTurn) -> None:
    """Commit the end of a turn that a person interrupted, unless it was taken over."""
    with anyio.move_on_after(CLEAN_UP_S, shield=True):
        if (
            live.view.is_over
            # Nobody has asked the history yet: whoever goes on does, and sends nothing twice.
            or live.view.command is TurnCommand.RECOGNISE
        ):
            return
        try:
            if live.answer:
                await _conclude(live, live.answer)
            else:
                await live.in_thread(_end_given_up)
        except FencedError:
            return  # the holder that took over goes on with the turn; this is why we are here


def _end_given_up(live: LiveTurn) -> None:
    """Commit the end of a turn that has none of its own, with all that its agent did. Blocking.

    The agent has ended by now, and its own store has the rest.
    """
    live.close_recording(is_whole=False)
    live.commit_here()
    # What it took was spent, though no agent tells a sum for a prompt it did not end.
    live.account.note_cut_off()
    ended = TurnEnded(outcome=Outcome.CANCELLED, detail=CANCELLED)
    end_here(live, rest_of(live, live.account.told_in(ended)))


# --- attaching -----------------------------------------------------------------------------


async def _attach(live: LiveTurn, connection: AgentConnection) -> bool:
    if live.is_elsewhere and live.intended.decision not in NEW_SESSION_DECISIONS:
        await _move(live)
        return False
    is_sent = live.view.sends and not connection.capabilities.can_hold
    if is_sent and live.intended.decision in NEW_SESSION_DECISIONS:
        # A new session would be sent what the old one may have acted on.
        parked = await live.in_thread(parked_unheld)
        if parked:
            await live.commit(parked)
            return False
    compared = live.inputs.not_compared
    try:
        await attach_as_decided(live, connection)
    except UpstreamError as error:
        # Loaded to be compared alone: the next process resumes it, and may well.
        if live.inputs.not_compared != compared:
            raise
        return await _decide_again(live, error)
    return False


async def _decide_again(live: LiveTurn, error: UpstreamError) -> bool:
    """A session that is gone for certain is given up with its cause; all else is raised.

    Returns that another process is needed: the agent may still be opening the old session, or
    serve one session in each process.
    """
    outcome = Outcome(error.outcome)
    # A quota is ours, so that its word "limit" means none that passes.
    has_ended = outcome is Outcome.PROCESS_DIED or isinstance(error, QuotaExceededError)
    stderr = error.hint if has_ended else ""
    if await live.is_refused_again(outcome, error.message, stderr=stderr, sends=0):
        await _replace_refused(live, str(error))
        return True
    # Anything but a positive word that it is gone leaves the session as it is (ADR 67). Agents
    # also say of what they may not read that it is gone, or damaged.
    is_lost = outcome in LOST and live.link is not None and live.view.may_send
    # Said of a new session, it is that one's failure.
    if not is_lost or live.is_given_up:
        raise error
    if await live.in_thread(closed_in_words):
        raise error
    # Agents find a session in the directory that it was opened in (OpenCode over ACP, 1.18.33).
    is_moved = live.require_link().working_directory != live.working_directory
    if outcome is Outcome.MISSING and is_moved:
        outcome = Outcome.WORKSPACE_CHANGED
    await _roll_over(live, outcome, str(error))
    return True


async def _replace_refused(live: LiveTurn, words: str) -> None:
    """Decide for a new session, although the refused one may still be there."""
    await _roll_over(live, Outcome.CORRUPTED, words, is_refused=True)
    if live.is_over:
        return
    # Ours first: a line is cut where the agent said much.
    text = f"refused again, so the agent is asked for a new session: {words}"
    live.notice("refused_again", text, agent=live.agent, detail=words)


async def _roll_over(
    live: LiveTurn, outcome: Outcome, detail: str, *, is_refused: bool = False
) -> None:
    """Decide again, knowing that the session is gone, unless another profile has it.

    Its link ends when the agent has made another session: a store that is not there may come
    back. Only what is spoilt ends at once.
    """
    if elsewhere := await live.in_thread(elsewhere_in_words):
        parked = parked_event(live, TurnParked(reason=OTHER_PROFILE, detail=elsewhere))
        await live.commit(parked)
        return
    link = live.require_link()
    lost = None if is_refused else outcome
    live.learn(session_lost=lost, is_refused=is_refused)
    if is_refused:
        live.refused_link = link
    if outcome in SPOILT:
        live.link = None
        live.learn(current_agent=None)
        live.add(link_end(link, outcome, live.now_ms()))
    failed = AttachFailed(
        upstream_session_id=link.upstream_session_id, outcome=outcome, detail=detail
    )
    # One commit: between two, a crash would leave a turn that resumes a session that is closed.
    await live.commit(failed, live.decided_again())
    if outcome is Outcome.CORRUPTED and detail and not is_refused:
        session = link.upstream_session_id
        text = f"{link.agent} cannot read session {session}: {detail}"
        live.notice("session_unreadable", text, session=session, detail=detail)


async def _move(live: LiveTurn) -> None:
    """Decide again for the agent that a person named; the old link ends when a new one opens.

    A prompt that left SENDS_MAX times is not sent again anywhere.
    """
    if live.view.may_send:
        await live.commit(live.decided_again())
    else:
        detail = f"{live.view.sends} sends before another agent was named"
        await live.commit(TurnParked(reason=UNDECIDABLE, detail=detail))


# --- concluding ----------------------------------------------------------------------------


async def _send(live: LiveTurn, connection: AgentConnection) -> bool:
    answer = await send(live, connection)
    if answer:
        return await _conclude(live, answer)
    await live.in_thread(end_here, TurnEnded(outcome=Outcome.UNKNOWN, detail=NOT_KEPT))
    return False


async def _conclude(live: LiveTurn, answer: Answer) -> bool:
    """Do what the table says about the way the prompt ended; returns as the steps do."""
    result = judged(live, answer)
    live.reset_at_ms = result.reset_at_ms
    live.account.note(
        result, prompt_characters=answer.prompt_characters, reply_characters=len(live.reply)
    )
    # A prompt that came to its end before the cancel reached it has the end that it had.
    stopped = live.account.stopped if result.outcome is Outcome.CANCELLED else None
    # Before the table: we cancelled it, so what the agent calls its end says nothing.
    if because := live.gate.parked or stopped:
        await live.commit(parked_event(live, because))
        return False
    recovery = recovery_of(result.outcome, may_send=not live.view.was_sent_again)
    # A prompt that ends its agent, or is not answered in time, may have been carried out.
    is_refused = result.outcome is Outcome.UNKNOWN
    if is_refused and await live.is_refused_again(result.outcome, result.detail, sends=1):
        recovery = Recovery.ROLL_OVER
    if recovery in SENDS_AGAIN and await live.in_thread(_parks_in_doubt, result):
        return False
    # After the retry within this attempt, which needs no engine.
    if recovery not in SENDS_AGAIN and _is_interruption(live, result):
        await _interrupt(live, result)
        return False
    match recovery:
        case Recovery.NONE:
            # A caller that is cancelled before the commit begins has its answer all the same.
            live.answer = answer if result.outcome is Outcome.OK else None
            await live.in_thread(end_with, result, answer.late_events)
        case Recovery.ROLL_OVER if result.outcome is Outcome.UNKNOWN:
            await _replace_refused(live, result.detail)
        case Recovery.ROLL_OVER | Recovery.RELAY:
            await _roll_over(live, result.outcome, result.detail)
        case Recovery.RETRY_ONCE:
            await _retry(live, answer)
        case Recovery.WAIT | Recovery.PARK:
            again = restore_refused(live, result.outcome, result.detail)
            detail = _both_refused(live, result.detail) if again else result.detail
            because = TurnParked(
                reason=result.outcome, detail=detail, reset_at_ms=result.reset_at_ms
            )
            parked = parked_event(live, because)
            await live.commit(*again, parked)
        case _:
            assert_never(recovery)
    return recovery in SENDS_AGAIN


async def _interrupt(live: LiveTurn, result: PromptResult) -> None:
    """Leave the turn to the next attempt of its step; one that was only refused ends.

    Left open, it would not keep the words, and a session could refuse every attempt alike.
    """
    await live.commit()
    is_failed = result.outcome is Outcome.UNKNOWN and not is_stopping(result.detail)
    if is_failed and not live.has_output(result.detail):
        await live.in_thread(end_here, TurnEnded(outcome=result.outcome, detail=result.detail))
    else:
        live.interrupted_by = result.outcome, result.detail


def _parks_in_doubt(live: LiveTurn, result: PromptResult) -> bool:
    """Park a turn that would be sent again, and may do an action twice by that. Blocking."""
    live.commit_here()
    effect = next(iter(held(effects_of_turn(live))), None)
    if not effect:
        return False
    # The next attempt holds the calls that may repeat the action, as after a kill.
    if _is_interruption(live, result):
        live.interrupted_by = result.outcome, result.detail
        return True
    why = ROLLOVER[result.outcome].says
    detail = f"{why}, and sending again may repeat `{effect.title_in_words}`"
    because = TurnParked(reason=HELD_BACK, detail=f"{detail} ({effect.outcome_in_words})")
    live.commit_here(parked_event(live, because))
    return True


async def _retry(live: LiveTurn, answer: Answer) -> None:
    """Take the turn up again with a new process of the agent, by what its history says."""
    await live.commit(live.taken_up())
    outcome, detail = answer.result.outcome, answer.result.detail
    why = ": ".join(filter(None, (ROLLOVER[outcome].says, detail)))
    text = f"{why}; the turn is taken up again, once"
    live.notice("taken_up_again", text, outcome=outcome.value, detail=detail)


# --- recovering ----------------------------------------------------------------------------


async def _recover(live: LiveTurn, connection: AgentConnection) -> bool:
    if live.is_elsewhere:
        await _move(live)
        return False
    try:
        answer = await _continue_by_history(live, connection)
    except UpstreamError as error:
        return await _decide_again(live, error)
    return answer is not None and await _conclude(live, answer)


async def _continue_by_history(live: LiveTurn, connection: AgentConnection) -> Answer | None:
    """Adopt, continue, send again or park; None when nothing was sent.

    Raises UpstreamError for a session that cannot be attached.
    """
    # Of an agent that only resumes nobody can tell whether it got its prompt: the turn parks until
    # a person says to go on.
    event, history = await attach(live, connection, wants_history=True)
    message, found = await live.in_thread(recognised_replay, history)
    known = PromptRecognised(recognition=found.recognition)
    # Before anything leaves: whoever takes over from here ends this process first, by its pid.
    await live.commit(event)
    notify_started(live, recognition=found.recognition)
    if found.recognition is Recognition.COMPLETE:
        await live.in_thread(adopt, found)
        return None
    # Never guessed: sent once more, a prompt that had arrived would be carried out twice.
    if found.recognition is Recognition.UNDECIDABLE or not live.view.may_send:
        detail = f"{found.recognition} after {live.view.sends} sends"
        await live.commit(known, TurnParked(reason=UNDECIDABLE, detail=detail))
        return None
    # Where each call is asked about first, what is in doubt is held back at that call instead.
    if not connection.capabilities.can_hold and await live.in_thread(holds_back, found):
        return None
    text = await live.in_thread(_continued, message, found)
    return await stream(live, connection, text)


def _changed_since(live: LiveTurn) -> str:
    """Return the block that lists what has changed around an interrupted turn. Blocking."""
    found = beginning.gathered(live.store, live.inputs, beginning.subject_of(live)).freshness
    if live.intended.decision in NEW_SESSION_DECISIONS:
        # No turn has ended in this session: what it was told to be stands in the prompt.
        sent, role = live.message(live.intended.prompt_seq).sent_text, role_block(live.role_told)
        is_changed = bool(sent) and without_mentions(role) not in sent
        found = replace(found, is_configuration_changed=is_changed)
    return update_of(live, found)


def _continued(live: LiveTurn, message: Message, found: Recognised) -> str:
    text = continuation_of(live, message, found, _changed_since(live))
    prepare(live)
    return text


_STEPS: Mapping[TurnCommand, Callable[[LiveTurn, AgentConnection], Awaitable[bool]]] = {
    TurnCommand.ATTACH: _attach,
    TurnCommand.SEND: _send,
    TurnCommand.RECOGNISE: _recover,
}
"""What carries out a command; each returns whether another process must go on."""


def _is_interruption(live: LiveTurn, result: PromptResult) -> bool:
    """Return whether the next attempt of a durable step continues a prompt that ended like this.

    A deploy signals the agent too. The agent dies then, or fails, or answers that it was cancelled,
    also before this process knows of the deploy. A person's cancel stays an end.
    """
    is_cancelled = result.outcome is Outcome.CANCELLED and not live.gate.was_dismissed
    # What a new session refuses as the old one did is for a person.
    is_refused = result.outcome is Outcome.UNKNOWN and not live.refused_link
    has_failed = is_refused or result.outcome is Outcome.PROCESS_DIED
    return (is_cancelled or has_failed) and live.may_be_left_open


def _with_session(live: LiveTurn, words: str) -> str:
    """Return an error's words with the session, which an agent that dies does not name."""
    session = live.current_session
    return words if session is None or session in words else f"{words}; its session is {session}"


def _both_refused(live: LiveTurn, words: str) -> str:
    failed = live.view.attach_failed
    assert failed
    first = failed.detail or ROLLOVER[Outcome(failed.outcome)].says
    # Without the end of its stderr: the line is cut, and the second refusal is to be seen.
    return f"{first.partition(f' ({STDERR_END}')[0]}{NEW_REFUSED}{words}"


Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class Turns(Struct, frozen=True):
    """Runs turns on a store and an agent."""

    store: Store
    system: System
    conversations: Conversations

    async def tell(self, request: TellRequest) -> TurnResult:
        """Send one prompt to one conversation and return its reply, whatever became of it.

        Raises RefusedError, LeaseHeldError and FencedError; an agent's failure is an outcome.
        """
        async with self.conversations.claimed(request) as claim:
            live = LiveTurn(request=request, claim=claim, store=self.store, system=self.system)
            # In this order: what only the session has belongs after the turn
            # that was cut off, and before the prompt that is numbered next.
            live = await self._end_interrupted(live)
            return await drive(await self._begun(live))

    async def go_on(self, request: TellRequest, turn_id: TurnId | None = None) -> TurnResult:
        """Go on with the conversation's newest turn after a crash, or with a parked one.

        Raises UsageError when there is nothing to go on with, or when the newest turn is not
        `turn_id`, or is another step's.
        """
        async with self.conversations.claimed(request) as claim:
            live = LiveTurn(request=request, claim=claim, store=self.store, system=self.system)
            self._take_over(live, turn_id)
            view = live.view
            is_spent = not view.parked and view.may_send and not view.may_be_continued
            # Else a step whose attempts are shorter than its agent takes to start never ends.
            if request.options.key and is_spent:
                await live.commit(TurnParked(reason=Outcome.TIMED_OUT, detail=CUT_OFF))
                return result_of(live)
            # Before it is taken up: what is refused stays parked as it was.
            decision = await live.in_thread(beginning.continued)
            await self._require_allowed(live, decision)
            # Before its history is read: an agent that outlived its upthread may still write to it.
            await self._end_leftover_agent(live.view)
            await live.commit(live.taken_up())
            return await drive(live)

    # --- before --------------------------------------------------------------------------------

    def _take_over(self, live: LiveTurn, turn_id: TurnId | None) -> None:
        last_id, last = live.claim.last_id, live.claim.last
        address = live.claim.conversation.key.address
        key = live.request.options.key
        intended = last.intended if last else None
        is_other = turn_id not in {None, last_id} or (key and intended and intended.key != key)
        if not last or last_id is None or last.ended or is_other:
            why = "its last turn has ended"
            if is_other:
                why = "a later prompt came first, and its session was told of this one"
            raise NoOpenTurnError(
                f"{address} has no turn to go on with: {why}",
                hint=f"look at its reply: {command('upthread', 'show', address, '--reply')}",
                address=address,
            )
        live.take_up(last_id, last)

    async def _end_interrupted(self, live: LiveTurn) -> LiveTurn:
        """End a turn that a crash or a park left open: the new prompt takes its place.

        Returns the turn that is to begin: one whose last turn has ended well, where it had.
        """
        turn_id, view = live.claim.last_id, live.claim.last
        if turn_id is None or not view:
            return live
        if view.ended:
            if view.was_left_open and view.sent:
                live.take_up(turn_id, view)
                await live.in_thread(beginning.catch_up)
            return live
        decision = await live.in_thread(beginning.decided_on_open)
        # A prompt that is refused leaves the turn open.
        await self._require_allowed(live, decision)
        await self._end_leftover_agent(view)
        live.take_up(turn_id, view)
        if not await live.in_thread(beginning.end_open_turn):
            return live
        live.notice("reply_taken_over", RECOGNISED[Recognition.COMPLETE])
        claim = await self.conversations.looked_at_again(live.request, live.claim)
        return live.afresh(claim)

    async def _end_leftover_agent(self, view: TurnView) -> None:
        attached = view.attached
        # The same number is another process on another host.
        if not attached or attached.agent_host != self.system.this_process("").host:
            return
        pid, ticks = attached.agent_pid, attached.agent_started_at_ticks
        if pid is not None and ticks is not None:
            await self.system.end_process_group(pid, ticks)

    # --- the beginning -------------------------------------------------------------------------

    async def _begun(self, live: LiveTurn) -> LiveTurn:
        """Decide how the prompt is to be sent, and commit that it is meant to be.

        In one hop; where the agent's session has what the record lacks, that is read back first.
        Raises RefusedError.
        """
        found, decision = await self._meant(live, beginning.looked_at)
        tell_of_lacking(live, found)
        if not decision:
            live = await self._caught_up(live, found)
            decision = await self._meant(live, beginning.decided_and_meant, found)
        await self._require_allowed(live, decision)
        return live

    async def _meant(
        self, live: LiveTurn, step: Callable[[LiveTurn, *Given], Result], *given: *Given
    ) -> Result:
        """Return what a call returns that may commit the intent, and end a turn so given up."""
        try:
            return await live.in_thread(step, *given)
        except anyio.get_cancelled_exc_class():
            # Committed all the same, unless this is the turn before, which has ended.
            if live.view.intended and not live.view.is_over:
                await cancel(live)
            raise

    async def _caught_up(self, live: LiveTurn, found: Lacked) -> LiveTurn:
        """Read back what only the agent's session has of the conversation."""
        request = live.request
        # Before, since ending the last turn has moved the numbers; after, since reading back has.
        claim = await self.conversations.looked_at_again(request, live.claim)
        await live.afresh(claim).in_thread(beginning.record_read_back, found)
        claim = await self.conversations.looked_at_again(request, claim)
        caught_up = live.afresh(claim)
        caught_up.has_unheard = not live.has_last_turn_ended
        return caught_up

    async def _require_allowed(self, live: LiveTurn, decision: Decision) -> None:
        """Raise RefusedError for a decision to refuse, and keep it."""
        if decision.decision != REFUSE:
            return
        await self.conversations.keep_refusal(live.conversation_id, decision)
        spending = live.account.allowed
        tokens = spending_in_words(spending) if spending and spending.is_over else ""
        raise refused(live.conversation.key.address, decision, tokens=tokens)
