"""The claim on a session: one uses it at a time, a turn of ours or a plug-in's call.

Hooks know no lease: they claim a conversation in its binding. So whoever leases one claims it there
as well, and first takes in what calls before have left in the spool. Where nothing is published for
hooks, nothing is done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from upthread.core.lazy_dataclass import replace
from upthread.core.types import ConversationKey, Lease
from upthread.errors import LeaseHeldError
from upthread.runtime.bindings import files
from upthread.runtime.bindings.claims import OURS, claim, is_claimed_by_another, is_of_call
from upthread.runtime.bindings.light_json import number_in, object_in, text_in
from upthread.runtime.bindings.places import Place, published_place, read_binding
from upthread.runtime.hooked.spooled import behind
from upthread.runtime.lease import LeaseRequest, held_error
from upthread.runtime.system import System

WATCH_S: Final = 0.25
LOCK_WAIT_S: Final = 10.0
WORDS_WAIT_S: Final = 10.0
"""How long the words of a call that has ended are waited for."""

TakeIn = Callable[[Place, ConversationKey], Awaitable[bool]]
"""Takes in what is in the spool of a conversation; returns whether nothing more is coming."""


class Occupying:
    """Claims conversations where hooks look."""

    def __init__(self, *, home: Path, root: Path, system: System, take_in: TakeIn) -> None:
        self._home = home
        self._root = root
        self._system = system
        self._take_in = take_in

    @asynccontextmanager
    async def held(self, request: LeaseRequest, key: ConversationKey) -> AsyncGenerator[None]:
        """Keep hooks off a conversation for a block.

        Raises LeaseHeldError while a call uses it, or one that has ended is not on record.
        """
        place = await self._system.in_thread(
            lambda: published_place(self._home, self._root, key.project_id)
        )
        if place is None:
            yield
            return
        import anyio  # noqa: PLC0415  # a lease is claimed on an event loop, a look needs none

        token = self._system.new_id("clm")
        await self._claim(place, request, key, token)
        try:
            # Turns stand in the order they were decided in, so words that are on their
            # way come first; one who never brings them holds nobody up for ever.
            with anyio.move_on_after(WORDS_WAIT_S):
                await self._settle(place, key)
            await self._check_order(place, request, key)
            yield
        finally:
            # Also for a caller that is cancelled: hooks
            # would find it in use until this process ends.
            with self._system.shield():
                await self._system.in_thread(lambda: _free(place, key, token))

    async def _claim(
        self, place: Place, request: LeaseRequest, key: ConversationKey, token: str
    ) -> None:
        started_s = self._system.monotonic_s()
        told = False
        while True:
            used = await self._system.in_thread(lambda: self._try(place, request, key, token))
            if used is None:
                return
            waited_s = self._system.monotonic_s() - started_s
            if request.wait_s is not None and waited_s >= request.wait_s:
                raise held_error(request, used)
            if request.on_wait and not told:
                request.on_wait(used)
                told = True
            # Looked at again and again: a binding is a file, and nobody tells of a change.
            await self._system.sleep(WATCH_S)

    async def _settle(self, place: Place, key: ConversationKey) -> None:
        while True:
            if await self._take_in(place, key):
                return
            await self._system.sleep(WATCH_S)

    async def _check_order(self, place: Place, request: LeaseRequest, key: ConversationKey) -> None:
        """Raise LeaseHeldError while a call has ended that is not on record: it comes first."""
        left = await self._system.in_thread(lambda: behind(place, key))
        if left is None:
            return
        pids = ", ".join(map(str, left.takers)) or "unknown"
        holder = f"`upthread drain` (pid {pids}), which has words of its last call"
        raise LeaseHeldError(
            f"{key.address} is held by {holder}",
            holder=holder,
            hint=left.cure,
            lease=request.name,
        )

    def _try(
        self, place: Place, request: LeaseRequest, key: ConversationKey, token: str
    ) -> Lease | None:
        """Claim a conversation; returns who has it, as of a lease, None when it is ours now."""
        path = place.binding_path(key.workstream, key.role, key.slot)
        ours = self._system.this_process(request.doing)
        with place.lock(wait_s=LOCK_WAIT_S):
            binding = read_binding(path)
            if is_claimed_by_another(binding, token):
                held = object_in(binding, "claim")
                theirs = replace(
                    ours,
                    pid=number_in(held, "pid"),
                    started_at_ticks=number_in(held, "ticks"),
                    doing=text_in(held, "doing") or f"a sub-agent of {text_in(held, 'agent')}",
                )
                return Lease(name=request.name, token=0, heartbeat=0, holder=theirs)
            # In the background, so that no main session's next prompt sets it free.
            made = claim(agent=OURS, session="", call_id=token, pid=ours.pid, is_background=True)
            named = {"workstream": key.workstream, "role": key.role, "slot": key.slot}
            files.replace(path, {**binding, **named, "claim": {**made, "doing": request.doing}})
        return None


def _free(place: Place, key: ConversationKey, token: str) -> None:
    path = place.binding_path(key.workstream, key.role, key.slot)
    with place.lock(wait_s=LOCK_WAIT_S):
        binding = read_binding(path)
        if is_of_call(binding, token):
            files.replace(path, {**binding, "claim": None})
