"""Leases: who may write to a conversation or a workstream, and taking over from the dead.

On one host a holder that has died is seen at once, by pid, start time and boot. A holder that is
stopped or far away is judged by its heartbeat alone, by the observer's own clock. Whoever is taken
over learns it at the next heartbeat or commit, and stops its agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from typing import Final, Protocol

from msgspec import Struct

from upthread.core.types import ConversationKey, Fence, Holder, Lease
from upthread.errors import FencedError, LeaseHeldError
from upthread.runtime.system import System
from upthread.store.base import Store

HEARTBEAT_S = 2.0
STALE_AFTER_S = 10.0
WATCH_S = 0.25
"""How often a waiting process looks at a lease it does not hold."""


class LeaseTimes(Struct, frozen=True, kw_only=True):
    """Times in seconds; the defaults are for processes of one host (ADR 10)."""

    heartbeat_s: float = HEARTBEAT_S
    stale_after_s: float = STALE_AFTER_S
    watch_s: float = WATCH_S


class LeaseRequest(Struct, frozen=True, kw_only=True):
    """Which lease, what for, and how long to wait for a living holder; None is for ever.

    `occupies` is the conversation whose session is used meanwhile, None where none is.
    """

    name: str
    doing: str
    wait_s: float | None = 0.0
    on_wait: Callable[[Lease], None] | None = None
    occupies: ConversationKey | None = None


class Occupies(Protocol):
    """Keeps those off a conversation that know no lease; `occupying.Occupying`."""

    def held(
        self, request: LeaseRequest, key: ConversationKey
    ) -> AbstractAsyncContextManager[None]:
        """Hold a conversation for a block. Raises LeaseHeldError."""
        ...


class Leases:
    """Acquires, keeps alive and gives back."""

    def __init__(
        self,
        store: Store,
        system: System,
        times: LeaseTimes | None = None,
        *,
        occupying: Occupies | None = None,
    ) -> None:
        self._store = store
        self._system = system
        self._times = times or LeaseTimes()
        self._occupying = occupying

    @asynccontextmanager
    async def held(self, request: LeaseRequest) -> AsyncGenerator[Fence]:
        """Hold a lease for a block. Raises LeaseHeldError, and FencedError when taken over."""
        async with AsyncExitStack() as stack:
            # First where hooks look, and then the lease: they know of no lease (ADR 44).
            if request.occupies is not None and self._occupying is not None:
                occupied = self._occupying.held(request, request.occupies)
                await stack.enter_async_context(occupied)
            yield await stack.enter_async_context(self._leased(request))

    @asynccontextmanager
    async def _leased(self, request: LeaseRequest) -> AsyncGenerator[Fence]:
        # Before anything is taken: a heartbeat is a task of its own.
        self._system.require_loop()
        from upthread.tasks import task_group  # noqa: PLC0415  # who only looks loads no loop

        fence = await self._acquire(request)
        try:
            with _one_fenced_error():
                async with task_group() as tasks:
                    tasks.start_soon(self._beat, fence)
                    yield fence
                    tasks.cancel_scope.cancel()
        finally:
            # First of all: should the release fail (full disk), this process can take it again.
            _HELD_HERE.discard((fence.name, fence.token))
            await self._release(fence)

    async def _acquire(self, request: LeaseRequest) -> Fence:
        started_s = self._system.monotonic_s()
        seen: Lease | None = None
        seen_at_s = started_s
        told = False
        while True:
            lease, is_ours = await self._try(request, seen if self._is_stale(seen_at_s) else None)
            if is_ours:
                return Fence(name=lease.name, token=lease.token)
            now_s = self._system.monotonic_s()
            # Counted from when we saw it move, by our own
            # clock: those of two machines differ (ADR 10).
            if seen is None or (lease.token, lease.heartbeat) != (seen.token, seen.heartbeat):
                seen, seen_at_s = lease, now_s
            if request.wait_s is not None and now_s - started_s >= request.wait_s:
                raise held_error(request, lease)
            if request.on_wait and not told:
                request.on_wait(lease)
                told = True
            await self._system.sleep(self._times.watch_s)

    def _is_stale(self, seen_at_s: float) -> bool:
        return self._system.monotonic_s() - seen_at_s >= self._times.stale_after_s

    async def _try(self, request: LeaseRequest, stale: Lease | None) -> tuple[Lease, bool]:
        """Return the lease and whether it is ours now."""
        holder = self._system.this_process(request.doing)

        def attempt() -> tuple[Lease, bool]:
            while True:
                current = self._store.lease(request.name)
                may_take = current is not None and (
                    current.holder is None
                    or self._system.is_dead(current.holder)
                    or _is_left_over(current, holder)
                    or (stale is not None and _same(stale, current))
                )
                if current is not None and not may_take:
                    return current, False
                # The store takes it over only as it was seen
                # here: one that beats meanwhile stays (S13).
                seen = current if current is not None and current.holder is not None else None
                ours = self._store.acquire_lease(request.name, holder, seen=seen)
                if ours is not None:
                    # Here and not later: another task of this process would take it for left over.
                    _HELD_HERE.add((ours.name, ours.token))
                    taken.append(ours)
                    return ours, True

        taken: list[Lease] = []
        try:
            return await self._system.in_thread(attempt)
        except BaseException:
            # Taken, and the caller gave up: unknown here it counts as left over, and can be taken.
            _HELD_HERE.difference_update((lease.name, lease.token) for lease in taken)
            raise

    async def _beat(self, fence: Fence) -> None:
        while True:
            await self._system.sleep(self._times.heartbeat_s)
            await self._system.in_thread(lambda: self._store.heartbeat(fence))  # may be fenced

    async def _release(self, fence: Fence) -> None:
        with self._system.shield():
            try:
                await self._system.in_thread(lambda: self._store.release_lease(fence))
            # Somebody else holds it by now: there is nothing left to give back.
            except FencedError:
                return


_HELD_HERE: Final[set[tuple[str, int]]] = set()
"""What this process holds, by lease name and token; a lease in its name that is not here is not
held by anybody: its release could not be written."""


def _is_left_over(current: Lease, ourselves: Holder) -> bool:
    named = current.holder
    is_ours = named is not None and replace(named, doing="") == replace(ourselves, doing="")
    return is_ours and (current.name, current.token) not in _HELD_HERE


@contextmanager
def _one_fenced_error() -> Generator[None]:
    """Raise one FencedError where several leases were lost at once: the caller's cure is one."""
    try:
        yield
    except BaseExceptionGroup as group:
        fenced, others = group.split(FencedError)
        if fenced is None or others is not None:
            raise
        raise _first(fenced) from group


def _first(group: BaseExceptionGroup[FencedError]) -> FencedError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _same(stale: Lease, current: Lease) -> bool:
    return (stale.token, stale.heartbeat) == (current.token, current.heartbeat)


def held_error(request: LeaseRequest, lease: Lease) -> LeaseHeldError:
    """Return the error that names a lease's holder, and what next."""
    holder = lease.holder.in_words() if lease.holder else "nobody any more"
    return LeaseHeldError(
        f"{request.name} is held by {holder}",
        holder=holder,
        hint=(
            "wait for it with --wait; a holder that has died is taken over at once, one that has "
            f"stopped answering after {STALE_AFTER_S:.0f} s"
        ),
        lease=request.name,
    )


def conversation_lease(project_id: str, address: str) -> str:
    """Return the name of the lease that a turn holds. A name is data, never a path."""
    return f"conversation {project_id} {address}"


def tree_lease(host: str, directory: str, below: str = "") -> str:
    """Return the name of the lease that a writing role holds on a working tree of a host.

    `below` is a conversation that holds the tree and waits for this one, empty where none does.
    """
    return f"working tree {host} {directory}" + (f" below {below}" if below else "")


def workstream_lease(project_id: str, workstream: str) -> str:
    """Return the name of the lease that a run holds."""
    return f"workstream {project_id} {workstream}"
