"""The event log: what the agent was asked and did, one JSON line each, for others to count.

The agent writes it and never reads it. A line is one append, so several processes can share a file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

TEXT_CHARACTERS_MAX: Final = 64 * 1024


class EventLog:
    """Appends to one file, 0600; does nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, event: str, *, session_id: str, **details: object) -> None:
        """Append one event. Long texts are cut; `bytes`, where given, tells their true size."""
        if self._path is None:
            return
        cut = {
            name: value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
            for name, value in details.items()
        }
        line = {"event": event, "session_id": session_id, "pid": os.getpid(), **cut}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.write(descriptor, json.dumps(line).encode("ascii") + b"\n")
        finally:
            os.close(descriptor)


def size_of(text: str) -> int:
    """Return the size of a text in UTF-8; lone surrogates count as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))
