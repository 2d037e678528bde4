"""The stored sessions that a person may mean: which there are, what opens each, and their totals.

What a session is called, and the branch it was on, are others' words. An address made of them is
redacted first, and has letters, digits and dashes alone.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from upthread.agent_stores.base import DAY_MS, SessionOutline, look, newest_of
from upthread.agent_stores.homes import store_of
from upthread.agents.stored import stored_outlines
from upthread.client.parts import Command
from upthread.client.project import Project
from upthread.client.project_opener import Surroundings
from upthread.core.agents import AGENTS
from upthread.surfaces.cli.terminal.output import Shape, members

Redact: TypeAlias = Callable[[str], str]
"""Takes the secrets out of a text."""

SECONDS_MAX = 60.0
WORKSTREAM_CHARACTERS_MAX = 40
USUAL_ROLE = "planner"
"""What a main session is taken for, which did all of it."""

_DEFAULT_BRANCHES = frozenset({"main", "master", "trunk", "develop", "HEAD"})
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def outlines_here(
    around: Surroundings,
    *,
    agent: str | None,
    ids: Collection[str] = (),
    is_soon: bool = False,
) -> list[SessionOutline]:
    """Return the sessions of a directory's project that are meant, the newest first.

    A session that is named by its agent's id is taken wherever it worked.
    """
    now_ms = time.time_ns() // 1_000_000
    seen = look(seconds_max=SECONDS_MAX)
    store = None if agent is None else store_of(agent)
    found = [
        each
        for each in newest_of(stored_outlines(os.environ, seen, agent=store))
        if not each.is_foreign
        and (each.session_id in ids if ids else around.is_here(each.directory))
        and not (is_soon and not is_deleted_soon(each, now_ms))
    ]
    return sorted(found, key=lambda each: -each.used_at_ms)


def free_address(project: Project, outline: SessionOutline, taken: Collection[str]) -> str:
    """Return an address for a session that is not among those taken."""
    roles = project.settings.roles
    workstream = workstream_of(outline, project.redactor.redact)
    role = outline.role if outline.role in roles else USUAL_ROLE
    if role not in roles:
        role = next(iter(roles), USUAL_ROLE)
    number = 1
    while True:
        name = workstream if number == 1 else f"{workstream}-{number}"
        if f"{name}/{role}" not in taken:
            return f"{name}/{role}"
        number += 1


def workstream_of(outline: SessionOutline, redact: Redact) -> str:
    """Return the workstream that a session's branch names, else its title, else its id."""
    branch = "" if outline.branch in _DEFAULT_BRANCHES else outline.branch
    for text in (redact(branch), outline.title(redact), redact(outline.session_id)):
        plain = _NOT_PLAIN.sub("-", text.lower())[:WORKSTREAM_CHARACTERS_MAX].strip("-")
        if plain:
            return plain
    return "session"


def outline_shape(outline: SessionOutline, redact: Redact) -> Shape:
    """Return what JSON says of a session."""
    return {
        **members(outline, "agent session_id"),
        "role": redact(outline.role) or None,
        "title": outline.title(redact),
        "directory": redact(outline.directory),
        "branch": redact(outline.branch) or None,
        **members(outline, "used_at_ms deleted_at_ms"),
    }


# --- how one is opened ----------------------------------------------------------------------------
# What a person types to open a stored session in its agent's own interface.


class Opening(NamedTuple):
    """The command that opens a session, and the one before it for a session that was archived.

    None where there is none. `is_by_main` says that its main session is opened instead.
    """

    resume_command: Command | None
    unarchive_command: Command | None
    is_by_main: bool


def opening_of(outline: SessionOutline) -> Opening:
    """Return what opens a session: a sub-agent that its agent opens for nobody, by its main one."""
    row = AGENTS.get(outline.agent)
    if row is None:
        return Opening(None, None, is_by_main=False)
    is_by_main = outline.is_sub_agent and not row.opens_sub_agents
    opened = outline.parent_session_id if is_by_main else outline.session_id
    unarchive = row.unarchive_command(opened) if outline.is_archived else None
    resume = row.resume_command(opened)
    if outline.is_too_old:  # a copy of ours goes on in a new session, with what was said
        resume = ("upthread", "keep", outline.session_id)
    return Opening(resume, unarchive, is_by_main)


def can_be_adopted(outline: SessionOutline) -> bool:
    """Return whether a prompt of ours could go on in it as it lies there."""
    opening = opening_of(outline)
    is_opened = not opening.is_by_main and opening.unarchive_command is None
    return is_opened and not outline.is_too_old


# --- totals -------------------------------------------------------------------------------------
# Totals of many sessions. Sessions elsewhere are only counted, so that a home with months of them
# takes little memory.

SOON_DAYS = 7
DIRECTORIES_MAX = 10_000
"""Of more directories than these only the number of sessions is known."""


class Numbers(Struct):
    """How many there are of something, and when one of them was used last."""

    sessions: int = 0
    sub_agents: int = 0
    used_at_ms: int = 0

    @property
    def shape(self) -> Shape:
        """Return the numbers as JSON has them."""
        at_ms = self.used_at_ms or None
        return {**members(self, "sessions sub_agents"), "used_at_ms": at_ms}

    def add(self, outline: SessionOutline) -> None:
        """Count a session."""
        self.sub_agents += outline.is_sub_agent
        self.sessions += not outline.is_sub_agent
        self.used_at_ms = max(self.used_at_ms, outline.used_at_ms)


class Soon(Struct):
    """Which sessions an agent deletes soon: how many, how many of them here, and the first one."""

    sessions: int = 0
    here: int = 0
    first_at_ms: int = 0


def is_deleted_soon(outline: SessionOutline, now_ms: int) -> bool:
    """Return whether its agent deletes a session within a few days."""
    at_ms = outline.deleted_at_ms
    return at_ms is not None and at_ms <= now_ms + SOON_DAYS * DAY_MS


class Totals:
    """What is told of all sessions. `is_here` says which directories are the project's.

    `held` are the sessions that are in our own record, of which nothing is lost when their agent
    deletes them.
    """

    def __init__(
        self,
        outlines: Iterable[SessionOutline],
        is_here: Callable[[str], bool],
        *,
        now_ms: int,
        held: Collection[str],
    ) -> None:
        self.agents: dict[str, Numbers] = {}
        self.agents_here: dict[str, Numbers] = {}
        self.elsewhere: dict[str, Numbers] = {}
        self.soon: dict[str, Soon] = {}
        self.foreign: Counter[str] = Counter()
        here: list[SessionOutline] = []
        for outline in newest_of(outlines):
            if outline.is_foreign:
                self.foreign[outline.agent] += 1
                continue
            self.agents.setdefault(outline.agent, Numbers()).add(outline)
            place = outline.directory
            if is_here(place):
                self.agents_here.setdefault(outline.agent, Numbers()).add(outline)
                here.append(outline)
            elif place in self.elsewhere or len(self.elsewhere) < DIRECTORIES_MAX:
                self.elsewhere.setdefault(place, Numbers()).add(outline)
            if outline.deleted_at_ms is not None and is_deleted_soon(outline, now_ms):
                soon = self.soon.setdefault(outline.agent, Soon(first_at_ms=outline.deleted_at_ms))
                soon.sessions += 1
                soon.here += is_here(place) and outline.session_id not in held
                soon.first_at_ms = min(soon.first_at_ms, outline.deleted_at_ms)
        here.sort(key=lambda each: -each.used_at_ms)
        self.sessions_here = [each for each in here if not each.is_sub_agent]
        self.sub_agents_here = [each for each in here if each.is_sub_agent and each.is_of_a_role]

    @property
    def sessions(self) -> int:
        """How many sessions there are, sub-agents not counted."""
        return sum(each.sessions for each in self.agents.values())

    @property
    def interrupted_here(self) -> list[SessionOutline]:
        """The sessions here that look interrupted, the newest first."""
        return [each for each in self.sessions_here if each.ending == "interrupted"]

    @property
    def roles_here(self) -> list[list[SessionOutline]]:
        """The sub-agents of each role and agent, the newest first."""
        roles: dict[tuple[str, str], list[SessionOutline]] = {}
        for each in self.sub_agents_here:
            roles.setdefault((each.role, each.agent), []).append(each)
        return list(roles.values())
