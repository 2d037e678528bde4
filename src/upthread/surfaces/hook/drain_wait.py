"""The wait for a drain, in a hook: as long as its agent gives it, and the alarm put off so long."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` as well
import time

from upthread.runtime.bindings import spool
from upthread.runtime.bindings.claims import lives, process
from upthread.runtime.bindings.files import BusyError
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_alarm: Any = _signal

WAIT_S = 8.0
"""How long a call that is begun waits: below the time that its agent gives to hooks, 10 s."""

LOOK_S = 0.02


def wait_for_drain(place: Place, is_so: Callable[[], bool]) -> bool:
    """Start a drain, and return True as soon as `is_so()` holds.

    False once no drain is alive any more or WAIT_S are over, and at once where `setup` never said
    how a drain is started.
    """
    drain = spool.start_drain(place)
    if not drain:
        return False
    known = process(drain)
    # Put off by what is waited, not switched off: what comes after must still end in its time.
    left_s, _ = _alarm.getitimer(_alarm.ITIMER_REAL)
    _alarm.setitimer(_alarm.ITIMER_REAL, left_s + WAIT_S if left_s else 0)
    until_s = time.monotonic() + WAIT_S
    # Its process rather than a time: a drain that failed at once is not waited for.
    while time.monotonic() < until_s and (lives(known) or _is_draining(place)):
        if is_so():
            return True
        time.sleep(LOOK_S)
    return is_so()


def _is_draining(place: Place) -> bool:
    """Return whether another drain is at work, which ours has left the work to."""
    try:
        # Ours ends at once where another is at work: then that one is waited for.
        with place.drain_lock():
            return False
    except BusyError:
        return True
