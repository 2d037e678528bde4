"""The session of a turn that an agent drives: banked once known, or found in its own store."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from upthread.core.commands import OpenLink, Write
from upthread.core.context.prior_context import has_prior_context
from upthread.core.decision.words import (
    FIRST,
    NOT_FOLLOWED,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
)
from upthread.core.events import SessionAttached
from upthread.core.turns.stored_session import CutOffCall
from upthread.core.turns.turn import TurnState
from upthread.core.types import ContextPart, Link, UpstreamSessionId
from upthread.errors import StoreError
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.turn_history import link_end, prior_of, sent_event
from upthread.store.base import Store

RESUMING: Final = frozenset({RESUME, RESUME_WITH_UPDATE})


def attach_external(
    store: Store,
    live: LiveTurn,
    session: UpstreamSessionId,
    *,
    now_ms: int,
    is_background: bool = False,
) -> tuple[Write, ...]:
    """Hold the events by which a turn has its session; returns what opens a new link. Blocking.

    The next commit has both: the prompt left when the agent began the session.
    """
    view, agent = live.log.view, live.request.claim.agent
    live.agent_version = live.agent_version or _version(live)
    is_new = live.link is None or live.link.upstream_session_id != session
    was_new = view.attached is not None and view.attached.how == "new"
    writes = _linked(store, live, session, now_ms=now_ms) if is_new else ()
    live.log.hold(
        SessionAttached(
            upstream_session_id=session,
            how="new" if is_new or was_new else "resumed",
            agent=agent,
            agent_host=live.host,
            agent_profile=live.request.own_sessions.profile(agent, agent, {}),
            is_background=is_background,
        )
    )
    if live.log.view.state is TurnState.ATTACHED:
        prior = prior_of(store, live)
        seq = live.log.intended.prompt_seq
        told = (part.text for part in live.messages.prompt().parts if isinstance(part, ContextPart))
        is_replay = live.log.intended.decision == RESUME_WITH_REPLAY
        is_injected = is_replay or any(map(has_prior_context, told))
        live.log.hold(sent_event(seq, prior, is_injected=is_injected))
    return writes


def _version(live: LiveTurn) -> str:
    call = live.log.intended.call
    if call is None:
        return ""
    try:
        main = UpstreamSessionId(call.main_session)
        return live.request.own_sessions.version(call.agent, main)
    except StoreError:
        return ""


def _linked(
    store: Store, live: LiveTurn, session: UpstreamSessionId, *, now_ms: int
) -> tuple[Write, ...]:
    intended = live.log.intended
    is_begun = live.log.view.state is not TurnState.INTENDED
    if intended.decision in RESUMING and live.link is not None and not is_begun:
        # The agent began a session of its own in place of the one that it was told of.
        live.log.hold(structs.replace(intended, decision=FIRST, reasons=(NOT_FOLLOWED,)))
    because = live.log.intended.reasons[0]
    conversation_id = live.conversation.conversation_id
    ends = () if live.link is None else (link_end(live.link, because, now_ms),)
    live.link = Link(
        conversation_id=conversation_id,
        seq=len(store.links(conversation_id)) + 1,
        upstream_session_id=session,
        agent=live.request.claim.agent,
        agent_version=live.agent_version,
        working_directory=live.request.open.working_directory,
        opened_because=because,
        opened_at_ms=now_ms,
    )
    return (*ends, OpenLink(link=live.link))


def find_child(store: Store, live: LiveTurn, *, now_ms: int) -> None:
    """Attach the sub-agent that nobody saw begin, where its agent's own store has one. Blocking.

    Does nothing for a turn that upthread drives.
    """
    try:
        writes = found_child(store, live, now_ms=now_ms)
    except StoreError:
        return  # the turn stays one of which nobody knows whether its prompt arrived
    if writes is not None:
        live.log.commit_here(writes=writes)


def found_child(store: Store, live: LiveTurn, *, now_ms: int) -> tuple[Write, ...] | None:
    """As `find_child`, held for the next commit; returns its writes, None for nothing to write.

    Raises StoreError for a store that cannot be read.
    """
    call = live.log.view.intended.call if live.log.view.intended else None
    if call is None or live.log.view.sent is not None:
        return None
    sought = CutOffCall(agent=call.agent, main_session=call.main_session, call_id=call.call_id)
    found = live.request.own_sessions.of_call(sought)
    session = found.upstream_session_id if found is not None else session_of(live)
    return attach_external(store, live, session, now_ms=now_ms) if session else None


def session_of(live: LiveTurn) -> UpstreamSessionId | None:
    """Return the session that a call works in, or is to resume; None where nobody knows."""
    if live.log.view.attached is not None:
        return live.log.view.attached.upstream_session_id
    is_resumed = live.log.intended.decision in RESUMING
    return live.current_session if is_resumed else None
