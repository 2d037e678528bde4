"""Candidates: the stored sessions a person may mean, each with the address it would have.

What a session is called, and the branch it was on, are others' words. An address made of them is
redacted first, and has letters, digits and dashes alone.
"""

from __future__ import annotations

import heapq
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from upthread.agent_stores.homes import store_of
from upthread.agent_stores.outline import DAY_MS, SessionOutline, look
from upthread.agents.outlines import stored_outlines
from upthread.client.parts import Surroundings
from upthread.client.project import Project
from upthread.core.agents import AGENTS
from upthread.core.types import UpstreamSessionId
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import one_line

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


# --- how one is opened ----------------------------------------------------------------------------
# What a person types to open a stored session in its agent's own interface.


class Opening(NamedTuple):
    """The command that opens a session, and the one before it for a session that was archived.

    None where there is none. `is_by_main` says that its main session is opened instead.
    """

    resume_command: tuple[str, ...] | None
    unarchive_command: tuple[str, ...] | None
    is_by_main: bool


def opening_of(outline: SessionOutline) -> Opening:
    """Return what opens a session: a sub-agent that its agent opens for nobody, by its main one."""
    row = AGENTS.get(outline.agent)
    if row is None:
        return Opening(None, None, is_by_main=False)
    is_by_main = outline.is_sub_agent and not row.opens_sub_agents
    opened = outline.parent_session_id if is_by_main else outline.session_id
    unarchive = row.unarchive_command(opened) if outline.is_archived else None
    return Opening(row.resume_command(opened), unarchive, is_by_main)


def can_be_adopted(outline: SessionOutline) -> bool:
    """Return whether a prompt of ours could go on in it as it lies there."""
    opening = opening_of(outline)
    return not opening.is_by_main and opening.unarchive_command is None


# --- what became of them --------------------------------------------------------------------------
# What became of chosen sessions, for people and for programs.

NOT_ALL = 1
"""The exit code where one of the sessions could not be taken."""


class Done(Struct, frozen=True, kw_only=True):
    """What became of one session: `fault` is empty where it is done, or would be."""

    candidate: Candidate
    fault: str = ""


async def done_to(
    candidate: Candidate, act: Callable[[Candidate], Awaitable[object]], *, is_named: bool = False
) -> Done:
    """Do it to one session. What its agent or its file lacks is told with the others.

    Raises UsageError where a person has named the address, and named it wrongly; one that was
    suggested may have been taken by another process meanwhile.
    """
    try:
        await act(candidate)
    except UpthreadError as error:  # one must not cost the rest
        is_wrong = isinstance(error, UsageError) and not isinstance(error, NotFoundError)
        if is_named and is_wrong:
            raise
        return Done(candidate=candidate, fault=error.message)
    return Done(candidate=candidate)


def tell(
    call: Call, around: Surroundings, done: Sequence[Done], *, word: str, is_done: bool, held: int
) -> int:
    """Tell of each and return the exit code. `word` is what was done: KEPT.

    `held` is how many of those meant were on record already.
    """
    output = call.output
    if output.is_json:
        sessions = [_shape(each, around) for each in done]
        output.json({"is_done": is_done, "on_record_already": held, "sessions": sessions})
    else:
        for each in done:
            address, outline = one_line(each.candidate.address), each.candidate.outline
            if each.fault:
                said = f": NOT {word}: {one_line(each.fault)}"
                output.row((address, "cyan"), (said, "red"))
                continue
            what = word if is_done else f"would be {word.lower()}"
            name = f"{one_line(outline.session_id)} of {outline.agent}"
            output.row((address, "cyan"), (f": {what} {name}", ""))
        if held:
            said = "on record already; what was forgotten of them stays so"
            output.note(f"{held} of them {said}: upthread ls", "dim")
    return NOT_ALL if any(each.fault for each in done) else 0


def _shape(done: Done, around: Surroundings) -> dict[str, Any]:
    told = shape(done.candidate, around.redactor.redact)
    return {**told, "fault": around.redactor.redact(done.fault) or None}


# --- totals -------------------------------------------------------------------------------------
# Totals: what is told of many sessions, taken in one after the other. Values only.
#
# Of each session only what is told is kept, so that memory does not grow with their number.

SOON_DAYS: Final = 7
DIRECTORIES_MAX: Final = 10_000
"""Of more directories than these only the number of sessions is known."""

ROLES_MAX: Final = 1_000
KEPT_MAX: Final = 10
"""How many sessions are told of one by one, unless all are asked for."""


class Numbers(Struct):
    """How many there are of something, and when one of them was used last."""

    sessions: int = 0
    sub_agents: int = 0
    used_at_ms: int = 0

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


class Newest(Struct):
    """The newest few of many sessions."""

    most: int
    count: int = 0
    _heap: list[tuple[int, int, SessionOutline]] = field(
        default_factory=list[tuple[int, int, SessionOutline]]
    )

    def add(self, outline: SessionOutline) -> None:
        """Take one in; it may be forgotten again for a newer one."""
        self.count += 1
        # The number before the session: of two at the same moment neither is compared further.
        entry = (outline.used_at_ms, -self.count, outline)
        if len(self._heap) < self.most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    @property
    def outlines(self) -> list[SessionOutline]:
        """Them, the newest first."""
        return [outline for _, _, outline in sorted(self._heap, reverse=True)]


class RoleHere(Struct):
    """The sub-agents of one role and one agent: how many, and the newest."""

    newest: SessionOutline
    count: int = 0


class Totals:
    """All that is told. `is_here` says which directories are the project's.

    `held` are the sessions that are in our own record, of which nothing is lost when their agent
    deletes them.
    """

    def __init__(
        self,
        is_here: Callable[[str], bool],
        *,
        now_ms: int,
        kept_max: int = KEPT_MAX,
        held: Collection[str] = (),
    ) -> None:
        self._held = held
        self._is_here = is_here
        self._now_ms = now_ms
        self.agents: dict[str, Numbers] = {}
        self.agents_here: dict[str, Numbers] = {}
        self.elsewhere: dict[str, Numbers] = {}
        self.sessions_here = Newest(kept_max)
        self.roles_here: dict[tuple[str, str], RoleHere] = {}
        self.sub_agents_here = Newest(kept_max)
        self.interrupted_here = Newest(kept_max)
        self.soon: dict[str, Soon] = {}
        self.foreign: Counter[str] = Counter()

    @property
    def sessions(self) -> int:
        """How many sessions there are, sub-agents not counted."""
        return sum(each.sessions for each in self.agents.values())

    def add(self, outline: SessionOutline) -> None:
        """Take a session in."""
        if outline.is_foreign:
            self.foreign[outline.agent] += 1
            return
        is_here = self._is_here(outline.directory)
        self.agents.setdefault(outline.agent, Numbers()).add(outline)
        if is_here:
            self.agents_here.setdefault(outline.agent, Numbers()).add(outline)
            self._add_here(outline)
        elif outline.directory in self.elsewhere or len(self.elsewhere) < DIRECTORIES_MAX:
            self.elsewhere.setdefault(outline.directory, Numbers()).add(outline)
        self._add_soon(outline, is_here=is_here)

    def _add_here(self, outline: SessionOutline) -> None:
        if not outline.is_sub_agent:
            self.sessions_here.add(outline)
            if outline.ending == "interrupted":
                self.interrupted_here.add(outline)
        elif outline.is_of_a_role:
            self._add_role(outline)

    def _add_role(self, outline: SessionOutline) -> None:
        self.sub_agents_here.add(outline)
        key = (outline.role, outline.agent)
        if key not in self.roles_here and len(self.roles_here) >= ROLES_MAX:
            return
        role = self.roles_here.setdefault(key, RoleHere(newest=outline))
        role.count += 1
        if outline.used_at_ms > role.newest.used_at_ms:
            role.newest = outline

    def _add_soon(self, outline: SessionOutline, *, is_here: bool) -> None:
        at_ms = outline.deleted_at_ms
        if at_ms is None or not is_deleted_soon(outline, self._now_ms):
            return
        soon = self.soon.setdefault(outline.agent, Soon(first_at_ms=at_ms))
        soon.sessions += 1
        soon.here += is_here and outline.session_id not in self._held
        soon.first_at_ms = min(soon.first_at_ms, at_ms)
