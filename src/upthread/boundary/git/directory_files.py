"""The files of a git directory as they are read: regular, no links, bounded, and never waiting.

Hooks load this: nothing heavy.
"""

from __future__ import annotations

import os

from upthread.boundary import files

LINE_BYTES_MAX = 4096
"""How long a file may be that holds one line: HEAD, a reference, a pointer."""


class GitFileError(OSError):
    """A file of a repository is not what git writes there, and was not read."""


def open_plain(path: str, *, bytes_max: int) -> int | None:
    """Return a descriptor of a regular file, None where there is none. Raises GitFileError."""
    try:
        descriptor = files.direct(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise GitFileError(f"{path} cannot be read: {error}") from error
    if os.fstat(descriptor).st_size <= bytes_max:
        return descriptor
    os.close(descriptor)
    raise GitFileError(f"{path} is larger than {bytes_max} bytes")


def read_plain(path: str, *, bytes_max: int) -> bytes | None:
    """Return the content of a regular file, None where there is none. Raises GitFileError."""
    descriptor = open_plain(path, bytes_max=bytes_max)
    if descriptor is None:
        return None
    try:
        # Bounded once more: it may have grown since its size was asked.
        return files.read_all(descriptor, path, bytes_max=bytes_max)
    except OSError as error:
        raise GitFileError(f"{path} cannot be read: {error}") from error


def read_line(path: str) -> str | None:
    """Return the only line of a file, None where there is none. Raises GitFileError."""
    raw = read_plain(path, bytes_max=LINE_BYTES_MAX)
    if raw is not None and b"\0" in raw:
        raise GitFileError(f"{path} holds a null byte, which no path or name has")
    return None if raw is None else os.fsdecode(raw).rstrip("\r\n")
