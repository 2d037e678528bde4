"""Working trees: one role at a time writes in one; roles that only read are never in the way.

The lease is on the tree's real path on this host, for as long as a turn lasts. A role that writes
and delegates to another that writes stands still meanwhile: the inner call takes a lease below the
outer one's and commits under both, so that calls beside each other still exclude each other, and
an outer call that is taken over takes the inner ones with it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from upthread.core.types import ConversationId, Fence, Holder, Lease
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease, tree_lease
from upthread.runtime.system import System
from upthread.store.base import Store


class TreeRequest(Struct, frozen=True, kw_only=True):
    """Which tree, what for, and inside of which conversations, outermost first.

    `wait_s` is how long to wait for a living holder; None is for ever.
    """

    directory: str
    doing: str
    callers: tuple[ConversationId, ...] = ()
    wait_s: float | None = 0.0
    on_wait: Callable[[Lease], None] | None = None


class WorkingTrees:
    """Holds working trees for turns of roles that write."""

    def __init__(self, store: Store, system: System, leases: Leases) -> None:
        self._store = store
        self._system = system
        self._leases = leases

    @asynccontextmanager
    async def held(self, request: TreeRequest) -> AsyncGenerator[tuple[Fence, ...]]:
        """Hold a tree for a block; yields what must still be held for anything to be written.

        Raises LeaseHeldError while another role writes in it.
        """
        name, above = await self._system.in_thread(lambda: self._level(request))
        lease = LeaseRequest(
            name=name, doing=request.doing, wait_s=request.wait_s, on_wait=request.on_wait
        )
        async with self._leases.held(lease) as fence:
            yield (*above, fence)

    def _level(self, request: TreeRequest) -> tuple[str, tuple[Fence, ...]]:
        """Return the lease to take, and those of the callers that hold the tree. Blocking."""
        host = self._system.this_process("").host
        name = tree_lease(host, request.directory)
        above: list[Fence] = []
        for caller in request.callers:
            lease = self._store.lease(name)
            # Callers come from the environment: only one that
            # really holds the tree opens a way below it.
            if lease is None or lease.holder is None or lease.holder != self._holder(caller):
                continue
            above.append(Fence(name=name, token=lease.token))
            name = tree_lease(host, request.directory, below=caller)
        return name, tuple(above)

    def _holder(self, caller: ConversationId) -> Holder | None:
        """Return who holds a conversation; whoever holds its tree for the same turn is the same."""
        conversation = self._store.conversation(caller)
        if conversation is None:
            return None
        key = conversation.key
        lease = self._store.lease(conversation_lease(key.project_id, key.address))
        return lease.holder if lease else None
