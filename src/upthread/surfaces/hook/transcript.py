"""The end of a sub-agent's transcript, which its own agent is still writing to."""

from __future__ import annotations

import os

from upthread.runtime.bindings.files import FILE_BYTES_MAX


def end_of(transcript: str) -> bytes:
    """Return the end of a file, `FILE_BYTES_MAX` at most; nothing of what cannot be read."""
    try:
        descriptor = os.open(transcript, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, FILE_BYTES_MAX, max(0, size - FILE_BYTES_MAX))
    finally:
        os.close(descriptor)
