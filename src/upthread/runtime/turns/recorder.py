"""The recorder: what the agent says goes into the store in batches, while it is said.

One commit a batch, one thread hop a commit. `take` is awaited by the adapter, so a store that is
slow slows the agent down instead of filling memory. A commit that fails ends the turn: a lost write
is a failure, never a log line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct

from upthread.agents.base import PermissionRequest, PromptResult
from upthread.core.commands import Write
from upthread.core.events import AgentEvent
from upthread.core.names import shown
from upthread.core.quotas import TurnQuota
from upthread.core.turns.recorder import Recorder, child_named
from upthread.core.types import Durability, Fence, Outcome, ToolCallPart, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.runtime.system import System
from upthread.runtime.turns.examination import Examiner
from upthread.store.base import Store

BATCH_WRITES_MAX = 64
FLUSH_EVERY_S = 0.5
"""Text that is still running is recorded at least this often."""


class Answer(Struct, kw_only=True):
    """How a prompt ended. `writes` are what is recorded of it and not committed yet."""

    result: PromptResult
    writes: tuple[Write, ...]
    prompt_characters: int
    duration_s: float
    late_events: int


class Recording:
    """Feeds one turn's events to its recorder and commits what is ready.

    `is_own` says whether a session may be a sub-agent's of this conversation: that of another
    conversation may not, whatever the agent says. It blocks.
    """

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        recorder: Recorder,
        examiner: Examiner,
        fences: Sequence[Fence],
        on_event: Callable[[AgentEvent], None],
        is_own: Callable[[UpstreamSessionId], bool],
    ) -> None:
        self._store = store
        self._system = system
        self._recorder = recorder
        self._examiner = examiner
        self._fences = tuple(fences)
        self._on_event = on_event
        self._quota = TurnQuota()
        self._is_own = is_own
        self._own: set[UpstreamSessionId] = set()
        self._pending: list[Write] = []
        self._is_dirty = False
        self._lock = anyio.Lock()

    async def take(self, event: AgentEvent) -> None:
        """Record one event; commits when a batch is full or a write is to be synced.

        Raises QuotaExceededError for one that goes past a limit; what came before it is kept.
        """
        # Before it is recorded, and for every adapter alike (ADR 63).
        self._quota.take(event)
        await self._require_own_child(event)
        self._recorder.record(event, at_ms=self._system.now_ms())
        self._is_dirty = True
        self._on_event(event)
        writes = self._recorder.drain()
        self._take_in(writes)
        self._quota.take_parts(len(writes))  # last: what was drained is kept in any case
        # What is to survive a loss of power waits for no batch: its action may run at any moment.
        is_urgent = any(write.durability is Durability.SYNCED for write in self._pending)
        if is_urgent or len(self._pending) >= BATCH_WRITES_MAX:
            await self._commit()

    async def _require_own_child(self, event: AgentEvent) -> None:
        child = child_named(event)
        # Asked once a session, since each time costs a hop to the store's thread.
        if child is None or child in self._own:
            return
        if not await self._system.in_thread(lambda: self._is_own(child)):
            raise held_elsewhere(child, "a sub-agent's")
        self._own.add(child)

    async def keep_flushing(self) -> None:
        """Commit what is there, and the text still running, at every interval. Runs for ever."""
        while True:
            await anyio.sleep(FLUSH_EVERY_S)
            if self._is_dirty:
                self._take_in(self._recorder.flush())
                await self._commit()

    async def intend(self, request: PermissionRequest) -> None:
        """Commit an action that is about to be allowed, synced, with all that came before it."""
        self._recorder.intend(
            request.upstream_session_id,
            ToolCallPart(
                call_id=request.call_id or "",
                title=request.title,
                tool_kind=request.tool_kind,
                arguments=request.arguments,
                locations=request.locations,
            ),
            at_ms=self._system.now_ms(),
        )
        self._take_in(self._recorder.drain())
        await self._commit()

    def close(self, *, is_whole: bool = True) -> tuple[Write, ...]:
        """Return the writes that are left, for the commit that ends the turn; then `examined`.

        Calls without an end get an unknown one if it `is_whole`, else they stay open.
        """
        now_ms = self._system.now_ms()
        recorder = self._recorder
        self._take_in(recorder.finish(at_ms=now_ms) if is_whole else recorder.flush(is_end=True))
        left = tuple(self._pending)
        self._pending.clear()
        # Handed over and not committed: one synced commit has them and the turn's end (ADR 4).
        return left

    def examined(self) -> Sequence[Write]:
        """Return what keeps the files that the writes which are left tell of. Blocking."""
        return self._examiner.look(at_ms=self._system.now_ms()) if self._examiner.is_due else ()

    def _take_in(self, writes: Sequence[Write]) -> None:
        self._examiner.notice(writes)
        self._pending += writes

    async def _commit(self) -> None:
        # Shielded: a batch that is taken out of `_pending` is written or raises, never dropped.
        with anyio.CancelScope(shield=True):
            # The flushing task and the prompt's events meet here: batches keep their order.
            async with self._lock:
                await self._commit_batch()

    async def _commit_batch(self) -> None:
        batch = tuple(self._pending)
        self._pending.clear()
        self._is_dirty = False
        if batch:
            await self._system.in_thread(lambda: self._write(batch))

    def _write(self, batch: tuple[Write, ...]) -> None:
        """Commit a batch, and in the same commit the files it says were examined. Blocking."""
        # With what names them: a crash between two commits
        # would leave files read and never examined.
        looked = self._examiner.look(at_ms=self._system.now_ms())
        self._store.commit((*batch, *looked), fences=self._fences)


def held_elsewhere(session: UpstreamSessionId, named_as: str, holder: str = "") -> UpstreamError:
    """Return the error for an agent that names a session which another conversation holds."""
    return UpstreamError(
        f"the agent named {shown(session)} as {named_as}, and {holder or 'another conversation'} "
        "holds that session",
        outcome=Outcome.UNKNOWN,
        hint="it was not used: one upstream session has one conversation",
        upstream_session_id=session,
    )
