"""Candidates: the stored sessions a person may mean, each with the address it would have.

What a session is called, and the branch it was on, are others' words. An address made of them is
redacted first, and has letters, digits and dashes alone.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from upthread.agent_stores.homes import store_of
from upthread.agent_stores.outline import SessionOutline, look
from upthread.agents.outlines import stored_outlines
from upthread.client.project import Project
from upthread.client.surroundings import Surroundings
from upthread.core.types import UpstreamSessionId
from upthread.surfaces.cli.overview.totals import is_deleted_soon

SECONDS_MAX: Final = 60.0
WORKSTREAM_CHARACTERS_MAX: Final = 40
USUAL_ROLE: Final = "planner"
"""What a main session is taken for, which did all of it."""

_DEFAULT_BRANCHES: Final = frozenset({"main", "master", "trunk", "develop", "HEAD"})
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]+")


class Filters(Struct, frozen=True, kw_only=True):
    """Which sessions are meant. `ids` are sessions' own ids, empty for any."""

    agent: str | None = None
    ids: Collection[str] = ()
    is_soon: bool = False

    def take(self, outline: SessionOutline, now_ms: int) -> bool:
        """Return whether a session is one of those meant."""
        if outline.is_foreign or (self.ids and outline.session_id not in self.ids):
            return False
        return not self.is_soon or is_deleted_soon(outline, now_ms)


class Candidate(Struct, frozen=True, kw_only=True):
    """A session, and the address that is suggested for it."""

    outline: SessionOutline
    address: str


def outlines_here(around: Surroundings, filters: Filters) -> list[SessionOutline]:
    """Return the sessions of a directory's project that are meant, the newest first.

    A session that was named is taken wherever it worked.
    """
    now_ms = time.time_ns() // 1_000_000
    seen = look(seconds_max=SECONDS_MAX)
    agent = None if filters.agent is None else store_of(filters.agent)
    found = [
        each
        for each in stored_outlines(os.environ, seen, agent=agent)
        if filters.take(each, now_ms) and (filters.ids or around.is_here(each.directory))
    ]
    return sorted(found, key=lambda each: -each.used_at_ms)


def unheld(project: Project, outlines: list[SessionOutline]) -> list[SessionOutline]:
    """Return the sessions that no conversation of the project has. Blocking."""
    store, owner = project.store, project.project_id
    return [
        each for each in outlines if store.owner(owner, UpstreamSessionId(each.session_id)) is None
    ]


def on_record(project: Project, outlines: list[SessionOutline]) -> Iterator[Candidate]:
    """Yield sessions that conversations have, each with its conversation's address. Blocking."""
    for each in outlines:
        owner = project.store.owner(project.project_id, UpstreamSessionId(each.session_id))
        if owner is not None:
            yield Candidate(outline=each, address=owner.key.address)


def addressed(project: Project, outlines: list[SessionOutline]) -> Iterator[Candidate]:
    """Yield each session with an address that is free, each with one of its own. Blocking."""
    store = project.store
    taken = {
        each.key.address
        for workstream in store.workstreams(project.project_id)
        for each in store.conversations(project.project_id, workstream.workstream)
    }
    for outline in outlines:
        address = _free(outline, taken, project.settings.roles, project.redactor.redact)
        taken.add(address)
        yield Candidate(outline=outline, address=address)


def _free(
    outline: SessionOutline,
    taken: Collection[str],
    roles: Mapping[str, object],
    redact: Callable[[str], str],
) -> str:
    workstream = workstream_of(outline, redact)
    role = outline.role if outline.role in roles else USUAL_ROLE
    if role not in roles:
        role = next(iter(roles), USUAL_ROLE)
    number = 1
    while True:
        name = workstream if number == 1 else f"{workstream}-{number}"
        if f"{name}/{role}" not in taken:
            return f"{name}/{role}"
        number += 1


def workstream_of(outline: SessionOutline, redact: Callable[[str], str]) -> str:
    """Return the workstream that a session's branch names, else its title, else its id."""
    branch = "" if outline.branch in _DEFAULT_BRANCHES else outline.branch
    for text in (redact(branch), outline.title(redact), redact(outline.session_id)):
        plain = _NOT_PLAIN.sub("-", text.lower())[:WORKSTREAM_CHARACTERS_MAX].strip("-")
        if plain:
            return plain
    return "session"


def shape(candidate: Candidate, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return a candidate as JSON has it."""
    outline = candidate.outline
    return {
        "address": candidate.address,
        "agent": outline.agent,
        "session_id": outline.session_id,
        "role": redact(outline.role) or None,
        "title": outline.title(redact),
        "branch": redact(outline.branch) or None,
        "directory": redact(outline.directory),
        "used_at_ms": outline.used_at_ms,
        "deleted_at_ms": outline.deleted_at_ms,
    }
