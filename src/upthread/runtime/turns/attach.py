"""Attaching: carries a decision out on a running agent, exactly as decided.

A session that was to be resumed is resumed or loaded; a new one is only ever made when a new one
was decided, and its id is banked before it is prompted. What fails is raised, and the turn decides
again with what is then known. Once a session is attached, the turn's listener is told.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct, structs

from upthread.agents.base import AgentConnection, Capabilities
from upthread.core.commands import EndLink, OpenLink, Write
from upthread.core.decision.freshness import Shift
from upthread.core.decision.handshake import RESUME, decide
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.decision.rules import SESSION_EMPTY
from upthread.core.events import AgentEvent, SessionAttached, TurnIntended
from upthread.core.quotas import require_session
from upthread.core.roles.limits import unheld_in_words
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS
from upthread.core.turns.replayed_history import has_prompt
from upthread.core.turns.turn import RESTORED
from upthread.core.types import Link, Outcome, UpstreamSessionId
from upthread.errors import StoreError, UpstreamError
from upthread.runtime.system import System
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.older_record import has_answered
from upthread.runtime.turns.progress import Notice, TurnStarted
from upthread.runtime.turns.recorder import held_elsewhere
from upthread.store.base import Store


class Attached(Struct, frozen=True, kw_only=True):
    """An attached session. `history` is what `load` replayed, None after new or resume."""

    upstream_session_id: UpstreamSessionId
    how: str
    history: tuple[AgentEvent, ...] | None = None


async def attach(
    connection: AgentConnection, *, decision: str, current: UpstreamSessionId | None
) -> Attached:
    """Attach as decided; `resume` is preferred to `load`, which has to replay it all."""
    if decision in NEW_SESSION_DECISIONS:
        # Refused where it enters, before it is stored, shown and handed back to the agent (ADR 63).
        made = require_session(await connection.new_session())
        return Attached(upstream_session_id=made, how="new")
    # Without an open link the rules decide for a new session: `none_yet` or `no_session`.
    assert current is not None
    if connection.capabilities.can_resume:
        await connection.resume_session(current)
        return Attached(upstream_session_id=current, how="resumed")
    return await _load(connection, current=current)


async def attach_with_history(
    connection: AgentConnection, *, current: UpstreamSessionId
) -> Attached:
    """Attach and read the history back, as recovery needs it; None from an agent that cannot."""
    # An agent with neither is left to `_load`, which says so. Of one that only resumes
    # nobody can tell whether it got its prompt: the turn parks until a person says to go on.
    if connection.capabilities.can_load or not connection.capabilities.can_resume:
        return await _load(connection, current=current)
    await connection.resume_session(current)
    return Attached(upstream_session_id=current, how="resumed")


async def _load(connection: AgentConnection, *, current: UpstreamSessionId) -> Attached:
    if not connection.capabilities.can_load:
        agent = connection.capabilities.agent
        # Never a new session in its place: the agent would have forgotten all, and nobody be told.
        raise UpstreamError(
            f"{agent} can neither resume nor load the session {current}",
            outcome=Outcome.UNKNOWN,
            hint="send the next prompt: it goes on in a new session, which is told what was said",
            upstream_session_id=current,
        )
    history = await connection.load_session(current)
    return Attached(upstream_session_id=current, how="loaded", history=history)


# --- as decided --------------------------------------------------------------------------------


async def attach_as_decided(live: LiveTurn, connection: AgentConnection, system: System) -> None:
    """Attach the session of a turn and put it on record. Raises UpstreamError where it cannot be.

    FencedError for a turn that was taken over.
    """
    # A second new session would leave the one that a crash left banked behind, unprompted.
    decision = RESUME if _is_banked(live) else live.log.intended.decision
    if decision not in NEW_SESSION_DECISIONS:
        await _note_version(live, connection)
        able = connection.capabilities
        attaches_none = not (able.can_resume or able.can_load)
        is_empty = not attaches_none and await _is_empty(live, connection)
        if attaches_none or is_empty:
            assert live.inputs is not None
            live.inputs = structs.replace(
                live.inputs, attaches_none=attaches_none, is_session_empty=is_empty
            )
            await live.log.commit(decided_again(live))
            decision = live.log.intended.decision
    is_new = decision in NEW_SESSION_DECISIONS
    wanted = "make a session" if is_new else f"open session {live.current_session}"
    async with live.telling_of_wait(wanted):
        attached = await attach(connection, decision=decision, current=live.current_session)
    event = attached_event(live, connection, attached)
    if attached.how == "new":
        # By itself, synced, and before anything is sent: an id that is lost is a lost session.
        await live.read(lambda store: _bank(store, live, event, system.now_ms()))
    else:  # its id is on record: a crash before the prompt is sent attaches it again
        live.log.hold(event)
    _notify_version(live, connection.capabilities)
    _notify_limits(live, connection.capabilities)
    notify_started(live)


def attached_event(
    live: LiveTurn, connection: AgentConnection, attached: Attached
) -> SessionAttached:
    """Return the event that names the session and the process that serves it."""
    process = connection.process
    live.agent_version = connection.capabilities.version
    return SessionAttached(
        upstream_session_id=attached.upstream_session_id,
        how=attached.how,
        agent=live.request.claim.agent,
        agent_pid=process.pid if process else None,
        agent_started_at_ticks=process.started_at_ticks if process else None,
        # A pid is one only beside its host: whoever takes over ends this agent there alone.
        agent_host=live.host,
        agent_profile=live.request.own_sessions.profile(live.request.claim.agent),
    )


def decided_again(live: LiveTurn) -> TurnIntended:
    """Return the turn's intent as it is decided with what is known by now."""
    assert live.inputs is not None
    decision = decide(live.inputs)
    return structs.replace(
        live.log.intended,
        decision=decision.decision,
        reasons=decision.reasons,
        inputs=decision.inputs,
    )


async def _is_empty(live: LiveTurn, connection: AgentConnection) -> bool:
    """Whether the agent says that its session holds no prompt, where no store can be asked."""
    link, last, own = live.link, live.claim.last, live.request.own_sessions
    if link is None or own.is_read(link.agent) or _is_banked(live):
        return False
    if await live.read(lambda store: has_answered(store, link, last[1] if last else None)):
        return False
    # One that cannot load it may be able to resume it.
    with suppress(UpstreamError):
        if connection.capabilities.can_load:
            return not has_prompt(await connection.load_session(link.upstream_session_id))
    return False


def _is_banked(live: LiveTurn) -> bool:
    """Whether this turn has made and banked its session already, and the crash came after that."""
    attached = live.log.view.attached
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
    if decide(live.inputs).reasons != live.log.intended.reasons:
        await live.log.commit(decided_again(live))


def _bank(store: Store, live: LiveTurn, event: SessionAttached, now_ms: int) -> None:
    """Close the old link and bank the new upstream id, in one commit. Blocking."""
    conversation_id, session = live.conversation.conversation_id, event.upstream_session_id
    # A session that was made now is nobody's; two conversations in one session would answer with
    # each other's words, and an agent that names another's lies (ADR 63).
    owner = store.link_owner(live.conversation.key.project_id, session)
    because = live.log.intended.reasons[0]
    was_empty = because == SESSION_EMPTY
    if was_empty and session == live.current_session:  # the agent gave its empty one once more
        live.log.commit_here(event)
        return
    if owner is not None:
        raise held_elsewhere(session, "a new session", owner.key.address)
    link = Link(
        conversation_id=conversation_id,
        seq=len(store.links(conversation_id)) + 1,
        upstream_session_id=session,
        agent=event.agent,
        agent_version=live.agent_version,
        working_directory=live.request.open.working_directory,
        # One that never got a prompt is replaced with what it was opened for: see `telling`.
        opened_because=live.link.opened_because if was_empty and live.link else because,
        opened_at_ms=now_ms,
    )
    # The old link ends only now that there is another session to go on in.
    ends = () if live.link is None else (link_end(live.link, because, now_ms),)
    live.link = link
    live.log.commit_here(event, writes=(*ends, OpenLink(link=link)))


def restore_refused(
    live: LiveTurn, outcome: Outcome, now_ms: int
) -> tuple[tuple[SessionAttached, ...], tuple[Write, ...]]:
    """Make a refused session current again when the new one is refused, too.

    Returns the event and the writes. A person may mend what both are refused for, for example the
    name of a model.
    """
    link, refused, attached = live.link, live.refused_link, live.log.view.attached
    if link is None or refused is None or outcome is not Outcome.UNKNOWN or live.has_output:
        return (), ()
    assert attached is not None, "a prompt was answered"
    live.link = structs.replace(refused, seq=link.seq + 1, opened_at_ms=now_ms)
    session = refused.upstream_session_id
    again = structs.replace(attached, upstream_session_id=session, how=RESTORED)
    return (again,), (link_end(link, outcome, now_ms), OpenLink(link=live.link))


def closed_in_words(live: LiveTurn) -> str:
    """Return why the session's file may not be read, with the cure; empty if it may. Blocking."""
    try:
        if link := live.link:
            live.request.own_sessions.read(link.agent, link.upstream_session_id)
    except StoreError as error:
        is_closed = isinstance(error.__cause__, PermissionError)
        return f"{error.message} (change who may read it)" if is_closed else ""
    return ""


def link_end(link: Link, because: str, at_ms: int) -> EndLink:
    """Return the write that closes a link."""
    return EndLink(
        conversation_id=link.conversation_id,
        seq=link.seq,
        ended_because=because,
        ended_at_ms=at_ms,
    )


# --- what its listener is told -----------------------------------------------------------------


def notify_started(live: LiveTurn, *, recognition: str = "") -> None:
    """Tell what was decided, now that the session is known."""
    intended = live.log.intended
    live.request.listener.started(
        TurnStarted(
            conversation=live.conversation,
            turn_id=live.log.turn_id,
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


def _notify_version(live: LiveTurn, agent: Capabilities) -> None:
    """Tell of an agent in another version than was tested.

    Not again while the conversation goes on in the version that was told.
    """
    tested, version = live.request.tested(agent.calls_itself), agent.version
    text = tested.warning(version) if tested else ""
    was = live.inputs.surroundings if live.inputs else None
    if tested is None or not text or (was and was.agent_version == version):
        return
    about = {
        "agent": live.request.claim.agent,
        "version": version,
        "tested_with": tested.version,
    }
    live.request.listener.notice(Notice(kind="agent_version", text=text, about=about))


def _notify_limits(live: LiveTurn, agent: Capabilities) -> None:
    """Tell what of the role's limits the agent may pass by."""
    role, name = live.request.claim.role, live.request.claim.agent
    unheld = unheld_in_words(
        role.limits, agent=name, can_hold=agent.can_hold, is_sandboxed=agent.has_sandbox
    )
    if unheld:
        text = f"of the limits of {role.name} not all hold: {unheld}"
        about = {"agent": name, "role": role.name}
        live.request.listener.notice(Notice(kind="role_limits", text=text, about=about))
