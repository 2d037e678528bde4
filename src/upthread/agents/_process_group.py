"""Who a process is, and how it and all it started are ended.

A process is known by its id and its start time together, so that a reused id is never taken for
it. What belongs to an agent is its process group and, on Linux, every process that inherited its
mark in the environment (`_guard`). Nothing here starts a process or reads from one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

from upthread.agents._guard import kill_marked, marks_of
from upthread.boundary import processes
from upthread.boundary.files import NOWHERE

TERM_PATIENCE_S = 2.0
KILL_PATIENCE_S = 5.0
POLL_INTERVAL_S = 0.02

_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"


def started_at_ticks(pid: int) -> int | None:
    """Return when process `pid` was started, None when there is none or it is a zombie.

    On Linux the kernel's own figure, clock ticks since boot. Elsewhere a checksum of what
    `ps -o lstart` prints: a number that only serves to be compared with itself.
    """
    return processes.started_at_ticks(pid) if _IS_LINUX else _checksum_of_ps(pid)


def _checksum_of_ps(pid: int) -> int | None:
    # One locale, whoever asks: a month's name in another language would be another process.
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    said = subprocess.run(
        command, cwd=NOWHERE, env={"LC_ALL": "C"}, capture_output=True, check=False
    )
    return zlib.crc32(said.stdout) if said.stdout.strip() else None


def signal_group(pid: int, signal_number: int) -> None:
    """Signal the process group `pid` leads. A group that is gone is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal_number)


async def end_process_group(pid: int, ticks: int) -> bool:
    """End an agent left over by a dead holder, with its group and its marked processes.

    Nothing is signalled, and False returned, unless process `pid` is the one started at `ticks`
    and leads its own group. It gets SIGTERM, `TERM_PATIENCE_S` seconds, then SIGKILL. Of one that
    is dead already, what it left in its group is killed.
    """
    import anyio  # noqa: PLC0415  # the registry has this, and whoever only looks up a name

    if started_at_ticks(pid) is None:
        return _end_orphans(pid)
    if not _is_leader(pid, ticks):
        return False
    # Now: of a process that is dead, the system no longer tells the environment.
    mark = marks_of(pid)
    for signal_number, patience_s in (
        (signal.SIGTERM, TERM_PATIENCE_S),
        (signal.SIGKILL, KILL_PATIENCE_S),
    ):
        signal_group(pid, signal_number)
        with anyio.move_on_after(patience_s):
            while started_at_ticks(pid) == ticks:  # noqa: ASYNC110  # not our child
                await anyio.sleep(POLL_INTERVAL_S)
            break
    # Its own children may have outlived it; a group that still has members keeps its number.
    signal_group(pid, signal.SIGKILL)
    kill_marked(mark)
    return started_at_ticks(pid) != ticks


def _end_orphans(pid: int) -> bool:
    """Kill what a dead agent left: the marked members of the session it led.

    The number of a session with members is not given out again, so they are nobody else's.
    """
    marks = {marks_of(member) for member in _members_of(pid)} - {""}
    for mark in marks:
        kill_marked(mark)
    return bool(marks)


def kill_session(leader: int) -> None:
    """Kill the groups in the session that a process began, which may be dead and not reaped."""
    for pid in _members_of(leader):
        signal_group(pid, signal.SIGKILL)


def _members_of(session: int) -> tuple[int, ...]:
    # To the system 0 is the caller's own session, and 1 that of the first process of all.
    if not _IS_LINUX or session <= 1:
        return ()
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    return tuple(pid for pid in pids if _session_of(pid) == session)


def _session_of(pid: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None


def _is_leader(pid: int, ticks: int) -> bool:
    if pid <= 1 or started_at_ticks(pid) != ticks:
        return False
    with suppress(ProcessLookupError):
        return os.getpgid(pid) == pid
    return False
