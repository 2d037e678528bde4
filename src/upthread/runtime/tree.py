"""The digest of a working tree's content, as a commit of all of it would hold it.

Read from git without writing anything: what HEAD holds, and over it what git says has changed. So
it is the same before and after the work is committed, and ignored files do not count.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from upthread.errors import UsageError
from upthread.runtime.repository import ask_git

_CHANGED = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
_GITLINK = b"160000"


def tree_digest(directory: Path) -> str:
    """Return the SHA-256, in hex, of what the working tree of a directory holds. Blocking.

    Empty outside of a repository and where git cannot tell: nothing is known to be the same then.
    """
    try:
        top = ask_git(directory, "rev-parse", "--show-toplevel")
        return "" if top is None else _digest(Path(os.fsdecode(top.rstrip(b"\n"))))
    except (UsageError, OSError):
        return ""


def _digest(top: Path) -> str:
    changed = _changed(top)
    if changed is None:
        return ""
    entries = _committed(top)
    for path in changed:
        entries.pop(path.rstrip(b"/"), None)
    entries.update(_as_they_are(top, changed))
    whole = hashlib.sha256()
    for path, entry in sorted(entries.items()):
        whole.update(entry + b" " + path + b"\0")
    return whole.hexdigest()


def _changed(top: Path) -> list[bytes] | None:
    """Return the paths that are not as HEAD has them, None where git cannot read its index.

    A program that the repository's configuration names for watching files is not run.
    """
    told = ask_git(top, "--no-optional-locks", "-c", "core.fsmonitor=false", *_CHANGED)
    return None if told is None else [line[3:] for line in told.split(b"\0") if line]


def _committed(top: Path) -> dict[bytes, bytes]:
    """Return mode and object id by path; nothing before the first commit."""
    told = ask_git(top, "ls-tree", "-r", "-z", "--full-tree", "HEAD") or b""
    found = (line.partition(b"\t") for line in told.split(b"\0") if line)
    return {path: _entry(*known.split(b" ")[::2]) for known, _, path in found}


def _as_they_are(top: Path, paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return mode and object id of what is on disk; a path that is gone is left out."""
    entries: dict[bytes, bytes] = {}
    files: list[tuple[bytes, bytes]] = []
    for path in paths:
        place = top / os.fsdecode(path)
        try:
            mode = place.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISLNK(mode):
            entries[path] = _entry(b"120000", _hashed(top, os.fsencode(place.readlink())))
        elif stat.S_ISDIR(mode):
            entries[path.rstrip(b"/")] = _entry(_GITLINK, _nested(place))
        else:
            files.append((b"100755" if mode & stat.S_IXUSR else b"100644", path))
    named = b"".join(_quoted(path) + b"\n" for _, path in files)
    hashed = (ask_git(top, "hash-object", "--stdin-paths", given=named) or b"").split()
    if len(hashed) != len(files):
        raise OSError(f"git could not read all that has changed in {top}")
    return entries | {
        path: _entry(mode, each) for (mode, path), each in zip(files, hashed, strict=True)
    }


def _nested(place: Path) -> bytes:
    """Return what stands for a repository within: its commit while clean, else its content."""
    if _changed(place) == []:
        return (ask_git(place, "rev-parse", "HEAD") or b"").strip()
    return _digest(place).encode()


def _hashed(top: Path, content: bytes) -> bytes:
    return (ask_git(top, "hash-object", "--stdin", given=content) or b"").strip()


def _entry(mode: bytes, object_id: bytes) -> bytes:
    return mode + b" " + object_id


def _quoted(path: bytes) -> bytes:
    """Return a path as git reads it from a line, in C's quotes: any byte may be in a name."""
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
