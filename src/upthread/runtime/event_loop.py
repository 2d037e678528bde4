"""Waiting on an event loop: blocking calls hop into a thread, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from upthread.boundary.cancellation import GivenUpError, heeding

if TYPE_CHECKING:
    from anyio import CapacityLimiter

Result = TypeVar("Result")

THREAD_POLL_S = 0.001
"""How often a cancelled caller looks whether its call has ended."""


class EventLoop:
    """Waits on the loop that runs, which is the one that its first call is made on."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Run a blocking call off the event loop.

        A call under way is not abandoned when the caller is cancelled: this returns, or raises the
        cancellation, only when the call has ended. A git that it waits for is ended then.
        """
        import anyio.to_thread  # noqa: PLC0415  # a hook has no event loop

        watched = _Watched(call)
        # One call at a time: a connection of a store is no thread's own.
        self._limiter = self._limiter or anyio.CapacityLimiter(1)
        async with self._limiter:
            try:
                return await anyio.to_thread.run_sync(watched)
            except anyio.get_cancelled_exc_class():
                # anyio shields the wait from its own scopes, not from the task's own cancellation,
                # which is what Ctrl-C is: two threads would be in one connection.
                await watched.wait_until_over()
                raise


class _Watched(Generic[Result]):
    """A call of which it is known whether it has begun and ended; given up, it never begins."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._turnstile = threading.Lock()
        self._is_given_up = False
        self._has_begun = False
        self._is_over = threading.Event()
        self._given_up = threading.Event()

    def __call__(self) -> Result:
        # Begun or given up, never both: a call that began after its caller
        # had left would be the second one in a connection that takes one.
        with self._turnstile:
            if self._is_given_up:
                raise GivenUpError
            self._has_begun = True
        try:
            with heeding(self._given_up):
                return self._call()
        finally:
            self._is_over.set()

    async def wait_until_over(self) -> None:
        """Return when the call has ended; one that has not begun by now never will."""
        import anyio  # noqa: PLC0415  # a hook has no event loop

        self._given_up.set()
        with self._turnstile:
            self._is_given_up = not self._has_begun
        with anyio.CancelScope(shield=True):
            while self._has_begun and not self._is_over.is_set():  # noqa: ASYNC110  # a thread's event
                await anyio.sleep(THREAD_POLL_S)
