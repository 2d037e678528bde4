"""Which workstream a person said that a working tree is on: a file of one line in upthread's home.

Of this machine, as the working tree is. `upthread use` writes the file; hooks read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

from upthread.boundary import files as opener

FOLDER: Final = "used"
BYTES_MAX: Final = 4096


def used_workstream(home: Path, root: str) -> str | None:
    """Return the workstream that a working tree is on, None where nobody said one. Blocking."""
    path = _path(home, root)
    try:
        raw = opener.read_all(opener.direct(str(path)), str(path), bytes_max=BYTES_MAX)
        return raw.decode("utf-8") or None
    except (OSError, UnicodeDecodeError):
        return None


def use_workstream(home: Path, root: str, name: str | None) -> None:
    """Say which workstream a working tree is on, None for none. Blocking. Raises OSError."""
    path = _path(home, root)
    if name is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, name.encode("utf-8"))
    finally:
        os.close(descriptor)
    written.replace(path)


def _path(home: Path, root: str) -> Path:
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return home / FOLDER / digest
