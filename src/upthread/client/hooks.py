"""What an open project does for hooks: publish what they read, take in what they saw."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, structs

from upthread.agents.stored import read_asked, read_stored
from upthread.client.parts import ProjectParts
from upthread.core.names import parse_workstream
from upthread.core.types import Link
from upthread.core.workstreams import choose_workstream
from upthread.errors import LeaseHeldError, StoreError
from upthread.runtime.bindings.files import BusyError, UnreadableError
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place, installed_path, published_place
from upthread.runtime.hooked.intake import Draining
from upthread.runtime.hooked.publication import Published, publish
from upthread.runtime.hooked.published_files import forget, use
from upthread.runtime.hooked.retrieval import Retrieval
from upthread.runtime.hooked.spooled import Behind, behind, is_due
from upthread.runtime.hooked.under_way import CallUnderWay, calls_under_way
from upthread.runtime.hooked.unread import has_unread
from upthread.runtime.lease import Leases
from upthread.runtime.record.workstream_views import ConditionOf, Overview
from upthread.runtime.turns.conversation import Conversations
from upthread.runtime.turns.session_claim import Occupying

Result = TypeVar("Result")

DRAINS_MAX: Final = 10
"""How often one process looks into the spool again; whoever comes after goes on."""

TAKEN_IN_LOOK_S: Final = 0.05
"""How long another process that takes something in is left to it before the next look."""


class InUse(Struct, frozen=True, kw_only=True):
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


class Hooks:
    """Made by `Project`, as `up.hooks`. Its leases are of their own: a drain claims nothing.

    `behind` is what could not be taken in before the record was last read, None for nothing.
    """

    def __init__(
        self,
        parts: ProjectParts,
        *,
        condition_of: ConditionOf,
        other_host: Callable[[Link | None], str | None],
    ) -> None:
        self._parts = parts
        self._system = parts.system
        self._project_id = parts.project_id
        self._condition_of = condition_of
        self._other_host = other_host
        self._home = Path(parts.settings.home)
        self._root = Path(parts.settings.working_directory)
        self.behind: Behind | None = None

    @cached_property
    def occupying(self) -> Occupying:
        """Keeps hooks off what a turn of ours works on."""
        return Occupying(
            home=self._home,
            root=self._root,
            system=self._system,
            take_in=self._draining.drain_one,
        )

    @cached_property
    def _source(self) -> Published:
        parts = self._parts
        return Published(
            store=parts.store,
            settings=parts.settings,
            project_id=self._project_id,
            overview=Overview(parts.store, parts.system.is_dead),
            condition_of=self._condition_of,
            other_host=self._other_host,
            policy=parts.policy,
            redactor=parts.redactor,
        )

    @cached_property
    def _draining(self) -> Draining:
        parts = self._parts
        # Leases of their own: those of the project ask the hooks whether a session is in use.
        leases = Leases(parts.store, parts.system, parts.lease_times)
        return Draining(
            store=parts.store,
            system=parts.system,
            leases=leases,
            conversations=Conversations(parts.store, parts.system, leases),
            retrieval=Retrieval(
                parts.store,
                partial(read_stored, parts.environment),
                partial(read_asked, parts.environment),
                parts.redactor.redact,
            ),
        )

    @property
    def is_installed(self) -> bool:
        """Whether `upthread setup` has been run: without it nobody reads what is published."""
        return Path(installed_path(self._home)).exists()

    async def publish(self, workstreams: Collection[str] | None = None) -> None:
        """Write what hooks read, from the store; None: all of it, else what has moved.

        Raises StoreError when it cannot be written.
        """
        try:
            await self._system.in_thread(
                lambda: publish(
                    self._source, home=self._home, root=self._root, workstreams=workstreams
                )
            )
        except (BusyError, UnreadableError, OSError) as error:
            raise StoreError(
                f"what hooks read could not be written: {error}",
                hint="the record is as it was; free some space, or make its place writable for you,"
                " and do it again",
            ) from error

    async def published(self, work: Awaitable[Result], workstream: str | None = None) -> Result:
        """Return what the work returns; what hooks read of it is written again after it.

        It has moved one `workstream`, None: any. After work that failed too: it may have opened a
        session. Raises as `publish` does.
        """
        try:
            return await work
        finally:
            # Without set-up nobody reads it, and each turn would write files for nobody.
            if self.is_installed:
                # Also for one that is cancelled: what hooks read would be older than the turn.
                with self._system.shield():
                    await self.publish(None if workstream is None else {workstream})

    async def forgetting(
        self, work: Callable[[], Awaitable[Result]], workstream: str | None
    ) -> Result:
        """Return what the work returns; after it, erase a workstream's text where hooks read it.

        None is every workstream. What hooks saw is taken in before, so that nothing comes in
        afterwards; the files are written anew also where the work fails.
        """
        place = await self.catch_up()
        if place is None:
            return await work()
        try:
            return await work()
        finally:
            with self._system.shield():
                await self._system.in_thread(lambda: forget(place, workstream))
                await self.publish()

    async def catch_up(self) -> Place | None:
        """Take in what hooks saw; returns their place, None where nothing is published for them."""
        place = await self._system.in_thread(
            lambda: published_place(self._home, self._root, self._project_id)
        )
        if place is not None:
            await self.drain()
        return place

    async def take_in(self) -> Sequence[CallUnderWay]:
        """Take in what hooks saw and is over, before the store is read.

        Returns the calls that were under way before: one that ends meanwhile is among them, or is
        taken in. Looked for afterwards it would be neither.

        Nothing to take in costs one look into the spool. What another process is taking in now is
        waited for, as long as whoever looks would not notice, and then taken in all the same. What
        belongs to a conversation that a turn of ours holds is left to that turn, which takes it in
        itself. `behind` says what the record lacks after all.
        """
        place = await self._system.in_thread(
            lambda: published_place(self._home, self._root, self._project_id)
        )
        if place is None:
            return ()

        try:
            calls = await self._system.in_thread(lambda: self._calls(place))
            if calls:
                # So that a first call under way has a conversation to be shown in.
                await self._draining.open(calls)
            # What could not be read when it was taken in: looked for again whenever somebody looks.
            if await self._system.in_thread(lambda: has_unread(place)):
                with contextlib.suppress(LeaseHeldError):
                    await self.drain(lease_wait_s=0.0)
            holder = await self._take_in_from(place)
            left = await self._system.in_thread(lambda: behind(place))
            self.behind = left and structs.replace(left, holder=holder)
        except UnreadableError as error:
            raise StoreError(
                f"what hooks saw cannot be read: {error}",
                hint="move it away, and nothing else: the agents' own sessions have what was said",
            ) from error
        return calls

    async def _take_in_from(self, place: Place) -> str:
        """Take in what is over; returns who holds up one of its conversations, empty for nobody."""
        for _ in range(DRAINS_MAX):
            if await self._system.in_thread(lambda: behind(place)) is None:
                return ""
            try:
                if await self._system.in_thread(lambda: is_due(place)):
                    await self.drain(lease_wait_s=0.0)
            except LeaseHeldError as held:
                return held.holder
            await self._system.sleep(TAKEN_IN_LOOK_S)
        return await self._take_in_beside(place)

    async def _take_in_beside(self, place: Place) -> str:
        """Take in what a process holds up that may stand still.

        Its lock spares others the work; what keeps two apart is the lease of each conversation,
        and what either has taken in the other finds on record.
        """
        if not await self._system.in_thread(lambda: is_due(place)):
            return ""
        try:
            await self._recorded(place, lease_wait_s=0.0)
        except LeaseHeldError as held:
            return held.holder
        return ""

    async def _recorded(self, place: Place, *, lease_wait_s: float | None) -> int:
        """Take in what is over and publish what that moved; returns how many calls it was."""
        draining = self._draining
        draining.moved.clear()
        try:
            return await draining.drain(place, self._project_id, lease_wait_s=lease_wait_s)
        finally:
            # Also before a conversation that is held: nobody else knows what was taken in here.
            if draining.moved:
                with self._system.shield():
                    await self.publish(draining.moved)

    async def drain(self, *, lease_wait_s: float | None = None) -> int:
        """Take in what hooks saw, then publish; returns how many calls were taken in.

        One process at a time: another one's work is not waited for, it looks again before it ends.
        """
        taken = 0
        for _ in range(DRAINS_MAX):
            place = await self._system.in_thread(self._place)
            try:
                with place.drain_lock():
                    number = await self._recorded(place, lease_wait_s=lease_wait_s)
                    # Nothing to take in: what was asked for is that all is written again.
                    if not number and not taken:
                        await self.publish()
            except BusyError:
                return taken
            taken += number
            # Looked once more after the last that was found:
            # whoever left the work to us has put it there.
            if not number:
                return taken
        return taken

    async def use(self, workstream: str | None) -> InUse:
        """Say what this working tree works on, None for no longer anything."""
        name = None if workstream is None else parse_workstream(workstream)
        await self.publish()
        await self._system.in_thread(lambda: use(Place(str(self._home), str(self._root)), name))
        return await self.in_use()

    def _calls(self, place: Place) -> list[CallUnderWay]:
        return calls_under_way(place, self._project_id, self._system)

    async def in_use(self, environment: str | None = None) -> InUse:
        """Return which workstream this working tree is on, and why."""
        await self.publish()
        return await self._system.in_thread(lambda: self._in_use(environment))

    def _place(self) -> Place:
        """Return the place, published or not."""
        place = Place(str(self._home), str(self._root))
        # As if read: a drain also makes the files of a place that has none yet.
        place.known = {"project_id": self._project_id}
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
