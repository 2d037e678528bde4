"""Private files of JSON: read with a limit, replaced atomically, for nobody else."""

from __future__ import annotations

import json
import os
from typing import Any, cast

from upthread.boundary import files as opener
from upthread.core.codec import read_json
from upthread.errors import StoreError

SCHEMA = 1
FILE_BYTES_MAX = 4 * 1024 * 1024


class UnreadableError(Exception):
    """A file is there and cannot be used; the message says which, and why."""


def read(path: str) -> dict[str, Any] | None:
    """Return a file's content, None when there is no file. Raises UnreadableError."""
    try:
        descriptor = opener.direct(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    try:
        raw = _all_of(descriptor)
        found = read_json(raw)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    except (StoreError, ValueError, RecursionError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    finally:
        os.close(descriptor)
    # Another version may mean something else by the same name: better nothing than half of it.
    fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if fields.get("schema") != SCHEMA:
        raise UnreadableError(f"{path}: written by another version of upthread")
    return fields


def _all_of(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    left = FILE_BYTES_MAX
    # One byte more than may be, so that a file that is too long is told from one that just fits.
    while piece := os.read(descriptor, min(left + 1, 1024 * 1024)):
        left -= len(piece)
        if left < 0:
            raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def replace(path: str, fields: dict[str, Any]) -> None:
    """Write a file whole, for nobody else to read; a crash leaves the old one. Raises OSError."""
    make_directory(os.path.dirname(path))
    # Named by the process: two never write into one, and what a dead one left is found by it.
    beside = f"{path}.{os.getpid()}"
    raw = json.dumps({"schema": SCHEMA, **fields}).encode("ascii")
    descriptor = _made(beside)
    try:
        _write_all(descriptor, raw)
    except BaseException:
        os.unlink(beside)
        raise
    finally:
        os.close(descriptor)
    # Readers find the old file or the new one, and never half of one.
    os.replace(beside, path)


def _made(beside: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(beside, flags, 0o600)
    except FileExistsError:
        # Left by a process that was killed while it wrote and had our pid, as happens in
        # containers: whoever took it for one at work would never write this file again.
        remove(beside)
        return os.open(beside, flags, 0o600)


def make_directory(path: str) -> None:
    """Make a directory and those above it, each for nobody else; `makedirs` does the last only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        make_directory(path)


def _write_all(descriptor: int, raw: bytes) -> None:
    left = raw
    while left:
        left = left[os.write(descriptor, left) :]


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
