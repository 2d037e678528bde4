"""Leases: who may write to a conversation or a workstream, and taking over from the dead.

On one host a holder that has died is seen at once, by pid, start time and boot. A holder that is
stopped or far away is judged by its heartbeat alone, by the observer's own clock. Whoever is taken
over learns it at the next heartbeat or commit, and stops its agent. One role at a time writes in a
working tree.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.commands import RecordAct
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
)
from upthread.errors import FencedError, LeaseHeldError, UsageError
from upthread.runtime.system import System, host_name
from upthread.store.base import Store
from upthread.tasks import task_group

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

    A holder on another host is watched until its heartbeat moves or the lease is stale, whatever
    `wait_s`: a container that has died would be waited for by nobody, and hold it for ever.

    `on_taken` is called in the thread that took the lease, at once: what is looked at under it
    costs no hop of its own. Where it raises, the lease is given back.
    """

    name: str
    doing: str
    wait_s: float | None = 0.0
    on_wait: Callable[[Lease], None] | None = None
    on_taken: Callable[[Fence], None] | None = None


class Leases(Struct, frozen=True):
    """Acquires, keeps alive and gives back."""

    store: Store
    system: System
    times: LeaseTimes = LeaseTimes()

    @asynccontextmanager
    async def held(self, request: LeaseRequest) -> AsyncGenerator[Fence]:
        """Hold a lease for a block. Raises LeaseHeldError, and FencedError when taken over."""
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
            with self.system.shield():
                await self.system.in_thread(lambda: self._give_back(fence))

    async def _acquire(self, request: LeaseRequest) -> Fence:
        started_s = self.system.monotonic_s()
        seen: Lease | None = None
        seen_at_s = started_s
        told = moved = False
        while True:
            # An agent's process shows no heartbeat: only its death frees what it holds (ADR 10).
            is_beating = seen is not None and (not seen.holder or seen.holder.call is None)
            stood_still_s = self.system.monotonic_s() - seen_at_s
            is_stale = is_beating and stood_still_s >= self.times.stale_after_s
            stale = seen if is_stale else None
            lease, is_ours = await self._try(request, stale)
            if is_ours:
                return lease.fence
            now_s = self.system.monotonic_s()
            # Counted from when we saw it move, by our own
            # clock: those of two machines differ (ADR 10).
            if not seen or not _same(seen, lease):
                moved = seen is not None
                seen, seen_at_s = lease, now_s
            # Whether a holder on another host lives, only its heartbeat tells.
            is_living = moved or not _may_have_died_elsewhere(lease)
            if request.wait_s is not None and now_s - started_s >= request.wait_s and is_living:
                raise held_error(request, lease)
            if request.on_wait and not told:
                request.on_wait(lease)
                told = True
            await self.system.sleep(self.times.watch_s)

    async def _try(self, request: LeaseRequest, stale: Lease | None) -> tuple[Lease, bool]:
        """Return the lease, and whether it is ours now."""
        holder = self.system.this_process(request.doing)

        def attempt() -> tuple[Lease, bool]:
            while True:
                current = self.store.lease(request.name)
                may_take = current is not None and (
                    not current.holder
                    or self.system.is_dead(current.holder)
                    or _is_left_over(current, holder)
                    or (stale is not None and _same(stale, current))
                )
                if current and not may_take:
                    return current, False
                # The store takes it over only as it was seen
                # here: one that beats meanwhile stays (S13).
                seen = current if current and current.holder else None
                ours = self.store.acquire_lease(request.name, holder, seen=seen)
                if ours:
                    # Here and not later: another task of this process would take it for left over.
                    _HELD_HERE.add((ours.name, ours.token))
                    taken.append(ours)
                    # What is looked at under it comes first: where that fails, it is given back.
                    try:
                        if request.on_taken:
                            request.on_taken(ours.fence)
                    except BaseException:
                        self._give_back(ours.fence)
                        raise
                    return ours, True

        taken: list[Lease] = []
        try:
            return await self.system.in_thread(attempt)
        except BaseException:
            # Taken, and the caller gave up: unknown here it counts as left over, and can be taken.
            _HELD_HERE.difference_update((lease.name, lease.token) for lease in taken)
            raise

    async def _beat(self, fence: Fence) -> None:
        while True:
            await self.system.sleep(self.times.heartbeat_s)
            await self.system.in_thread(lambda: self.store.heartbeat(fence))  # may be fenced

    def _give_back(self, fence: Fence) -> None:
        # Where somebody else holds it by now there is nothing left to give back.
        with suppress(FencedError):
            self.store.release_lease(fence)

    # --- working trees -----------------------------------------------------------------------

    async def tree_level(
        self, directory: str, callers: Sequence[ConversationId]
    ) -> tuple[str, tuple[Fence, ...]]:
        """Return the lease that a role takes to write in a tree, and the fences above that lease.

        The lease is on the tree's real path on this host, for as long as a turn lasts. A role that
        writes and delegates to another that writes stands still meanwhile: the inner call takes a
        lease below the outer one's and commits under both, so that calls beside each other still
        exclude each other, and an outer call that is taken over takes the inner ones with it. Roles
        that only read are never in the way. `callers` are the outer calls, the outermost first.
        """
        host = self.system.this_process("").host
        # A call from outside of any conversation has nobody above it to be looked up.
        if not callers:
            return tree_lease(host, directory), ()
        return await self.system.in_thread(lambda: self._level(host, directory, callers))

    def _level(
        self, host: str, directory: str, callers: Sequence[ConversationId]
    ) -> tuple[str, tuple[Fence, ...]]:
        name = tree_lease(host, directory)
        above: list[Fence] = []
        for caller in callers:
            lease = self.store.lease(name)
            # Callers come from the environment: only one that
            # really holds the tree opens a way below it.
            if not lease or not lease.holder or lease.holder != self._holder(caller):
                continue
            above.append(Fence(name=name, token=lease.token))
            name = tree_lease(host, directory, below=caller)
        return name, tuple(above)

    def _holder(self, caller: ConversationId) -> Holder | None:
        """Return who holds a conversation; whoever holds its tree for the same turn is the same."""
        conversation = self.store.conversation(caller)
        if not conversation:
            return None
        lease = self.store.lease(conversation_lease(conversation.key))
        return lease.holder if lease else None


_HELD_HERE: set[tuple[str, int]] = set()
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
        if not fenced or others:
            raise
        first: BaseException = fenced
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from group


def _same(stale: Lease, current: Lease) -> bool:
    return (stale.token, stale.heartbeat) == (current.token, current.heartbeat)


def _may_have_died_elsewhere(lease: Lease) -> bool:
    holder = lease.holder
    return holder is not None and holder.call is None and holder.host != host_name()


def held_error(request: LeaseRequest, lease: Lease) -> LeaseHeldError:
    """Return the error that names a lease's holder, and what next."""
    holder = lease.holder.in_words() if lease.holder else "nobody any more"
    return LeaseHeldError(
        f"{request.name} is held by {holder}",
        holder=holder,
        hint=(
            "wait for it (`tell` and `run`: --wait); a holder that has died is taken over at once, "
            f"one that has stopped answering after {STALE_AFTER_S:.0f} s"
        ),
        lease=request.name,
    )


def cure_of(lease: Lease | None, address: str) -> str:
    """Return how a person frees a conversation from an agent on another host, empty for others.

    Such a lease shows no heartbeat, and nobody here sees the agent's process (ADR 10).
    """
    holder = lease.holder if lease else None
    if not holder or holder.call is None or holder.host == host_name():
        return ""
    return f"if {holder.host} is gone: upthread reset {address} --turn"


def holder_in_words(lease: Lease) -> str:
    """Return who holds a conversation's lease, and how a person frees it where only they can."""
    words = lease.holder.in_words() if lease.holder else ""
    return "; ".join(filter(None, (words, cure_of(lease, lease.name.split(" ", 2)[2]))))


def free(store: Store, system: System, conversation: Conversation, *, by_user: str) -> None:
    """Take a conversation from an agent on another host, because a person says so. Blocking.

    The open turn stays: it is an interrupted turn from then on. Raises UsageError for any other
    holder, and ConflictError where somebody else was quicker.
    """
    address, lease = conversation.key.address, store.lease(lease_name_of(conversation))
    if not lease or not cure_of(lease, address):
        raise UsageError(
            f"no agent on another host works in {address}",
            hint=f"to see who does: upthread show {address}",
            address=address,
        )
    act = RecordAct(
        conversation_id=conversation.conversation_id,
        what="freed",
        by_user=by_user,
        recorded_at_ms=system.now_ms(),
        detail=lease.holder.in_words() if lease.holder else "",
    )
    mine = LeaseClaim(name=lease.name, holder=system.this_process("reset"), seen=lease)
    store.commit((act,), take=(mine,), give=(mine.fence,))


def conversation_lease(key: ConversationKey) -> str:
    """Return the name of the lease that a turn holds. A name is data, never a path."""
    return f"conversation {key.project_id} {key.address}"


def lease_name_of(conversation: Conversation) -> str:
    """Return the name of a conversation's lease. Those without a slot share their address."""
    key = conversation.key
    if key.slot == CHILD_SLOT:
        return f"conversation {key.project_id} {conversation.conversation_id}"
    return conversation_lease(key)


def conversation_request(key: ConversationKey, verb: str) -> LeaseRequest:
    """Return the request for a conversation's lease, to do something else than a turn."""
    return LeaseRequest(name=conversation_lease(key), doing=f"{verb} {key.address}")


def tree_lease(host: str, directory: str, below: str = "") -> str:
    """Return the name of the lease that a writing role holds on a working tree of a host.

    `below` is a conversation that holds the tree and waits for this one, empty where none does.
    """
    return f"working tree {host} {directory}" + (f" below {below}" if below else "")


def workstream_lease(project_id: str, workstream: str) -> str:
    """Return the name of the lease that a run holds."""
    return f"workstream {project_id} {workstream}"
