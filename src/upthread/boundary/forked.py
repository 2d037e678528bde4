"""What a forked process must not share with its parent: connections, locks, the pipes of agents.

A fork copies all objects and none of the other threads. Two processes on one connection read each
other's answers, and a lock that another thread held is never released. So whoever has such a thing
is `Forkable`: nobody else uses the thing while the process is forked, and the child forgets it.
"""

from __future__ import annotations

import os
from threading import RLock, local
from weakref import WeakValueDictionary

FORK_WAIT_S = 2.0
"""How long a fork waits for a call of another thread. Calls take milliseconds."""


class Forkable:
    """Has one of these things. `lock` is held while the thing is used."""

    def __init__(self) -> None:
        self.lock = RLock()
        _ALL[id(self)] = self

    def after_fork(self, *, is_idle: bool) -> None:
        """Forget, in the child, what is the parent's; if not idle, another thread was using it."""


_ALL: WeakValueDictionary[int, Forkable] = WeakValueDictionary()
"""By identity, the newest last."""
_OURS = local()
"""What this thread holds while it forks: another thread may fork, too."""


def _hold_all() -> None:
    # The newest first: it uses the older ones while it holds its own lock.
    newest_first = reversed(list(_ALL.values()))
    _OURS.held = [each for each in newest_first if each.lock.acquire(timeout=FORK_WAIT_S)]


def _release_all() -> None:
    for each in _OURS.held:
        each.lock.release()
    _OURS.held = []


def _forget_all() -> None:
    idle, _OURS.held = set(map(id, _OURS.held)), []
    for each in list(_ALL.values()):
        # The same lock, because others have it too.
        each.lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001  # as in logging
        each.after_fork(is_idle=id(each) in idle)


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_forget_all)
