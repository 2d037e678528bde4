"""Lost workers: who is dead or silent, and what is done about their jobs.

One loop a worker; of several, one at a time recovers. A worker on this host is known to be dead by
its pid, at once. Of others the server's clock says how long they have been silent, so that nobody
has to watch them: whoever takes a run over knows it already, and takes its lease without waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
from msgspec import structs

from upthread.core.types import Holder
from upthread.errors import StoreError
from upthread.runtime.system import System, is_dead
from upthread.store.postgres.workers import SILENT_AFTER_MS, KnownWorker, Recovered, WorkerTable

RECOVER_EVERY_S: Final = 0.5

logger = logging.getLogger(__name__)


class LostWorkers:
    """Knows which workers are lost. `is_lost` may be asked from any thread."""

    def __init__(self) -> None:
        self._lost: frozenset[Holder] = frozenset()

    def is_lost(self, holder: Holder) -> bool:
        """Return whether a lease's holder is dead, or a worker that has fallen silent."""
        # Without what it is doing: a lease names that, and a registration does not.
        return is_dead(holder) or structs.replace(holder, doing="") in self._lost

    def see(self, workers: tuple[KnownWorker, ...]) -> list[int]:
        """Learn how the workers stand; returns the ids of those that are known to be dead."""
        dead = [each.worker_id for each in workers if is_dead(each.registration.process)]
        silent = [each for each in workers if each.worker_id in dead or each.is_silent]
        # A worker that had to take a new place is there twice, and lives.
        living = {each.registration.process for each in workers if each not in silent}
        self._lost = frozenset(each.registration.process for each in silent) - living
        return dead


async def recover_for_ever(
    table: WorkerTable, lost: LostWorkers, system: System, recovered: Callable[[Recovered], None]
) -> None:
    """Look after lost workers and lost jobs until cancelled."""
    while True:
        try:
            dead = lost.see(await system.in_thread(table.workers))
            done = await system.in_thread(
                partial(table.recover, silent_after_ms=SILENT_AFTER_MS, dead=dead)
            )
        except StoreError as error:
            # The database is away: what it is for is looked at again when it is back.
            logger.warning("lost jobs cannot be looked for: %s", error)
        else:
            if done.retried or done.freed or done.enqueued:
                recovered(done)
        await anyio.sleep(RECOVER_EVERY_S)
