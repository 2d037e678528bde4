"""The end of a sub-agent's transcript, which its own agent is still writing to."""

from __future__ import annotations

from upthread.boundary.files import read_end
from upthread.runtime.bindings.files import FILE_BYTES_MAX


def end_of(transcript: str) -> bytes:
    """Return the end of a file, `FILE_BYTES_MAX` at most; nothing of what cannot be read."""
    try:
        return read_end(transcript, FILE_BYTES_MAX)
    except (OSError, ValueError):  # ValueError: a path that is none, told by a request
        return b""
