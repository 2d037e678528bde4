"""Whether anybody still waits for a blocking call: Ctrl-C and a cancellation reach no thread.

Who hops into a thread says there what tells of it, and whoever waits there for another process asks
now and then. Only such waits are given up; what is being written is written to its end.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

POLL_S = 0.1
"""How often it is asked during a wait."""

# By the context: what lies between the hop and a wait need not know that it can be given up.
_GIVEN_UP: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(Exception):
    """Nobody waits for it any more. Nobody is left to see this."""


@contextmanager
def heeding(given_up: threading.Event) -> Generator[None]:
    """Have `is_given_up` return true within, once the event is set; outside nothing changes."""
    token = _GIVEN_UP.set(given_up)
    try:
        yield
    finally:
        _GIVEN_UP.reset(token)


def is_given_up() -> bool:
    """Whether nobody waits for what is being done here."""
    given_up = _GIVEN_UP.get()
    return given_up is not None and given_up.is_set()
