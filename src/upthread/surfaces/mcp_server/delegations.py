"""Delegations under way: they go on while a client waits, and are asked for by a handle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from upthread.client import Project, TellOptions
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.runtime.conversation import WhenBusy
from upthread.runtime.live_turn import Listener, TurnResult, TurnStarted
from upthread.runtime.system import new_id
from upthread.surfaces.cli.shapes import told_status
from upthread.surfaces.cli.words import started_line

ANSWER_S_MAX: Final = 25.0
"""How long a call is held open; clients give up on one after 30 s or a minute."""

UNDERWAY_MAX: Final = 64
KEPT_MAX: Final = 256
"""How many delegations are known by their handle, the newest."""

REPLY_CHARACTERS_MAX: Final = 100_000


@dataclass(frozen=True, kw_only=True)  # no slots: the SDK reads defaults off the class
class Delegated:
    """How a delegation stands. `status` is running, done, parked, failed or refused.

    `line` says which decision was taken and why; show it to the person.
    """

    handle: str
    status: str
    line: str
    reply: str = ""
    detail: str = ""
    upstream_session_id: str = ""


@dataclass(slots=True)
class _Delegation:
    started: TurnStarted | None = None
    result: TurnResult | None = None
    error: UpthreadError | None = None
    over: anyio.Event = field(default_factory=anyio.Event)


class Delegations:
    """Runs turns in a task group of the server's, so that none ends with the call that began it."""

    def __init__(
        self, project: Project, tasks: TaskGroup, *, answer_s_max: float = ANSWER_S_MAX
    ) -> None:
        self._project = project
        self._tasks = tasks
        self._answer_s_max = answer_s_max
        self._known: dict[str, _Delegation] = {}

    async def begin(
        self, address: str, prompt: str, *, is_fresh: bool, when_busy: WhenBusy
    ) -> Delegated:
        """Delegate, and return how it stands when it is over or the time for an answer is."""
        underway = sum(not each.over.is_set() for each in self._known.values())
        if underway >= UNDERWAY_MAX:
            raise UsageError(f"{underway} delegations are under way", hint="wait for one of them")
        handle, delegation = new_id("dlg"), _Delegation()
        self._known[handle] = delegation
        self._forget_oldest()
        listener = Listener(started=lambda started: setattr(delegation, "started", started))
        options = TellOptions(is_fresh=is_fresh, when_busy=when_busy, listener=listener)
        self._tasks.start_soon(self._run, delegation, address, prompt, options)
        return await self.wait(handle)

    async def wait(self, handle: str) -> Delegated:
        """Return how a delegation stands, after waiting for its end. Raises NotFoundError."""
        delegation = self._known.get(handle)
        if delegation is None:
            raise NotFoundError(
                f"there is no delegation {handle[:60]!r} in this server",
                hint="its conversation is kept all the same: see `status`",
            )
        with anyio.move_on_after(self._answer_s_max):
            await delegation.over.wait()
        return _stands(handle, delegation)

    async def _run(
        self, delegation: _Delegation, address: str, prompt: str, options: TellOptions
    ) -> None:
        try:
            delegation.result = await self._project.tell(address, prompt, options)
        except UpthreadError as error:
            delegation.error = error
        finally:
            delegation.over.set()

    def _forget_oldest(self) -> None:
        over = [handle for handle, each in self._known.items() if each.over.is_set()]
        for handle in over[: max(0, len(self._known) - KEPT_MAX)]:
            del self._known[handle]


def _stands(handle: str, delegation: _Delegation) -> Delegated:
    started = delegation.started
    line = started_line(started) if started else ""
    session = started.upstream_session_id if started else ""
    if delegation.error is not None:
        refused = str(delegation.error)
        return Delegated(handle=handle, status="refused", line=line or refused, detail=refused)
    result = delegation.result
    if result is None:
        return Delegated(handle=handle, status="running", line=line, upstream_session_id=session)
    return Delegated(
        handle=handle,
        status=told_status(result),
        line=line,
        reply=result.reply[:REPLY_CHARACTERS_MAX],
        detail=result.parked.detail if result.parked else result.detail,
        upstream_session_id=result.upstream_session_id or session,
    )
