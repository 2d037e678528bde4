"""When an agent's hooks were last heard from: a file for each agent, whose time says it."""

from __future__ import annotations

import os

from upthread.runtime.bindings import files

DIRECTORY = "heard"
LINE_FIELDS = {"claude-code": "systemMessage", "codex": "systemMessage", "opencode": "line"}
"""What an agent is called by its hooks, and the field of an answer whose line it shows a person.

Any other word is text from outside, and no path. Beside the rows of `core.agents`, which load more
than a hook has time for; a test holds the two together.
"""


def note(home: str, agent: str) -> None:
    """Remember that an agent's hook was run now, in the directory of hooks.

    It tells a person that hooks run at all. What must not be lost is kept elsewhere and fails
    there, so a directory that cannot be written is left as it is.
    """
    if agent not in LINE_FIELDS:
        return
    path = os.path.join(home, DIRECTORY, agent)
    try:
        # The usual case in one call: the file is there, and all it tells is its time.
        os.utime(path)
    except FileNotFoundError:
        _make(path)
    except OSError:
        return


def at_ms(home: str, agent: str) -> int | None:
    """Return when an agent's hook was last run, in epoch milliseconds; None: never, or unknown."""
    try:
        return os.stat(os.path.join(home, DIRECTORY, agent)).st_mtime_ns // 1_000_000
    except OSError:
        return None


def _make(path: str) -> None:
    if not os.path.isdir(os.path.dirname(os.path.dirname(path))):
        return  # nothing was set up here: a hook makes no home
    try:
        files.make_directory(os.path.dirname(path))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError:
        return
