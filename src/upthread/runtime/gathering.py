"""Gathering: what a decision rests on beside the claim: what has changed, and what each way costs.

Blocking: reads the store, asks git, and looks at the files the session knows. Writes nothing, so
that a decision can be shown without being carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from upthread.config import Settings
from upthread.core.briefing import build_briefing
from upthread.core.changes import change_lines
from upthread.core.codec import encode_json
from upthread.core.decision_rules import RELAYED
from upthread.core.decisions import USUAL_LIMITS, AgentLimit, HandshakeInputs, Limits
from upthread.core.events import TurnEnded
from upthread.core.freshness import Freshness, Surroundings, freshness
from upthread.core.price import Price, Tokens, cache_state, estimated, held
from upthread.core.roles import Role
from upthread.core.stops import LIMITS
from upthread.core.types import Conversation, Link, Outcome, Part, ToolCallPart
from upthread.runtime.briefing import BriefingRequest, briefing_inputs
from upthread.runtime.conversation import views_newest_first
from upthread.runtime.examining import look_again
from upthread.runtime.repository import git_facts
from upthread.store.base import Store

ESTIMATED_MESSAGES_MAX: Final = 256
"""How many of a session's messages an estimate of its tokens counts, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessSettings:
    """How freshness and price are judged, as configured.

    `critical` are globs of files that make a session stale alone; `window_tokens` is the window of
    models whose agent does not tell it, None where that is unknown. `alike` are by role the digests
    of its configuration as upthread sends it and as the agents find it: a session that began with
    the one has not got other instructions where the other is asked about.
    """

    limits: Limits = USUAL_LIMITS
    critical: tuple[str, ...] = ()
    window_tokens: int | None = None
    alike: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


USUAL_FRESHNESS: Final = FreshnessSettings()


def freshness_settings(settings: Settings) -> FreshnessSettings:
    """Return what of a project's settings freshness and price are judged by."""
    return FreshnessSettings(
        limits=settings.limits,
        critical=settings.critical,
        window_tokens=settings.window_tokens,
        alike=settings.alike,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose session is judged, and where it would go on. `link` is None without an open one."""

    conversation: Conversation
    link: Link | None
    role: Role
    working_directory: str
    settings: FreshnessSettings
    now_ms: int


def gathered(store: Store, inputs: HandshakeInputs, subject: Subject) -> HandshakeInputs:
    """Return the inputs with limits, relays, freshness and price as they are now. Blocking."""
    inputs = replace(inputs, limits=subject.settings.limits)
    link = subject.link
    if link is None:
        return inputs
    last = _last_worked(store, link)
    was = _surroundings_of(last, subject)
    here = surroundings(
        working_directory=subject.working_directory,
        agent=inputs.agent,
        # What it was, until the agent runs and says what it is.
        agent_version=was.agent_version if was else "",
        role=subject.role,
        at_ms=subject.now_ms,
    )
    known = store.examined(link.conversation_id, upstream_session_id=link.upstream_session_id)
    found = freshness(
        known=known,
        now=look_again(subject.working_directory, known),
        was=was,
        here=here,
        critical=subject.settings.critical,
        places_gone=_places_gone(was),
    )
    idle_s = None if was is None else (subject.now_ms - was.at_ms) / 1000
    is_same_prefix = not found.is_configuration_changed and found.model is None
    cache = cache_state(link.agent, idle_s=idle_s, is_same_prefix=is_same_prefix)
    return replace(
        inputs,
        relays=_relays(store.links(link.conversation_id)),
        freshness=found,
        surroundings=here,
        price=replace(_priced(store, subject, link, last, found), cache=cache),
        agent_limit=_agent_limit(store, inputs.agent, subject),
    )


def unmoved(
    store: Store, inputs: HandshakeInputs, subject: Subject
) -> tuple[HandshakeInputs, Surroundings | None]:
    """Return the same as `gathered` while nothing has moved, and the surroundings of then.

    Blocking; from the record alone: no file and no git is looked at, and the cache's state, which
    follows from the time, is left open. The surroundings are None where they were never recorded.
    """
    inputs = replace(inputs, limits=subject.settings.limits)
    link = subject.link
    if link is None:
        return inputs, None
    last = _last_worked(store, link)
    inputs = replace(
        inputs,
        relays=_relays(store.links(link.conversation_id)),
        price=_priced(store, subject, link, last, Freshness()),
        agent_limit=_agent_limit(store, inputs.agent, subject),
    )
    return inputs, _surroundings_of(last, subject)


def surroundings(
    *, working_directory: str, agent: str, agent_version: str, role: Role, at_ms: int
) -> Surroundings:
    """Return what a session works in now. Blocking: asks git."""
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


def _last_worked(store: Store, link: Link) -> TurnEnded | None:
    """Return how the newest turn ended that came to its end in this session, None before any."""
    for _, view in views_newest_first(store, link.conversation_id):
        is_same = view.attached and view.attached.upstream_session_id == link.upstream_session_id
        if is_same and view.ended is not None and view.ended.surroundings is not None:
            return view.ended
    return None


def _agent_limit(store: Store, agent: str, subject: Subject) -> AgentLimit | None:
    """Return the limit that parked the last turn, None where it has passed, or is another's."""
    _, view = next(views_newest_first(store, subject.conversation.conversation_id), (None, None))
    if view is None or view.parked is None or view.parked.reason not in LIMITS:
        return None
    is_same_agent = view.attached is None or view.attached.agent == agent
    limit = AgentLimit(reason=Outcome(view.parked.reason), until_ms=view.parked.reset_at_ms)
    return limit if is_same_agent and limit.lasts(subject.now_ms) else None


def _surroundings_of(last: TurnEnded | None, subject: Subject) -> Surroundings | None:
    if last is None:
        return None
    was = msgspec.convert(last.surroundings, Surroundings)
    is_alike = was.configuration in subject.settings.alike.get(subject.role.name, ())
    return replace(was, configuration=subject.role.configuration) if is_alike else was


def _places_gone(was: Surroundings | None) -> frozenset[str]:
    places = (was.working_directory, was.repository) if was else ()
    return frozenset(place for place in places if place and not Path(place).exists())


def _relays(links: Iterable[Link]) -> int:
    """Count the links at the chain's end that relayed the one before, which was nearly full."""
    newest_first = reversed(tuple(links))
    return sum(1 for _ in takewhile(lambda link: link.opened_because == RELAYED, newest_first))


# --- the price ---------------------------------------------------------------------------------


def _priced(
    store: Store, subject: Subject, link: Link, last: TurnEnded | None, found: Freshness
) -> Price:
    return Price(
        resume=_tokens_held(store, link, last),
        briefing=_tokens_of_briefing(store, subject, found),
        window_tokens=(last and last.tokens_window) or subject.settings.window_tokens,
    )


def _tokens_held(store: Store, link: Link, last: TurnEnded | None) -> Tokens:
    reported = last.tokens_used if last else None
    characters = _characters_of(store, link) if reported is None else 0
    return held(reported=reported, characters=characters)


def _characters_of(store: Store, link: Link) -> int:
    messages = store.messages(link.conversation_id, newest=ESTIMATED_MESSAGES_MAX)
    said = (m.parts for m in messages if m.upstream_session_id == link.upstream_session_id)
    return sum(_characters(part) for parts in said for part in parts)


def _characters(part: Part) -> int:
    if isinstance(part, ToolCallPart):
        return len(part.title) + len(encode_json(part.arguments))
    return len(getattr(part, "text", ""))


def _tokens_of_briefing(store: Store, subject: Subject, found: Freshness) -> Tokens:
    request = BriefingRequest(
        conversation=subject.conversation,
        changes=change_lines(found),
        is_independent=subject.role.continuity == "fresh",
    )
    return estimated(len(build_briefing(briefing_inputs(store, request))))
