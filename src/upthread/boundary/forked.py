"""Forks: a child process gets connections, locks and pipes of its own.

A fork copies every object and stops every other thread. Two processes on one connection read each
other's answers, and a lock of a stopped thread is never released. So a class with a connection, a
lock or a pipe, for example `store/sqlite/database.py`, is `Forkable`: a fork waits until the thing
is at rest, and the child drops it.
"""

import os
from threading import RLock, local
from weakref import WeakValueDictionary

FORK_WAIT_S = 2.0
"""How long a fork waits for a call of another thread, because calls take milliseconds."""


class Forkable:
    """The owner of such a resource. `lock` is held during each use."""

    def __init__(self) -> None:
        self.lock = RLock()
        _ALL[id(self)] = self

    def after_fork(self, *, is_idle: bool) -> None:
        """Drop the parent's resource, in the child. If not idle, another thread was using it."""


_ALL: WeakValueDictionary[int, Forkable] = WeakValueDictionary()
"""Each owner by its identity, the newest last."""
_OURS = local()
"""The locks of the thread that forks, because another thread may fork at the same time."""


def _hold_all() -> None:
    # The newest first, because a newer owner uses older owners while holding its own lock.
    newest_first = reversed(list(_ALL.values()))
    _OURS.held = [each for each in newest_first if each.lock.acquire(timeout=FORK_WAIT_S)]


def _release_all() -> None:
    for each in _OURS.held:
        each.lock.release()
    _OURS.held = []


def _forget_all() -> None:
    idle, _OURS.held = set(map(id, _OURS.held)), []
    for each in list(_ALL.values()):
        # The same lock object, because other objects share it.
        each.lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001  # as in logging
        each.after_fork(is_idle=id(each) in idle)


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_forget_all)
