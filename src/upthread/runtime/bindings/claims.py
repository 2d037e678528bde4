"""Claims: which call is using a conversation's session, and whether whoever made it still lives.

Calls of one role at the same moment never share a session: each claims a slot, under the project's
lock. A claim ends with its call, with the agent's process, or with its session's next prompt.
"""

from __future__ import annotations

import os
import time

from upthread.runtime.bindings.light_json import number_in, object_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OURS = "upthread"
"""Whose claim it is that a turn of upthread's own makes."""

STAT_BYTES_MAX = 4096


def claim(
    *, agent: str, session: str, call_id: str, pid: int, is_background: bool
) -> dict[str, Any]:
    """Return the claim of a call, made inside an agent's main session by the process `pid`."""
    return {
        "agent": agent,
        "session": session,
        "call_id": call_id,
        **process(pid),
        "at_ms": time.time_ns() // 1_000_000,
        "is_background": is_background,
    }


def is_claimed_by_another(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether another call that is still under way uses a conversation."""
    held = object_in(binding, "claim")
    return bool(held) and text_in(held, "call_id") != call_id and lives(held)


def is_of_call(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether a conversation is claimed by this call."""
    return text_in(object_in(binding, "claim"), "call_id") == call_id


def holder(held: dict[str, Any]) -> str:
    """Return who made a claim, in words."""
    doing = text_in(held, "doing")
    who = f"`upthread {doing}`" if doing else f"a call in {text_in(held, 'agent')}"
    return f"{who} (pid {number_in(held, 'pid')})"


def process(pid: int) -> dict[str, Any]:
    """Return what a process is known by after it has ended: a pid is given out again."""
    return {"pid": pid, "ticks": started_at_ticks(pid) or 0}


def lives(known: dict[str, Any]) -> bool:
    """Return whether a process, or the one that made a claim, is still there."""
    ticks = started_at_ticks(number_in(known, "pid"))
    # 0 was kept where the machine does not tell: there the pid alone has to do.
    return ticks is not None and number_in(known, "ticks") in {0, ticks}


def started_at_ticks(pid: int) -> int | None:
    """Return when a process started, None if it is gone; 0 where the machine does not tell."""
    if pid <= 0:
        return None
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Gone, or a system without /proc, which tells no more than that a pid is in use.
        return None if os.path.exists("/proc/self/stat") else _lives_without_proc(pid)
    try:
        stat = os.read(descriptor, STAT_BYTES_MAX)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # From the last bracket on: a process may have brackets and spaces in its name (proc(5)).
    after_name = stat[stat.rindex(b")") + 2 :].split()
    # A zombie has ended and waits to be collected, by an agent that may never do it.
    return None if after_name[0] in {b"Z", b"X"} else int(after_name[19])


def _lives_without_proc(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    # Somebody else's, and there.
    except PermissionError:
        return 0
    return 0
