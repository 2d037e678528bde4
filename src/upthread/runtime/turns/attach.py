"""Attaching: carries a decision out on a running agent, exactly as decided.

A session that was to be resumed is resumed or loaded; a new one is only ever made when a new one
was decided, and its id is banked before it is prompted. What fails is raised, and the turn decides
again with what is then known. Once a session is attached, the turn's listener is told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from msgspec import Struct, structs

from upthread.agents.base import AgentConnection, Capabilities
from upthread.core.commands import OpenLink, Write
from upthread.core.decision.freshness import Shift
from upthread.core.decision.handshake import RESUME, decide
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.decision.rollover import LOST
from upthread.core.decision.rules import NOT_COMPARED, OLDER_RECORD, OLDER_SESSION, SESSION_EMPTY
from upthread.core.decision.words import lacking_in_words
from upthread.core.events import AgentEvent, SessionAttached
from upthread.core.quotas import require_session
from upthread.core.roles.limits import unheld_in_words
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS
from upthread.core.turns.replayed_history import NOTHING_LACKED, Lacked
from upthread.core.turns.turn import RESTORED
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import StoreError, UpstreamError
from upthread.runtime.record.turn_views import last_attached
from upthread.runtime.turns.live_turn import LiveTurn, held_elsewhere, link_end
from upthread.runtime.turns.older_record import look_at_replay
from upthread.runtime.turns.progress import TurnStarted
from upthread.tasks import task_group

WAIT_TOLD_AT_S: Final = (5.0, 30.0, 60.0)
"""When a person is told that an agent has not opened yet, or not its session."""

SILENCE_TOLD_AT_S: Final = (60.0, 300.0, 900.0)
"""When a person is told that an agent has its prompt and has not said a word."""


class Attached(Struct, frozen=True, kw_only=True):
    """An attached session. `history` is what `load` replayed, None after new or resume."""

    upstream_session_id: UpstreamSessionId
    how: str
    history: tuple[AgentEvent, ...] | None = None


async def attach(
    connection: AgentConnection,
    *,
    decision: str,
    current: UpstreamSessionId | None,
    wants_history: bool = False,
) -> Attached:
    """Attach as decided; without `wants_history` `resume` is preferred, because `load` replays all.

    An agent that only resumes tells no history.
    """
    if decision in NEW_SESSION_DECISIONS:
        # Refused where it enters, before it is stored, shown and handed back to the agent (ADR 63).
        made = require_session(await connection.new_session())
        return Attached(upstream_session_id=made, how="new")
    # Without an open link the rules decide for a new session: `none_yet` or `no_session`.
    assert current is not None
    able = connection.capabilities
    if able.can_resume and not (wants_history and able.can_load):
        await connection.resume_session(current)
        return Attached(upstream_session_id=current, how="resumed")
    if not able.can_load:
        # Never a new session in its place: the agent would have forgotten all, and nobody be told.
        raise UpstreamError(
            f"{able.agent} can neither resume nor load the session {current}",
            outcome=Outcome.UNKNOWN,
            hint="send the next prompt: it goes on in a new session, which is told what was said",
            upstream_session_id=current,
        )
    history = await connection.load_session(current)
    return Attached(upstream_session_id=current, how="loaded", history=history)


# --- as decided --------------------------------------------------------------------------------


async def attach_as_decided(live: LiveTurn, connection: AgentConnection) -> None:
    """Attach the session of a turn and put it on record. Raises UpstreamError where it cannot be.

    FencedError for a turn that was taken over.
    """
    # A second new session would leave the one that a crash left banked behind, unprompted.
    decision = RESUME if _is_banked(live) else live.intended.decision
    attached: Attached | None = None
    if decision not in NEW_SESSION_DECISIONS:
        await _note_version(live, connection)
        able = connection.capabilities
        if not (able.can_resume or able.can_load):
            await _decide_again_with(live, attaches_none=True)
            decision = live.intended.decision
        elif able.can_load and _is_to_compare(live):
            attached = await _load_and_compare(live, connection)
            decision = live.intended.decision
    is_new = decision in NEW_SESSION_DECISIONS
    if attached is None or is_new:
        wanted = "make a session" if is_new else f"open session {live.current_session}"
        async with telling_of_wait(live, wanted):
            attached = await attach(connection, decision=decision, current=live.current_session)
    event = attached_event(live, connection, attached)
    if live.lost_profile not in {"", event.agent_profile}:
        text = f"the session was in {live.lost_profile}, where it is no longer"
        live.notice("profile_lost", text, profile=live.lost_profile, now=event.agent_profile)
    if attached.how == "new":
        # By itself, synced, and before anything is sent: an id that is lost is a lost session.
        able = connection.capabilities
        is_of_process = not (able.can_resume or able.can_load)
        await live.read(lambda: _bank(live, event, is_of_process=is_of_process))
    else:  # its id is on record: a crash before the prompt is sent attaches it again
        live.hold(event)
    _notify_version(live, connection.capabilities)
    _notify_limits(live, connection.capabilities)
    # The session that takes the place of a refused one may refuse the prompt, too.
    live.is_start_due = live.refused_link is not None
    if not live.is_start_due:
        notify_started(live)


def attached_event(
    live: LiveTurn, connection: AgentConnection, attached: Attached
) -> SessionAttached:
    """Return the event that names the session and the process that serves it."""
    process, agent = connection.process, live.request.claim.agent
    live.agent_version = connection.capabilities.version
    profile, chose_profile = live.request.own_sessions.profile_in(agent, connection)
    return SessionAttached(
        upstream_session_id=attached.upstream_session_id,
        how=attached.how,
        agent=agent,
        agent_pid=process.pid if process else None,
        agent_started_at_ticks=process.started_at_ticks if process else None,
        # A pid is one only beside its host: whoever takes over ends this agent there alone.
        agent_host=live.host,
        agent_profile=profile,
        chose_profile=chose_profile,
    )


def elsewhere_in_words(live: LiveTurn) -> str:
    """Return that a lost session is in another profile than its agent ran in, else empty. Blocking.

    A wrapper may set the profile, or the command itself: before it runs, nobody knows it.
    """
    link = live.require_link()
    session, profile = link.upstream_session_id, last_attached(live.store, link).agent_profile
    without = live.request.own_sessions.profile_without
    own = without(link.agent, session, profile, live.environment())
    said = f"{link.agent} ran with {own} and has no session {session} there: {profile} has it"
    if own:
        return said
    live.lost_profile = profile
    return ""


def _is_to_compare(live: LiveTurn) -> bool:
    """Whether only the agent can tell what its session holds, and has not just failed to."""
    assert live.inputs is not None
    is_read = live.request.own_sessions.is_read(live.require_link().agent)
    return not (is_read or _is_banked(live) or live.inputs.not_compared)


async def _decide_again_with(live: LiveTurn, **known: Any) -> None:
    assert live.inputs is not None
    live.inputs = structs.replace(live.inputs, **known)
    await live.commit(live.decided_again())


async def _load_and_compare(live: LiveTurn, connection: AgentConnection) -> Attached | None:
    """Report the turns that a session lost, as its agent replays it or as its file has it.

    Returns the session that was loaded for that, None where it is still to be resumed.
    """
    link, last, redactor = live.require_link(), live.claim.last, live.request.redactor
    session, able, attached = link.upstream_session_id, connection.capabilities, None
    history = await live.read(lambda: _stored(live, able.store))
    try:
        if not history:
            async with telling_of_wait(live, f"open session {session}"):
                attached = await attach(
                    connection, decision=RESUME, current=session, wants_history=True
                )
            history = attached.history or ()
    except UpstreamError as error:
        if able.can_resume and error.outcome not in LOST:
            await _report_lacked(live, Lacked(fault=error.message))
            # So that the agent is started once more; then it resumes the session.
            error.was_killed = True
        raise
    view = last[1] if last else None
    found = await live.read(lambda: look_at_replay(live.store, link, view, history, redactor))
    await _report_lacked(live, found)
    return attached


def _stored(live: LiveTurn, store: str) -> tuple[AgentEvent, ...]:
    """Return the session as a store has it, nothing where that cannot be read. Blocking."""
    link, found = live.require_link(), None
    with suppress(StoreError):
        found = live.request.own_sessions.read(link.agent, link.upstream_session_id, store)
    return found.events if found else ()


async def _report_lacked(live: LiveTurn, found: Lacked) -> None:
    if found != NOTHING_LACKED:
        tell_of_lacking(live, found)
        await _decide_again_with(live, **found.as_inputs)


def _is_banked(live: LiveTurn) -> bool:
    """Whether this turn has made and banked its session already, and the crash came after that."""
    attached = live.view.attached
    if attached is None or attached.how != "new" or live.is_elsewhere or live.is_given_up:
        return False
    return attached.upstream_session_id == live.current_session


async def _note_version(live: LiveTurn, connection: AgentConnection) -> None:
    """Keep that the agent is another version; it tells so only once it runs."""
    inputs = live.inputs
    was = inputs.surroundings.agent_version if inputs and inputs.surroundings else ""
    now = connection.capabilities.version
    if inputs is None or not was or was == now:
        return
    changed = structs.replace(inputs.freshness, agent_version=Shift(was=was, now=now))
    live.inputs = structs.replace(inputs, freshness=changed)
    if decide(live.inputs).reasons != live.intended.reasons:
        await live.commit(live.decided_again())


def _bank(live: LiveTurn, event: SessionAttached, *, is_of_process: bool) -> None:
    """Close the old link and bank the new upstream id, in one commit. Blocking.

    `is_of_process` is whether the agent opens no session again: its ids may begin anew each time.
    """
    session = event.upstream_session_id
    # A session that was made now is nobody's; two conversations in one session would answer with
    # each other's words, and an agent that names another's lies (ADR 63).
    owner = live.store.owner(live.conversation.key.project_id, session)
    because = live.intended.reasons[0]
    known = live.inputs
    was_empty = bool(known and known.is_session_empty and because in (*LOST, SESSION_EMPTY))
    if was_empty and session == live.current_session:  # the agent gave its empty one once more
        live.commit_here(event)
        return
    is_refused = owner == live.conversation and live.is_given_up
    if owner is not None and not is_of_process and not is_refused:
        raise held_elsewhere(session, "a new session", owner.key.address)
    # One that never got a prompt is replaced with what it was opened for: see `telling`. The old
    # link ends only now that there is another session to go on in.
    writes = live.new_link(
        session,
        because=live.link.opened_because if was_empty and live.link else because,
        ended_because=SESSION_EMPTY if was_empty else because,
    )
    live.commit_here(event, writes=writes)


def restore_refused(
    live: LiveTurn, outcome: Outcome, words: str
) -> tuple[tuple[SessionAttached, ...], tuple[Write, ...]]:
    """Make a refused session current again when the new one is refused, too.

    Returns the event and the writes. A person may mend what both are refused for, for example the
    name of a model.
    """
    link, refused, attached = live.link, live.refused_link, live.view.attached
    if link is None or refused is None or outcome is not Outcome.UNKNOWN or live.has_output(words):
        return (), ()
    assert attached is not None, "a prompt was answered"
    live.link = structs.replace(refused, seq=link.seq + 1, opened_at_ms=live.now_ms())
    session = refused.upstream_session_id
    again = structs.replace(attached, upstream_session_id=session, how=RESTORED)
    tell_kept(live)
    return (again,), (link_end(link, outcome, live.now_ms()), OpenLink(link=live.link))


def closed_in_words(live: LiveTurn) -> str:
    """Return why the session's file may not be read, with the cure; empty if it may. Blocking."""
    try:
        if link := live.link:
            live.request.own_sessions.read(link.agent, link.upstream_session_id, link.agent)
    except StoreError as error:
        is_closed = isinstance(error.__cause__, PermissionError)
        return f"{error.message} (change who may read it)" if is_closed else ""
    return ""


# --- what its listener is told -----------------------------------------------------------------


def notify_if_due(live: LiveTurn) -> None:
    """Tell what was decided, now that the agent works in the session, unless it was told."""
    if live.is_start_due:
        notify_started(live)


def notify_started(live: LiveTurn, *, recognition: str = "") -> None:
    """Tell what was decided, now that the session is known."""
    live.is_start_due = False
    intended = live.intended
    live.request.listener.started(
        TurnStarted(
            conversation=live.conversation,
            turn_id=live.turn_id,
            decision=intended.decision,
            reasons=intended.reasons,
            agent=live.request.claim.agent,
            upstream_session_id=live.require_link().upstream_session_id,
            turn_number=live.turn_number,
            recognition=recognition,
            price=price_in(intended.inputs),
            freshness=freshness_in(intended.inputs),
        )
    )


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
    was = live.inputs.surroundings if live.inputs else None
    if notice is not None and not (was and was.agent_version == agent.version):
        live.request.listener.notice(notice)


def _notify_limits(live: LiveTurn, agent: Capabilities) -> None:
    """Tell what of the role's limits the agent may pass by."""
    role, name = live.request.claim.role, live.request.claim.agent
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
    agent, options = live.request.claim.agent, live.request.open
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
