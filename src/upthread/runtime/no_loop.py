"""Waiting without an event loop: every call runs where it stands, to its end.

For whoever only looks. An event loop takes longer to load than a look takes, and what looks awaits
nothing but the store. So the same coroutines are driven by hand; the one that would have to wait
for somebody else says so, and is begun again on a loop. Nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopNeededError(Exception):
    """A call has to wait for somebody, and there is no event loop. Begin it again on one."""


class NoLoop:
    """Waits for nobody."""

    is_looking = True

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Run a blocking call here: there is no loop that it could hold up."""
        return call()

    async def sleep(self, seconds: float) -> None:
        """Raise LoopNeededError: while it waited here, nobody else could go on."""
        del seconds
        raise LoopNeededError

    def require_loop(self) -> None:
        """Raise LoopNeededError."""
        raise LoopNeededError

    def shield(self) -> AbstractContextManager[object]:
        """Shield nothing: nothing here is cancelled, but by Ctrl-C, which ends the process."""
        return nullcontext()


def run_here(call: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end without an event loop; returns what it returns.

    Raises LoopNeededError where it awaits what needs one.
    """
    try:
        call.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # a coroutine's, of its result's type
    # It has handed something over to a loop that is not there: closed, its blocks are left.
    call.close()
    raise LoopNeededError
