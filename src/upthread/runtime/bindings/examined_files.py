"""Files a session has examined, looked at by a hook: by size and time, by content if they moved.

What `runtime.turns.examination` does, without what that one loads; a test holds the two to the
same.
"""

from __future__ import annotations

import os
import stat
import time

from upthread.boundary.files import OPEN_FLAGS, is_ordinary
from upthread.core.decision.examined_paths import HASHED_BYTES_MAX
from upthread.runtime.bindings.light_json import text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE_BYTES = 1024 * 1024
BINARY_LOOK_BYTES = 8_000
SETTLED_NS = 2_000_000_000
"""How old a time of change must be to tell later ones by it."""

FILES_MAX = 2_000
"""Of one session; the newest count."""


def examined(root: str, path: str, how: str) -> dict[str, Any]:
    """Return a file as it is now: `state` is hashed, too_large, unreadable, missing or no_file.

    `digest` is its SHA-256 in hex, text with line ends as LF. `mtime_ns` is None where it is too
    young to tell a change by it.
    """
    seen: dict[str, Any] = {"path": path, "how": how, "state": "missing"}
    try:
        found = os.stat(os.path.join(root, path))
    except (FileNotFoundError, NotADirectoryError):
        return seen
    except (OSError, ValueError):
        return {**seen, "state": "unreadable"}
    if not stat.S_ISREG(found.st_mode):
        return {**seen, "state": "no_file"}
    is_settled = found.st_mtime_ns <= time.time_ns() - SETTLED_NS
    seen["size_bytes"] = found.st_size
    # A second change right after the first may leave the same time behind.
    seen["mtime_ns"] = found.st_mtime_ns if is_settled else None
    try:
        digest = _digest_of(os.path.join(root, path), found.st_size)
    except OSError:
        # Without its time: by that alone it would count as unmoved, and not be tried again.
        return {**seen, "state": "unreadable", "mtime_ns": None}
    return {**seen, "state": "hashed" if digest else "too_large", "digest": digest}


def has_moved(root: str, known: dict[str, Any]) -> bool:
    """Return whether a file may not be as it is known; its content is not looked at."""
    try:
        found = os.stat(os.path.join(root, text_in(known, "path")))
    except (OSError, ValueError):
        return known.get("state") not in {"missing", "unreadable"}
    return (found.st_mtime_ns, found.st_size) != (known.get("mtime_ns"), known.get("size_bytes"))


def _digest_of(path: str, size_bytes: int) -> str | None:
    if size_bytes > HASHED_BYTES_MAX:
        return None
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        # By the descriptor too: the name may be given to something else after the look (ADR 66).
        if not is_ordinary(descriptor):
            raise OSError("it became something that is no file")
        content = _content(descriptor)
    finally:
        os.close(descriptor)
    if content is None:
        return None
    import hashlib  # only where something has to be hashed

    is_text = b"\0" not in content[:BINARY_LOOK_BYTES]
    return hashlib.sha256(content.replace(b"\r\n", b"\n") if is_text else content).hexdigest()


def _content(descriptor: int) -> bytes | None:
    pieces: list[bytes] = []
    left = HASHED_BYTES_MAX
    while piece := os.read(descriptor, PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            return None
        pieces.append(piece)
    return b"".join(pieces)
