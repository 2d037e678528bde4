"""Waiting for a drain, in a hook: as long as its agent gives it, and the alarm put off so long."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` as well
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_alarm: Any = _signal

WAIT_S = {"claude-code": 3.5, "codex": 3.5, "opencode": 1.2}
"""How long a call that is begun waits, by agent: below the time that each gives its hooks."""

LOOK_S = 0.02


def wait_until(is_so: Callable[[], bool], agent: str) -> bool:
    """Return when it is so, or when the agent's time is over; returns whether it is."""
    wait_s = WAIT_S[agent]
    left_s, _ = _alarm.getitimer(_alarm.ITIMER_REAL)
    _alarm.setitimer(_alarm.ITIMER_REAL, left_s + wait_s if left_s else 0)
    until_s = time.monotonic() + wait_s
    while time.monotonic() < until_s:
        if is_so():
            return True
        time.sleep(LOOK_S)
    return is_so()
