"""The digest of a working tree's content, as a commit of all of it would hold it.

Read from git without writing or running anything of the repository: what HEAD holds, and over it
what git says has changed. So it is the same before and after the work is committed, and ignored
files do not count, nor does what upthread wrote for a person. A file whose content git would filter
counts by what git has of it; changed, as Git LFS would store it, or, for a filter that only the
program itself knows, as it lies there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from upthread.boundary.git.files import GitFileError, open_plain
from upthread.boundary.git.places import GitDirectories, find_place, place_at, read_head
from upthread.boundary.git.private import PrivateGit, filters_of, tree_of
from upthread.errors import UsageError

DIGEST_TIMEOUT_S = 10.0
"""How long a digest may take, with all repositories within; a hundred thousand files take 2.5 s."""

NESTED_MAX = 16
"""How deep repositories may lie in each other."""

CHANGED_BYTES_MAX = 1 << 30
"""How much of what is not committed is read for a digest; a file of any size costs nothing to make.
"""

WRITTEN = "written"
"""The folder with an empty file for each id of a file that upthread wrote."""

WRITTEN_MAX = 1_000
NONE = frozenset[bytes]()

# Of a repository within, git compares the commit alone: looking for changes it would run there.
_CHANGED = (
    "status",
    "--porcelain",
    "-z",
    "--no-renames",
    "--untracked-files=all",
    "--ignore-submodules=dirty",
)
_PATTERNS = (".gitattributes", ".gitignore")
_GITLINK = b"160000"
_LFS = b"lfs"
_LFS_VERSION = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_POINTER_BYTES_MAX = 1024
_READ_BYTES = 1 << 20


def tree_digest(directory: Path, ours: frozenset[bytes] = NONE) -> str:
    """Return the SHA-256, in hex, of what the working tree of a directory holds. Blocking.

    Objects of git that are `ours` do not count, see `written`. Empty outside of a repository and
    where it cannot be told: nothing is known to be the same then.
    """
    try:
        place = find_place(str(directory))
        until_s = time.monotonic() + DIGEST_TIMEOUT_S
        return _Tree(place, until_s).digest(ours) if place else ""
    except (UsageError, OSError):
        return ""


def written(home: str) -> frozenset[bytes]:
    """Return the ids that git gives the files that `keep_written` remembers. Blocking."""
    folder = Path(home, WRITTEN)
    return frozenset(each.name.encode() for each in folder.iterdir()) if folder.is_dir() else NONE


def keep_written(path: Path, home: str) -> None:
    """Remember a file that upthread wrote for a person into a repository. Blocking.

    It is known by its content, under the ids that git gives it: committed, or under another name,
    it is the same.
    """
    if not find_place(str(path.parent)):
        return
    with path.open("rb") as file:
        header = b"blob %d\0" % os.fstat(file.fileno()).st_size
        ids = [hashlib.sha1(header, usedforsecurity=False), hashlib.sha256(header)]
        while chunk := file.read(_READ_BYTES):
            for each in ids:
                each.update(chunk)
    folder = Path(home, WRITTEN)
    folder.mkdir(mode=0o700, exist_ok=True)
    for each in ids:
        (folder / each.hexdigest()).touch(mode=0o600)
    for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)[:-WRITTEN_MAX]:
        old.unlink(missing_ok=True)


def changed_paths(place: GitDirectories) -> list[bytes]:
    """Return the paths that are not as HEAD has them, repositories within among them. Blocking.

    Raises UsageError and OSError where it cannot be told.
    """
    return _Tree(place, time.monotonic() + DIGEST_TIMEOUT_S).all_changed()


def left_out(directory: str, paths: Iterable[str]) -> frozenset[str]:
    """Return which of these missing files git does not report, as in a sparse checkout. Blocking.

    Their bit skip-worktree or assume-unchanged is set. A path is relative to the directory, or
    absolute. Empty also where it cannot be told.
    """
    try:
        place = find_place(directory)
        if not place:
            return frozenset()
        with tree_of(place, read_head(place).commit, timeout_s=DIGEST_TIMEOUT_S) as git:
            told = git.do("ls-files", "-v", "-z").split(b"\0")
    except (UsageError, OSError):
        return frozenset()
    skipped = {os.fsdecode(each[2:]) for each in told if each[:1] in b"Ssh"}
    root = os.path.realpath(directory)
    at = {path: os.path.relpath(Path(root, path), place.top) for path in paths}
    return frozenset(path for path, below in at.items() if below in skipped)


class _Tree:
    """One working tree, and those within it, looked at once."""

    def __init__(self, place: GitDirectories, until_s: float, depth: int = 0) -> None:
        if depth > NESTED_MAX:
            raise OSError(f"more than {NESTED_MAX} repositories lie in each other: {place.top}")
        self._place = place
        self._until_s = until_s
        self._depth = depth
        self._left_bytes = CHANGED_BYTES_MAX
        self.commit = read_head(place).commit

    def digest(self, ours: frozenset[bytes] = NONE) -> str:
        """Return the digest of what the tree holds, without the objects that are `ours`."""
        left_s = self._until_s - time.monotonic()
        with tree_of(self._place, self.commit, timeout_s=left_s) as git:
            entries = self.committed(git)
            changed = self.changed(git, entries)
            for path in changed:
                # Git ends a folder that is a repository of its own with a slash.
                entries.pop(path.rstrip(b"/"), None)
            entries.update(self._as_they_are(git, changed))
        whole = hashlib.sha256()
        for path, entry in sorted(entries.items()):
            if entry.rpartition(b" ")[2] in ours:
                continue
            whole.update(entry + b" " + path + b"\0")
        return whole.hexdigest()

    def committed(self, git: PrivateGit) -> dict[bytes, bytes]:
        """Return mode and object id by path; nothing before the first commit."""
        if self.commit is None:
            return {}
        told = git.do("ls-tree", "-r", "-z", "--full-tree", self.commit)
        found = (line.partition(b"\t") for line in told.split(b"\0") if line)
        return {path: _entry(*known.split(b" ")[::2]) for known, _, path in found}

    def changed(self, git: PrivateGit, committed: dict[bytes, bytes]) -> list[bytes]:
        # Git opens patterns without looking what they are, and would wait for a pipe (ADR 58).
        _refuse_pipes(self._place.top, committed)
        # One path an entry: a rename, which is not asked for, would be two.
        told = [line[3:] for line in git.do(*_CHANGED).split(b"\0") if line]
        links = [path for path, entry in committed.items() if entry.startswith(_GITLINK)]
        # Git compares the commit of such a one alone: what is not committed there, we look for.
        clean = set(links).difference(told)
        within = {path: self._within(path) for path in links if path in clean}
        return told + [path for path, tree in within.items() if tree and tree.all_changed()]

    def all_changed(self) -> list[bytes]:
        left_s = self._until_s - time.monotonic()
        with tree_of(self._place, self.commit, timeout_s=left_s) as git:
            return self.changed(git, self.committed(git))

    def _within(self, path: bytes) -> _Tree | None:
        """Return the tree of a repository within, None for a folder that is none."""
        top = Path(self._place.top, os.fsdecode(path))
        if not os.path.lexists(top / ".git"):
            return None
        place = place_at(str(top.resolve()))
        if not place:
            raise GitFileError(f"{top} is no repository, though there is a .git")
        return _Tree(place, self._until_s, self._depth + 1)

    def _as_they_are(self, git: PrivateGit, paths: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return mode and object id of what is on disk; a path that is gone is left out."""
        entries: dict[bytes, bytes] = {}
        files: dict[bytes, bytes] = {}
        for path in paths:
            place = Path(self._place.top, os.fsdecode(path))
            found = _found(place)
            if not found:
                continue
            mode = found.st_mode
            if stat.S_ISLNK(mode):
                entries[path] = _entry(b"120000", _hashed(git, os.fsencode(place.readlink())))
            elif stat.S_ISDIR(mode):
                entries[path.rstrip(b"/")] = _entry(_GITLINK, self._nested(path))
            elif stat.S_ISREG(mode):
                files[path] = b"100755" if mode & stat.S_IXUSR else b"100644"
                self._left_bytes -= found.st_size
                if self._left_bytes < 0:
                    raise OSError(f"{place}: more than {CHANGED_BYTES_MAX} bytes are not committed")
            else:
                raise GitFileError(f"{place} is not a plain file")
        ids = _content_ids(git, list(files))
        return entries | {path: _entry(mode, ids[path]) for path, mode in files.items()}

    def _nested(self, path: bytes) -> bytes:
        """Return what stands for a repository within: its commit while clean, else its content."""
        within = self._within(path)
        if not within:
            return b""
        if within.all_changed():
            return within.digest().encode()
        return (within.commit or "").encode()


def _refuse_pipes(top: str, committed: Iterable[bytes]) -> None:
    """Refuse patterns that git would wait for, at the top and beside what is committed.

    Those in other folders are found by git alone, and cost the whole time of a digest.
    """
    for folder in {b"", *(path.rpartition(b"/")[0] for path in committed)}:
        for name in _PATTERNS:
            place = Path(top, os.fsdecode(folder), name)
            found = _found(place)
            kind = stat.S_IFMT(found.st_mode) if found else stat.S_IFREG
            # Git follows no link there, and passes a folder by.
            if kind not in {stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR}:
                raise GitFileError(f"{place} is not a plain file")


def _found(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _content_ids(git: PrivateGit, paths: list[bytes]) -> dict[bytes, bytes]:
    """Return the object id of each file's content, as git would store it, without any filter."""
    if not paths:
        return {}
    ids = {
        path: _hashed(git, _lfs_pointer(git.place.top, path))
        for path, name in filters_of(git, paths).items()
        if name == _LFS
    }
    plain = [path for path in paths if path not in ids]
    named = b"".join(_quoted(path) + b"\n" for path in plain)
    hashed = git.do("hash-object", "--stdin-paths", given=named).split() if plain else []
    # A file that went meanwhile: the ids of all after it would be those of others.
    if len(hashed) != len(plain):
        raise OSError(f"git could not read all that has changed in {git.place.top}")
    return ids | dict(zip(plain, hashed, strict=True))


def _lfs_pointer(top: str, path: bytes) -> bytes:
    """Return what Git LFS stores for a file: empty and pointers as they are, else a pointer.

    The form of its specification, version 1: https://github.com/git-lfs/git-lfs, docs/spec.md.
    """
    place = Path(top, os.fsdecode(path))
    descriptor = open_plain(str(place), bytes_max=CHANGED_BYTES_MAX)
    if descriptor is None:
        raise GitFileError(f"{place} is gone")
    digest, size = hashlib.sha256(), 0
    with open(descriptor, "rb") as file:  # noqa: PTH123
        first = file.read(_LFS_POINTER_BYTES_MAX)
        if not first or (len(first) < _LFS_POINTER_BYTES_MAX and first.startswith(_LFS_VERSION)):
            return first
        chunk = first
        while chunk:
            digest.update(chunk)
            size += len(chunk)
            chunk = file.read(_READ_BYTES)
    return _LFS_VERSION + f"oid sha256:{digest.hexdigest()}\nsize {size}\n".encode()


def _hashed(git: PrivateGit, content: bytes) -> bytes:
    return git.do("hash-object", "--stdin", given=content).strip()


def _entry(mode: bytes, object_id: bytes) -> bytes:
    return mode + b" " + object_id


def _quoted(path: bytes) -> bytes:
    """Return a path as git reads it from a line, in C's quotes: any byte may be in a name."""
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
