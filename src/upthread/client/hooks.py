"""What an open project does for hooks: publish what they read, take in what they saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio

from upthread.agents.stored import read_stored
from upthread.config import Settings
from upthread.core.names import parse_workstream
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import Link, ProjectId
from upthread.core.workstreams import choose_workstream
from upthread.errors import LeaseHeldError, StoreError
from upthread.runtime.bindings.files import BusyError, UnreadableError
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.conversation import Conversations
from upthread.runtime.draining import LEASE_WAIT_S, Draining, is_due
from upthread.runtime.lease import Leases
from upthread.runtime.occupying import Occupying, published_place
from upthread.runtime.overview import Overview
from upthread.runtime.private_store import RecordPolicy
from upthread.runtime.publishing import (
    ConditionOf,
    Published,
    forget,
    installed_path,
    publish,
    use,
)
from upthread.runtime.retrieval import Retrieval
from upthread.runtime.system import System
from upthread.runtime.under_way import CallUnderWay, calls_under_way
from upthread.store.base import Store

Result = TypeVar("Result")

WORKSTREAM_VARIABLE: Final = "UPTHREAD_WORKSTREAM"
DRAINS_MAX: Final = 10
"""How often one process looks into the spool again; whoever comes after goes on."""

TAKEN_IN_LOOK_S: Final = 0.05
"""How long another process that takes something in is left to it before the next look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """Which workstream this working tree is on. `workstream` is None when nothing names one.

    `because` is a code of core/workstreams.py. `last` is the workstream of the newest turn, with
    its time in epoch milliseconds; None before the first. `underway` are the addresses that
    sub-agents of hooked agents are working on now.
    """

    workstream: str | None
    because: str
    branch: str | None
    last: tuple[str, int] | None
    underway: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HookParts:
    """The parts of an open project that hooks are served with."""

    store: Store
    system: System
    settings: Settings
    leases: Leases
    policy: RecordPolicy
    redactor: Redactor
    environment: Mapping[str, str]


def hooks_of(
    parts: HookParts,
    *,
    project_id: ProjectId,
    condition_of: ConditionOf,
    other_host: Callable[[Link | None], str | None],
) -> Hooks:
    """Return what a project does for hooks. Its leases are of their own: a drain claims nothing."""
    source = Published(
        store=parts.store,
        settings=parts.settings,
        project_id=project_id,
        overview=Overview(parts.store, parts.system.is_dead),
        condition_of=condition_of,
        other_host=other_host,
        policy=parts.policy,
        redactor=parts.redactor,
    )
    draining = Draining(
        store=parts.store,
        system=parts.system,
        leases=parts.leases,
        conversations=Conversations(parts.store, parts.system, parts.leases),
        retrieval=Retrieval(
            parts.store, partial(read_stored, parts.environment), parts.redactor.redact
        ),
    )
    return Hooks(source=source, system=parts.system, draining=draining, settings=parts.settings)


class Hooks:
    """Made by `Project`, as `up.hooks`."""

    def __init__(
        self, *, source: Published, system: System, draining: Draining, settings: Settings
    ) -> None:
        self._source = source
        self._system = system
        self._draining = draining
        self._home = Path(settings.home)
        self._root = Path(settings.working_directory)
        self.occupying = Occupying(
            home=self._home, root=self._root, system=system, take_in=draining.drain_one
        )

    @property
    def is_installed(self) -> bool:
        """Whether `upthread setup` has been run: without it nobody reads what is published."""
        return Path(installed_path(self._home)).exists()

    async def publish(self) -> None:
        """Write what hooks read, from the store. Raises StoreError when it cannot be written."""
        try:
            await self._system.in_thread(
                lambda: publish(self._source, home=self._home, root=self._root)
            )
        except (BusyError, UnreadableError, OSError) as error:
            raise StoreError(
                f"what hooks read could not be written: {error}",
                hint="the turn itself is kept; `upthread drain` writes it again",
            ) from error

    async def published(self, work: Awaitable[Result]) -> Result:
        """Return what the work returns; what hooks read is written again after it.

        After work that failed too: it may have opened a session. Raises as `publish` does.
        """
        try:
            return await work
        finally:
            if self.is_installed:
                with anyio.CancelScope(shield=True):
                    await self.publish()

    async def forgetting(
        self, work: Callable[[], Awaitable[Result]], workstream: str | None
    ) -> Result:
        """Return what the work returns; what was said is taken out of what hooks read around it.

        Before it, so that nothing comes in afterwards; and after it, whatever becomes of it.
        """
        place = await self.catch_up()
        if place is None:
            return await work()
        try:
            return await work()
        finally:
            with anyio.CancelScope(shield=True):
                await self._system.in_thread(lambda: forget(place, workstream))
                await self.publish()

    async def catch_up(self) -> Place | None:
        """Take in what hooks saw; returns their place, None where nothing is published for them."""
        place = await self._system.in_thread(
            lambda: published_place(self._home, self._root, self._source.project_id)
        )
        if place is not None:
            await self.drain()
        return place

    async def take_in(self) -> None:
        """Take in what hooks saw and is over, before the store is read.

        Nothing to take in costs one look into the spool. What another process is taking in now is
        waited for, as long as whoever looks would not notice. What belongs to a conversation that
        a turn of ours holds is left to that turn, which takes it in itself.
        """
        place = await self._system.in_thread(
            lambda: published_place(self._home, self._root, self._source.project_id)
        )
        if place is None:
            return
        try:
            await self._draining.open(await self._system.in_thread(lambda: self._calls(place)))
            await self._take_in_from(place)
        except UnreadableError as error:
            raise StoreError(
                f"what hooks saw cannot be read: {error}",
                hint="move it away, and nothing else: the agents' own sessions have what was said",
            ) from error

    async def _take_in_from(self, place: Place) -> None:
        for _ in range(DRAINS_MAX):
            if not await self._system.in_thread(lambda: is_due(place)):
                return
            try:
                await self.drain(lease_wait_s=0.0)
            except LeaseHeldError:
                return
            await anyio.sleep(TAKEN_IN_LOOK_S)

    async def drain(self, *, lease_wait_s: float = LEASE_WAIT_S) -> int:
        """Take in what hooks saw, then publish; returns how many calls were taken in.

        One process at a time: another one's work is not waited for, it looks again before it ends.
        """
        taken = 0
        for _ in range(DRAINS_MAX):
            place = await self._system.in_thread(self._place)
            try:
                with place.drain_lock():
                    number = await self._draining.drain(
                        place, self._source.project_id, lease_wait_s=lease_wait_s
                    )
                    await self.publish()
            except BusyError:
                return taken
            taken += number
            if not number:
                return taken
        return taken

    async def use(self, workstream: str | None) -> InUse:
        """Say what this working tree works on, None for no longer anything."""
        name = None if workstream is None else parse_workstream(workstream)
        await self.publish()
        await self._system.in_thread(lambda: use(Place(str(self._home), str(self._root)), name))
        return await self.in_use()

    def calls_under_way(self) -> Sequence[CallUnderWay]:
        """Return what sub-agents of hooked agents are working on now, by address. Blocking."""
        place = published_place(self._home, self._root, self._source.project_id)
        return self._calls(place) if place else ()

    def _calls(self, place: Place) -> list[CallUnderWay]:
        return calls_under_way(place, self._source.project_id, self._system)

    async def in_use(self, environment: str | None = None) -> InUse:
        """Return which workstream this working tree is on, and why."""
        await self.publish()
        return await self._system.in_thread(lambda: self._in_use(environment))

    def _place(self) -> Place:
        """Return the place, published or not."""
        place = Place(str(self._home), str(self._root))
        place.known = {"project_id": self._source.project_id}
        return place

    def _in_use(self, environment: str | None) -> InUse:
        place = self._place()
        known = place.read() or {}
        used = object_in(known, "used").get(place.root)
        workstream, because = choose_workstream(
            environment=environment,
            named=None,
            used=used if isinstance(used, str) else None,
            branch=place.branch,
            default_branch=text_in(known, "default_branch") or None,
        )
        listed = [
            (number_in(each, "last_at_ms"), text_in(each, "name"))
            for each in list_in(known, "workstreams")
        ]
        last = max(listed, default=None)
        return InUse(
            workstream=workstream,
            because=because,
            branch=place.branch,
            last=(last[1], last[0]) if last else None,
            underway=tuple(call.key.address for call in self._calls(place)),
        )
