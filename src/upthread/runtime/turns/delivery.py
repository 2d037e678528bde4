"""Attaching a session, and sending a prompt to it.

A decision is carried out on a running agent, exactly as decided. A session that was to be resumed
is resumed or loaded; a new one is only ever made when a new one was decided, and its id is banked
before it is prompted. What fails is raised, and the turn decides again with what is then known.
Once a session is attached, the turn's listener is told.

The prior context of every send is computed and kept; the core says whether the prompt tells it.
What is sent is committed before it leaves, and recorded while its reply comes. How the turn then
ends is the driver's to say.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from upthread.agents.base import AgentConnection, Capabilities, PromptResult
from upthread.core.commands import OpenLink
from upthread.core.decision.freshness import Shift
from upthread.core.decision.handshake import decide
from upthread.core.decision.rollover import LOST, PoisonSigns, detectors_with, poison
from upthread.core.decision.rules import NOT_COMPARED, OLDER_RECORD, OLDER_SESSION, SESSION_EMPTY
from upthread.core.decision.words import RESUME, RESUME_WITH_REPLAY, lacking_in_words
from upthread.core.events import (
    AgentEvent,
    ReasoningReceived,
    SessionAttached,
    TextReceived,
    ToolCallAnnounced,
    UnknownReceived,
    UsageReported,
)
from upthread.core.quotas import RESET_S_MAX, require_session, require_tokens
from upthread.core.roles.limits import unheld_in_words
from upthread.core.turns.agent_history import NOTHING_LACKED, Lacked
from upthread.core.turns.turn import NEW_SESSION_DECISIONS, RESTORED, STARTS
from upthread.core.types import ContextPart, Message, Outcome, UpstreamSessionId
from upthread.errors import StoreError, UpstreamError
from upthread.runtime.record.turn_views import last_attached
from upthread.runtime.turns.live_turn import LiveTurn, link_end
from upthread.runtime.turns.recording import Answer, Recording, held_elsewhere
from upthread.runtime.turns.recovery import (
    context_of,
    effects_before,
    effects_of_turn,
    examiner_of,
    look_at_replay,
    past_of,
    prior_of,
    recorder_of,
    sent_event,
)
from upthread.tasks import task_group

WAIT_TOLD_AT_S = (5.0, 30.0, 60.0)
"""When a person is told that an agent has not opened yet, or not its session."""

SILENCE_TOLD_AT_S = (60.0, 300.0, 900.0)
"""When a person is told that an agent has its prompt and has not said a word."""


NOTHING_TO_REPLAY = "nothing_to_replay"

DRAIN_S = 5.0
"""How long the agent of a cancelled turn may take to end its turn, while that is recorded."""

GRACE_S = 2.0
"""How long a turn that another process will continue may take to come to its own end first.

A process that was suspended is cancelled when it wakes, and finds its agent's reply waiting.
"""


History: TypeAlias = "tuple[AgentEvent, ...] | None"
"""What `load` replayed, None after new or resume."""


async def attach(
    live: LiveTurn,
    connection: AgentConnection,
    *,
    decision: str = RESUME,
    wants_history: bool = False,
) -> tuple[SessionAttached, History]:
    """Attach as decided; see `open_session`. Returns the session and the process that serves it."""
    current = live.current_session
    is_new = decision in NEW_SESSION_DECISIONS
    history: History = None
    async with telling_of_wait(live, "make a session" if is_new else f"open session {current}"):
        if is_new:
            # Refused where it enters, before it is stored, shown and handed back (ADR 63).
            session, how = require_session(await connection.new_session()), "new"
        else:
            # Without an open link the rules decide for a new session: `none_yet` or `no_session`.
            assert current is not None
            history = await open_session(connection, current, wants_history=wants_history)
            session, how = current, "resumed" if history is None else "loaded"
    live.agent_version, live.is_start_due = connection.capabilities.version, True
    # Only now: Claude Code has a process for each session.
    process = connection.process
    profile, chose_profile = live.own_sessions.profile_in(live.agent, connection)
    event = SessionAttached(
        upstream_session_id=session,
        how=how,
        agent=live.agent,
        agent_pid=process.pid if process else None,
        agent_started_at_ticks=process.started_at_ticks if process else None,
        # A pid is one only beside its host: whoever takes over ends this agent there alone.
        agent_host=live.host,
        agent_profile=profile,
        chose_profile=chose_profile,
    )
    return event, history


async def open_session(
    connection: AgentConnection, session: UpstreamSessionId, *, wants_history: bool = False
) -> History:
    """Resume a session, or load it: then return what the agent replays.

    Without `wants_history` `resume` is preferred, because `load` replays all. An agent that only
    resumes tells no history.
    """
    able = connection.capabilities
    if able.can_resume and not (wants_history and able.can_load):
        await connection.resume_session(session)
        return None
    if not able.can_load:
        # Never a new session in its place: the agent would have forgotten all, and nobody be told.
        raise UpstreamError(
            f"{able.agent} can neither resume nor load the session {session}",
            outcome=Outcome.UNKNOWN,
            hint="send the next prompt: it goes on in a new session, which is told what was said",
            upstream_session_id=session,
        )
    return await connection.load_session(session)


# --- as decided --------------------------------------------------------------------------------


async def attach_as_decided(live: LiveTurn, connection: AgentConnection) -> None:
    """Attach the session of a turn and put it on record. Raises UpstreamError where it cannot be.

    FencedError for a turn that was taken over.
    """
    # A second new session would leave the one that a crash left banked behind, unprompted.
    decision = RESUME if _is_banked(live) else live.intended.decision
    event: SessionAttached | None = None
    if decision not in NEW_SESSION_DECISIONS:
        await _note_version(live, connection)
        able = connection.capabilities
        if not (able.can_resume or able.can_load):
            live.learn(attaches_none=True)
            await live.commit(live.decided_again())
            decision = live.intended.decision
        elif able.can_load and _is_to_compare(live):
            event = await _load_and_compare(live, connection)
            decision = live.intended.decision
    if not event or decision in NEW_SESSION_DECISIONS:
        event, _ = await attach(live, connection, decision=decision)
    if live.lost_profile not in {"", event.agent_profile}:
        text = f"the session was in {live.lost_profile}, where it is no longer"
        live.notice("profile_lost", text, profile=live.lost_profile, now=event.agent_profile)
    if event.how == "new":
        # By itself, synced, and before anything is sent: an id that is lost is a lost session.
        able = connection.capabilities
        is_of_process = not (able.can_resume or able.can_load)
        await live.in_thread(_bank, event, is_of_process)
    else:  # its id is on record: a crash before the prompt is sent attaches it again
        live.hold(event)
    _notify_version(live, connection.capabilities)
    _notify_limits(live, connection.capabilities)
    # The session that takes the place of a refused one may refuse the prompt, too.
    if not live.refused_link:
        notify_started(live)


def elsewhere_in_words(live: LiveTurn) -> str:
    """Return that a lost session is in another profile than its agent ran in, else empty. Blocking.

    A wrapper may set the profile, or the command itself: before it runs, nobody knows it.
    """
    link = live.require_link()
    session, profile = link.upstream_session_id, last_attached(live.store, link).agent_profile
    without = live.own_sessions.profile_without
    own = without(link.agent, session, profile, live.environment())
    said = f"{link.agent} ran with {own} and has no session {session} there: {profile} has it"
    if own:
        return said
    live.lost_profile = profile
    return ""


def _is_to_compare(live: LiveTurn) -> bool:
    """Whether only the agent can tell what its session holds, and has not just failed to."""
    is_read = live.own_sessions.is_read(live.require_link().agent)
    return not (is_read or _is_banked(live) or live.inputs.not_compared)


async def _load_and_compare(live: LiveTurn, connection: AgentConnection) -> SessionAttached | None:
    """Report the turns that a session lost, as its agent replays it or as its file has it.

    Returns the session that was loaded for that, None where it is still to be resumed.
    """
    able, event = connection.capabilities, None
    history: History = await live.in_thread(_stored, able.store)
    try:
        if not history:
            event, history = await attach(live, connection, wants_history=True)
    except UpstreamError as error:
        if able.can_resume and error.outcome not in LOST:
            await _report_lacked(live, Lacked(fault=error.message))
            # So that the agent is started once more; then it resumes the session.
            error.was_killed = True
        raise
    await _report_lacked(live, await live.in_thread(look_at_replay, history or ()))
    return event


def _stored(live: LiveTurn, store: str) -> tuple[AgentEvent, ...]:
    """Return the session as a store has it, nothing where that cannot be read. Blocking."""
    link, found = live.require_link(), None
    with suppress(StoreError):
        found = live.own_sessions.read(link.agent, link.upstream_session_id, store)
    return found.events if found else ()


async def _report_lacked(live: LiveTurn, found: Lacked) -> None:
    if found != NOTHING_LACKED:
        tell_of_lacking(live, found)
        live.learn(**found.as_inputs)
        await live.commit(live.decided_again())


def _is_banked(live: LiveTurn) -> bool:
    """Whether this turn has made and banked its session already, and the crash came after that."""
    attached = live.view.attached
    if not attached or attached.how != "new" or live.is_elsewhere or live.is_given_up:
        return False
    return live.view.is_in(live.current_session)


async def _note_version(live: LiveTurn, connection: AgentConnection) -> None:
    """Keep that the agent is another version; it tells so only once it runs."""
    surroundings = live.inputs.surroundings
    was = surroundings.agent_version if surroundings else ""
    now = connection.capabilities.version
    if not was or was == now:
        return
    shift = Shift(was=was, now=now)
    live.learn(freshness=replace(live.inputs.freshness, agent_version=shift))
    if decide(live.inputs).reasons != live.intended.reasons:
        await live.commit(live.decided_again())


def _bank(live: LiveTurn, event: SessionAttached, is_of_process: bool) -> None:  # noqa: FBT001  # see in_thread
    """Close the old link and bank the new upstream id, in one commit. Blocking.

    `is_of_process` is whether the agent opens no session again: its ids may begin anew each time.
    """
    session = event.upstream_session_id
    # A session that was made now is nobody's; two conversations in one session would answer with
    # each other's words, and an agent that names another's lies (ADR 63).
    owner = live.store.owner(live.conversation.key.project_id, session)
    because = live.intended.reasons[0]
    was_empty = live.inputs.is_session_empty and because in (*LOST, SESSION_EMPTY)
    if was_empty and session == live.current_session:  # the agent gave its empty one once more
        live.commit_here(event)
        return
    is_refused = owner == live.conversation and live.is_given_up
    if owner and not is_of_process and not is_refused:
        raise held_elsewhere(session, "a new session", owner.key.address)
    # One that never got a prompt is replaced with what it was opened for: see `telling`. The old
    # link ends only now that there is another session to go on in.
    live.new_link(
        session,
        because=live.link.opened_because if was_empty and live.link else because,
        ended_because=SESSION_EMPTY if was_empty else because,
    )
    live.commit_here(event)


def restore_refused(live: LiveTurn, outcome: Outcome, words: str) -> tuple[SessionAttached, ...]:
    """Make a refused session current again when the new one is refused, too.

    Returns the event that says so. A person may mend what both are refused for, for example the
    name of a model.
    """
    link, refused, attached = live.link, live.refused_link, live.view.attached
    if not link or not refused or outcome is not Outcome.UNKNOWN or live.has_output(words):
        return ()
    assert attached, "a prompt was answered"
    live.link = replace(refused, seq=link.seq + 1, opened_at_ms=live.now_ms())
    session = refused.upstream_session_id
    again = replace(attached, upstream_session_id=session, how=RESTORED)
    tell_kept(live)
    live.add(link_end(link, outcome, live.now_ms()), OpenLink(link=live.link))
    return (again,)


def closed_in_words(live: LiveTurn) -> str:
    """Return why the session's file may not be read, with the cure; empty if it may. Blocking."""
    try:
        if link := live.link:
            live.own_sessions.read(link.agent, link.upstream_session_id, link.agent)
    except StoreError as error:
        is_closed = isinstance(error.__cause__, PermissionError)
        return f"{error.message} (change who may read it)" if is_closed else ""
    return ""


# --- what its listener is told -----------------------------------------------------------------


def notify_started(live: LiveTurn, *, recognition: str = "") -> None:
    """Tell what was decided, now that the agent works in the session, unless it was told."""
    if not live.is_start_due:
        return
    live.is_start_due = False
    session = live.require_link().upstream_session_id
    started = live.started(live.intended, session, recognition=recognition)
    live.request.listener.started(started)
    if live.request.options.briefing and live.telling not in STARTS:
        text = "this session continues: the briefing is kept for the next new session"
        live.notice("briefing_kept", text, session=str(session))


def tell_kept(live: LiveTurn) -> None:
    """Tell that the old session stays, since a new one was refused."""
    session = live.require_link().upstream_session_id
    text = f"no new session took the prompt: {session} stays the current session"
    live.notice("session_kept", text, session=session)


def tell_of_lacking(live: LiveTurn, found: Lacked) -> None:
    """Tell what the record and the agent's session lack of each other, where they do."""
    text = lacking_in_words(len(found.turns), found.fault, found.gone)
    if text:
        kind = OLDER_RECORD if found.turns else NOT_COMPARED if found.fault else OLDER_SESSION
        live.notice(kind, text, session=str(live.current_session), turns=str(len(found.turns)))


def _notify_version(live: LiveTurn, agent: Capabilities) -> None:
    """Tell of an agent in another version than was tested.

    Not again while the conversation goes on in the version that was told.
    """
    notice = live.request.version_notice(agent.calls_itself, agent.version)
    was = live.inputs.surroundings
    if notice and not (was and was.agent_version == agent.version):
        live.request.listener.notice(notice)


def _notify_limits(live: LiveTurn, agent: Capabilities) -> None:
    """Tell what of the role's limits the agent may pass by."""
    role, name = live.request.role, live.agent
    unheld = unheld_in_words(
        role.limits, agent=name, can_hold=agent.can_hold, is_sandboxed=agent.has_sandbox
    )
    if unheld:
        text = f"of the limits of {role.name} not all hold: {unheld}"
        live.notice("role_limits", text, agent=name, role=role.name)


@asynccontextmanager
async def telling_of_wait(
    live: LiveTurn, wanted: str, *, is_prompted: bool = False
) -> AsyncGenerator[Callable[[], None]]:
    """Tell the listener what is waited for, until the block or the given call ends it."""
    agent, options = live.agent, live.request.open
    most_s, setting, told_at_s = options.start_timeout_s, "start_timeout_s", WAIT_TOLD_AT_S
    if is_prompted:
        most_s, setting = options.prompt_timeout_s, "prompt_timeout_s"
        told_at_s = SILENCE_TOLD_AT_S
    is_over = anyio.Event()

    async def tell() -> None:
        before_s = 0.0
        for waited_s in told_at_s:
            with anyio.move_on_after(waited_s - before_s):
                await is_over.wait()
                return
            before_s = waited_s
            waited = f"{waited_s:g} s of at most {most_s:g} s"
            text = f"waiting for {agent} to {wanted}, for {waited}"
            live.notice("waiting_for_agent", text, agent=agent, setting=setting)

    async with task_group() as tasks:
        tasks.start_soon(tell)
        yield is_over.set
        is_over.set()


async def send(live: LiveTurn, connection: AgentConnection) -> Answer | None:
    """Send the turn's prompt to the session that is attached; None where it is not all kept."""
    begun = await live.in_thread(_begun)
    if begun is None:
        return None
    text, is_past_told = begun
    if live.telling == RESUME_WITH_REPLAY and not is_past_told:
        said = "nothing of what was said is left on record: the new session begins without it"
        live.notice(NOTHING_TO_REPLAY, said)
    return await stream(live, connection, text)


def _begun(live: LiveTurn) -> tuple[str, bool] | None:
    """Commit the prompt as it will leave, and prepare for its reply. Blocking.

    Returns its text, and whether the session is told anything of the past.
    """
    # Without what redaction took from it, it would be another prompt than the person's.
    if not live.has_whole_prompt():
        return None
    # Also where it is not told: what a session could have been told is on record (ADR 81).
    prior = prior_of(live)
    past = past_of(live, prior)
    message = _prompt_message(live, context_of(live, past))
    sent = sent_event(message.seq, prior, is_injected=live.must_inject)
    # Before it leaves: whoever finds the turn then asks the agent's history what
    # became of it, and never sends a prompt a second time that may have arrived.
    live.commit_here(sent)
    prepare(live)
    return message.sent_text, bool(past)


def prepare(live: LiveTurn) -> None:
    """Read, before a prompt leaves, all that is asked while its reply comes. Blocking."""
    # Sent for the first time, a turn has done nothing yet that it could do again.
    own = effects_of_turn(live) if live.view.was_sent_again else ()
    before, live.recorder = live.recorder, recorder_of(live)
    if before and before.own.upstream_session_id == live.recorder.own.upstream_session_id:
        # What the first attempt learned of the session holds for the second one.
        live.recorder.own.hold(before.own.tokens_used, window=before.own.tokens_window)
    live.account.begin(live.recorder)
    live.recording = Recording(
        store=live.store,
        system=live.system,
        recorder=live.recorder,
        examiner=examiner_of(live),
        fences=live.fences,
        is_own=partial(_is_own_child, live),
    )
    # What must not be done again.
    known = (*effects_before(live), *own)
    live.gate.expect(known=known, keep=live.recording.intend)


async def stream(live: LiveTurn, connection: AgentConnection, text: str) -> Answer:
    """Let a prompt leave that is prepared for, and record the reply while it comes."""
    recording, session = live.recording, live.require_link().upstream_session_id
    assert recording, "it was prepared for"
    results: list[PromptResult] = []
    began_s = anyio.current_time()

    async def ask() -> None:
        results.append(await _prompt(live, connection, text))

    def answer() -> Answer:
        live.close_recording()
        return Answer(
            result=results[0],
            prompt_characters=len(text),
            duration_s=anyio.current_time() - began_s,
            late_events=connection.late_events,
        )

    try:
        async with (
            telling_of_wait(live, "answer", is_prompted=True) as has_spoken,
            task_group() as tasks,
        ):
            recording.on_event = _hearing(live, has_spoken)
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
        notify_started(live)
    return answer()


def _hearing(live: LiveTurn, has_spoken: Callable[[], None]) -> Callable[[AgentEvent], None]:
    """Return what hands the events on, and tells once that the agent waits and tries again."""
    progress = ""

    def hear(event: AgentEvent) -> None:
        nonlocal progress
        # Steps and tokens are no words: an agent may ask its model again and again.
        if isinstance(event, TextReceived | ReasoningReceived | ToolCallAnnounced):
            has_spoken()
            notify_started(live)
        live.request.listener.event(event)
        if isinstance(event, UnknownReceived) and event.progress not in {"", progress}:
            progress, agent = event.progress, live.agent
            live.notice("agent_retries", f"{agent}: {progress}", agent=agent)

    return hear


def judged(live: LiveTurn, answer: Answer) -> PromptResult:
    """Return how the prompt ended; a reply that is an earlier turn's is poison, whatever it says.

    Only a session that was resumed can give one.
    """
    result, attached = answer.result, live.view.attached
    if result.outcome is not Outcome.OK or not attached or attached.how == "new":
        return result
    signs = PoisonSigns(
        # One that is taken on is no other turn before this one.
        was_interrupted=not live.has_last_turn_ended and live.claim.last_id != live.turn_id,
        prompt_characters=answer.prompt_characters,
        duration_s=answer.duration_s,
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        # Silence after a call is no sign: sent again, what the call did would be done twice.
        is_reply_empty=not live.reply.strip() and not live.has_worked,
    )
    is_on = live.request.settings.of_agent(live.agent).roll_over_when_empty
    detectors = detectors_with(empty_reply=is_on)
    detector = poison(signs, detectors=detectors)
    return replace(result, outcome=Outcome.POISONED, detail=detector) if detector else result


def _is_own_child(live: LiveTurn, session: UpstreamSessionId) -> bool:
    """Whether nobody holds a session, or a sub-agent of this very conversation. Blocking."""
    own = live.conversation
    owner = live.store.owner(own.key.project_id, session)
    # Upwards, since a sub-agent's own sub-agents are of this conversation as well.
    while owner and owner.parent_conversation_id is not None:
        if owner.parent_conversation_id == own.conversation_id:
            return True
        owner = live.store.conversation(owner.parent_conversation_id)
    return not owner or owner.conversation_id == own.conversation_id


def _prompt_message(live: LiveTurn, context: str) -> Message:
    """Return the message as it is sent; the next commit completes the record of it."""
    message = live.prompt()
    if live.view.sends:  # it went to a session that was given up: what is sent now is another one
        text = "\n\n".join(piece for piece in (context, message.text) if piece)
        again = live.next_prompt(ContextPart(text=text))
        live.add(live.recorded(again))
        return again
    return live.with_context(message, context)


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
    assert recording
    began_ms = live.now_ms()

    async def take(event: AgentEvent) -> None:
        # First, since the account counts what its recorder has heard.
        await recording.take(event)
        if isinstance(event, UsageReported) and live.account.is_passing():
            await connection.cancel(session)

    try:
        result = await connection.prompt(session, text, on_event=take)
        require_tokens(result.tokens_used, result.tokens_in, result.tokens_out)
        at_ms = result.reset_at_ms
        # A time that cannot be would have a run wait for years, or resume at once without end.
        is_time = at_ms is None or 0 <= at_ms - began_ms <= RESET_S_MAX * 1000
        return result if is_time else replace(result, reset_at_ms=None)
    # The prompt has left: from here on a failure of the agent's is its outcome, with what
    # is done about it in core/decision/rollover.py, and not an error that ends the turn.
    except UpstreamError as error:
        return PromptResult(
            outcome=Outcome(error.outcome), detail=str(error), reset_at_ms=error.reset_at_ms
        )
