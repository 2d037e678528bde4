"""The messages of one agent in the order it wrote them.

The ACP library matches answers to requests, but runs every notification as a task of its own: in
no order, and without ever slowing the agent down. So notifications never reach it. They are handed
to `on_notification` here and awaited before the next line is read; a full pipe then stops an agent
that is faster than we are. Lines that cannot be read go the same way, raw.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from upthread.agents._json import Unreadable, write_frame
from upthread.agents._process import ChildProcess
from upthread.agents.acp.wire import Message, read_frame
from upthread.errors import QuotaExceededError

OnNotification: TypeAlias = Callable[[Message | Unreadable], Awaitable[None]]

UNREADABLE_SHOWN_CHARACTERS: Final = 200


class ProcessTransport:
    """A `Transport` of the ACP library over our own child process."""

    def __init__(self, child: ChildProcess, *, on_notification: OnNotification) -> None:
        self._child = child
        self._on_notification = on_notification
        self.first_unreadable = ""
        self.violation: QuotaExceededError | None = None

    async def send(self, message: dict[str, Any]) -> None:
        await self._child.write_line(write_frame(message))

    async def receive(self) -> dict[str, Any] | None:
        """Return the next request or answer; None when there will be no more."""
        while True:
            try:
                line = await self._child.read_line()
                frame = None if line is None else read_frame(line)
                if isinstance(frame, Message) and frame.is_request:
                    self._child.allowance.take_request()
            except QuotaExceededError as violation:
                # To the library the agent has ended; by which limit, is said where its end is told.
                self.violation = violation
                return None
            if line is None:
                return None
            if isinstance(frame, Message) and (frame.is_request or frame.method is None):
                return frame.content
            if frame is not None:
                self._note_unreadable(frame)
                await self._on_notification(frame)

    def _note_unreadable(self, frame: Message | Unreadable) -> None:
        if isinstance(frame, Unreadable) and not self.first_unreadable:
            self.first_unreadable = str(frame.raw)[:UNREADABLE_SHOWN_CHARACTERS]

    async def close(self) -> None:
        """Nothing to do: the process belongs to whoever started it."""
