"""The handshake's inputs beside the claim: what has changed, and what each way costs.

Blocking: reads the store, asks git, and looks at the files the session knows. Writes nothing, so
that a decision can be shown without being carried out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec import structs

from upthread.core.decision.freshness import Surroundings, freshness
from upthread.core.decision.model import AgentLimit, HandshakeInputs
from upthread.core.decision.rules import RELAYED
from upthread.core.decision.words import CacheState, cache_state
from upthread.core.roles.role import Role
from upthread.core.runs.stops import LIMITS
from upthread.core.turns.turn import TurnView
from upthread.core.types import Link, Outcome, ready
from upthread.runtime.cost import COUNTED_EVERY_TURNS, Subject, price_of, price_without_session
from upthread.runtime.record.turn_views import views_newest_first
from upthread.runtime.turns.examination import look_again
from upthread.runtime.working_tree.repository import git_facts
from upthread.store.base import Store


def gathered(
    store: Store, inputs: HandshakeInputs, subject: Subject, *, is_counted: bool = True
) -> HandshakeInputs:
    """Return the inputs with limits, relays, freshness and price as they are now. Blocking.

    Without `is_counted` the price may be that of a turn before, where no decision rests on it.
    """
    inputs = structs.replace(inputs, limits=subject.settings.limits)
    link = subject.link
    if link is None:
        # Of no session nothing can have changed: no file and no git is looked at.
        price = price_without_session(store, subject, turns=inputs.turns)
        return structs.replace(inputs, price=price)
    worked = _last_worked(store, link)
    _, newest = next(views_newest_first(store, link.conversation_id), (None, None))
    was = _surroundings_of(worked, subject)
    here = surroundings(
        working_directory=subject.working_directory,
        agent=inputs.agent,
        # What it was, until the agent runs and says what it is.
        agent_version=was.agent_version if was else "",
        role=subject.role,
        at_ms=subject.now_ms,
    )
    known = store.examined(link.conversation_id, upstream_session_id=link.upstream_session_id)
    now = look_again(subject.working_directory, known)
    missing = [each.path for each in now if each.state == "missing"]
    # What git was told to leave out is there, and no prompt needs to say that it is gone.
    out = frozenset[str]()
    if missing:
        from upthread.runtime.working_tree.digest import left_out  # noqa: PLC0415  # starts git

        out = left_out(subject.working_directory, missing)
    found = freshness(
        known=known,
        now=[each for each in now if each.path not in out],
        was=was,
        here=here,
        critical=subject.settings.critical,
        places_gone=_places_gone(was),
    )
    idle_s = None if was is None else (subject.now_ms - was.at_ms) / 1000
    # No provider's cache has a prefix that begins with other instructions or another model.
    is_same_prefix = not found.is_configuration_changed and found.model is None
    cache = cache_state(link.agent, idle_s=idle_s, is_same_prefix=is_same_prefix)
    is_counted = is_counted or _rests_on_count(inputs, cache)
    price = price_of(store, subject, found, newest, worked, is_counted=is_counted)
    return structs.replace(
        inputs,
        relays=_relays(store.links(link.conversation_id)),
        freshness=found,
        surroundings=here,
        price=structs.replace(price, cache=cache),
        agent_limit=_agent_limit(newest, inputs.agent, subject),
    )


def _rests_on_count(inputs: HandshakeInputs, cache: CacheState) -> bool:
    """Whether a decision may rest on what a briefing takes, or it was long not counted."""
    is_compared = cache == "cold" and inputs.limits.brief_if_times_cheaper is not None
    return is_compared or inputs.is_fresh_asked or inputs.turns % COUNTED_EVERY_TURNS == 0


def surroundings(
    *, working_directory: str, agent: str, agent_version: str, role: Role, at_ms: int
) -> Surroundings:
    """Return what a session works in now. Blocking: asks git."""
    # Runs nothing, so that no repository can keep a prompt waiting (ADR 58).
    git = git_facts(Path(working_directory))
    return Surroundings(
        working_directory=working_directory,
        agent=agent,
        agent_version=agent_version,
        configuration=role.configuration,
        repository=git.repository,
        branch=git.branch,
        commit=git.commit,
        git_fault=git.fault,
        at_ms=at_ms,
    )


def _last_worked(store: Store, link: Link) -> TurnView | None:
    """Return the newest turn that came to its end in this session, None before any."""
    for _, view in views_newest_first(store, link.conversation_id):
        is_same = view.attached and view.attached.upstream_session_id == link.upstream_session_id
        # One that was cancelled or cut off kept none: the end before it is what is compared with.
        if is_same and view.ended is not None and view.ended.surroundings is not None:
            return view
    return None


def _agent_limit(view: TurnView | None, agent: str, subject: Subject) -> AgentLimit | None:
    """Return the limit that parked the last turn, None where it has passed, or is another's."""
    if view is None or view.parked is None or view.parked.reason not in LIMITS:
        return None
    # Another agent is asked all the same: its provider's limit is another one.
    is_same_agent = view.attached is None or view.attached.agent == agent
    limit = AgentLimit(reason=Outcome(view.parked.reason), until_ms=view.parked.reset_at_ms)
    return limit if is_same_agent and limit.lasts(subject.now_ms) else None


def _surroundings_of(worked: TurnView | None, subject: Subject) -> Surroundings | None:
    if worked is None or worked.ended is None:
        return None
    was = msgspec.convert(worked.ended.surroundings, ready(Surroundings))
    # A role's file as the agent reads it and as upthread sends it says the same to the session.
    is_alike = was.configuration in subject.settings.alike.get(subject.role.name, ())
    return structs.replace(was, configuration=subject.role.configuration) if is_alike else was


def _places_gone(was: Surroundings | None) -> frozenset[str]:
    places = (was.working_directory, was.repository) if was else ()
    return frozenset(place for place in places if place and not Path(place).exists())


def _relays(links: Iterable[Link]) -> int:
    """Count the links at the chain's end that relayed the one before, which was nearly full."""
    newest_first = reversed(tuple(links))
    return sum(1 for _ in takewhile(lambda link: link.opened_because == RELAYED, newest_first))
