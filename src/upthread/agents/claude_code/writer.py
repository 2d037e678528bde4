"""Which running Claude Code has a session open.

Two writers on one transcript, and the branch of one is lost: Claude Code resumes a session that
another process has open without a word (2.1.330). Each running process names its session in a file
of its own, `sessions/PID.json` below its home, with the time it was started; a file of a dead
process counts for nothing. Files of another form are passed over: upthread's own lease holds in any
case.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from upthread.agents._json_lines import as_object, read_json
from upthread.agents._process import started_at_ticks
from upthread.boundary.files import streamed

FILES_MAX: Final = 1000
FILE_BYTES_MAX: Final = 64 * 1024


def writer_of(home: Path, session: str) -> int | None:
    """Return the id of a running process that has the session open, None without one.

    `home` is Claude Code's own, `~/.claude`.
    """
    for registered in _registered(home / "sessions"):
        pid = registered.get("pid")
        if registered.get("sessionId") == session and isinstance(pid, int):
            ticks = started_at_ticks(pid)
            # After a SIGKILL its file stays (2.1.330), and the number may be another's by now.
            if ticks is not None and str(ticks) == registered.get("procStart"):
                return pid
    return None


def _registered(directory: Path) -> Iterator[dict[str, Any]]:
    # Named by the process: those of dead ones are left out first, so that no number of leftovers
    # stands before a file that counts.
    living = (each for each in directory.glob("*.json") if _may_live(each.stem))
    for path in islice(living, FILES_MAX):
        try:
            with streamed(str(path)) as file:
                yield as_object(read_json(file.read(FILE_BYTES_MAX)))
        except OSError:
            continue  # it ended meanwhile


def _may_live(name: str) -> bool:
    return not name.isdecimal() or started_at_ticks(int(name)) is not None
