"""What a forked process must not share with its parent: connections, locks, the pipes of agents.

A fork copies all objects and none of the other threads. Two processes on one connection read each
other's answers, and a lock that another thread held is never released. So whoever has such a thing
is `Forkable`: nobody else uses the thing while the process is forked, and the child forgets it.
"""

from __future__ import annotations

import itertools
import os
import time
from threading import RLock
from weakref import WeakValueDictionary

FORK_WAIT_S = 2.0
"""How long a fork waits for the calls of other threads. They take milliseconds."""


class Forkable:
    """Has one of these things. `lock` is held while the thing is used."""

    def __init__(self) -> None:
        self.lock = RLock()
        _ALL[next(_NUMBERS)] = self

    def after_fork(self, *, is_idle: bool) -> None:
        """Forget, in the child, what is the parent's; if not idle, another thread was using it."""


_ALL: WeakValueDictionary[int, Forkable] = WeakValueDictionary()
_NUMBERS = itertools.count()
_HELD: list[Forkable] = []


def _hold_all() -> None:
    until_s = time.monotonic() + FORK_WAIT_S
    # The newest first: it uses the older ones while it holds its own lock.
    for each in reversed(list(_ALL.values())):
        if each.lock.acquire(timeout=max(0.0, until_s - time.monotonic())):
            _HELD.append(each)


def _release_all() -> None:
    while _HELD:
        _HELD.pop().lock.release()


def _forget_all() -> None:
    held = {id(each) for each in _HELD}
    _HELD.clear()
    for each in list(_ALL.values()):
        # The same lock, because others have it too.
        each.lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001  # as in logging
        each.after_fork(is_idle=id(each) in held)


os.register_at_fork(
    before=_hold_all, after_in_parent=_release_all, after_in_child=_forget_all
)
