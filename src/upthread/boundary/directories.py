"""A directory that is not ours, held open while what lies in it is looked at.

For stores of many files, of which little is wanted of each: every name is opened in the directory
that is held, and no link is followed, so that nothing outside is reached whatever lies there. Only
the directory one begins with may be named by a link: its place is the person's own.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from os.path import join, realpath, relpath
from types import TracebackType
from typing import BinaryIO

from msgspec import Struct

from upthread.boundary.files import OPEN_FLAGS, FileRefusedError, is_ordinary

NAMES_MAX = 200_000
"""How many names of one directory are read; what comes after is counted by nobody."""

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | OPEN_FLAGS


class Names(Struct, frozen=True):
    """What lies in a directory, unsorted: ordinary files, directories, and how many are neither.

    `is_cut_short` where there is more than NAMES_MAX.
    """

    files: tuple[str, ...]
    directories: tuple[str, ...]
    others: int
    is_cut_short: bool


class FileEnds(Struct, frozen=True):
    """The size, the time of the last write, and both ends of a file.

    `tail` follows the head without a gap where `is_whole`, and is empty where the head was all.
    """

    size_bytes: int
    written_at_ms: int
    head: bytes
    tail: bytes
    is_whole: bool


def open_directory(path: str) -> Directory:
    """Open a directory, wherever its links lead. Raises OSError."""
    return Directory(os.open(realpath(path), _DIRECTORY), path)


def open_below(top: str, place: str) -> Directory:
    """Open a directory again by the path it had below another, without a link on the way."""
    directory = open_directory(top)
    for name in filter(None, relpath(place, top).split(os.sep)):
        if name != os.curdir:
            with directory:  # held until the next one is open
                directory = directory.within(name)
    return directory


PassOver = Callable[[str, str, int], object]
"""Is given a path, why something there is left out, and how often."""

NO_FILE = "no ordinary file"
MORE_NAMES = "more names than are read"


def walked(
    top: str, *levels: str, pass_over: PassOver, is_ordinary: bool = True
) -> Iterator[tuple[Directory, str]]:
    """Yield the ordinary files below a directory whose names fit a pattern for each level.

    Each with the directory that holds the file, open until the next one is asked for; directories
    that were written to last come first. No link is followed: a link to the root would be the
    whole machine. Without `is_ordinary` names of whatever lies there are yielded, for who refuses
    it with a reason.
    """
    try:
        directory = open_directory(top)
    except FileNotFoundError:
        return
    except OSError as error:
        pass_over(top, f"{error.strerror}: {top}", 1)
        return
    with directory:
        yield from _walked(directory, levels, pass_over, is_ordinary=is_ordinary)


def _walked(
    directory: Directory, levels: tuple[str, ...], pass_over: PassOver, *, is_ordinary: bool
) -> Iterator[tuple[Directory, str]]:
    pattern, *inner = levels
    try:
        # A name that is known needs no list of what lies beside it.
        names = directory.names() if "*" in pattern else Names((), (pattern,), 0, False)
    except OSError as error:
        pass_over(directory.path, str(error.strerror), 1)
        return
    pass_over(directory.path, NO_FILE, names.others)
    pass_over(directory.path, MORE_NAMES, names.is_cut_short)
    if not inner:
        files = names.files if is_ordinary else directory.all_names()
        yield from ((directory, name) for name in sorted(fnmatch.filter(files, pattern)))
        return
    directories = fnmatch.filter(names.directories, pattern)
    for name in sorted(directories, key=directory.written_at_ms, reverse=True):
        try:
            below = directory.within(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            pass_over(join(directory.path, name), str(error.strerror), 1)
            continue
        with below:
            yield from _walked(below, tuple(inner), pass_over, is_ordinary=is_ordinary)


class Directory:
    """A directory held open, to be left by `with`; `open_directory` opens one."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def names(self) -> Names:
        """Return what lies in it, by what the directory itself says: nothing is opened."""
        files: list[str] = []
        directories: list[str] = []
        others = 0
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if len(files) + len(directories) + others >= NAMES_MAX:
                    return Names(tuple(files), tuple(directories), others, is_cut_short=True)
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                else:
                    others += 1
        return Names(tuple(files), tuple(directories), others, is_cut_short=False)

    def all_names(self) -> tuple[str, ...]:
        """Return the names in it, whatever they stand for."""
        return tuple(islice(os.listdir(self._descriptor), NAMES_MAX))

    def within(self, name: str) -> Directory:
        """Open a directory in it, which may be no link."""
        descriptor = os.open(name, _DIRECTORY, dir_fd=self._descriptor)
        return Directory(descriptor, join(self.path, name))

    def written_at_ms(self, name: str) -> int:
        """Return when a name in it was written last, 0 for one that is gone."""
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return 0
        return found.st_mtime_ns // 1_000_000

    def ends(self, name: str, *, head_bytes: int, tail_bytes: int) -> FileEnds:
        """Return both ends of an ordinary file in it. Raises OSError, also for what is none."""
        descriptor = self._opened(name)
        try:
            found = os.fstat(descriptor)
            size = found.st_size
            # Between what was looked at and what is read the file may grow, or be cut: a piece
            # that is shorter than asked for is what there is.
            head = os.pread(descriptor, min(size, head_bytes), 0)
            start = max(len(head), size - tail_bytes)
            tail = os.pread(descriptor, max(0, size - start), start) if size > len(head) else b""
        finally:
            os.close(descriptor)
        written_at_ms = found.st_mtime_ns // 1_000_000
        return FileEnds(size, written_at_ms, head, tail, is_whole=start == len(head))

    def streamed(self, name: str) -> BinaryIO:
        """Open an ordinary file in it for reading piece by piece. Raises OSError as above."""
        return os.fdopen(self._opened(name), "rb", buffering=0)

    def _opened(self, name: str) -> int:
        shown = join(self.path, name)
        # By what it is before it is opened: to open a device may already do something.
        mode = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise FileRefusedError(shown, "it is no ordinary file", "put an ordinary file there")
        descriptor = os.open(name, OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=self._descriptor)
        if not is_ordinary(descriptor):  # it has become something else meanwhile
            os.close(descriptor)
            raise FileRefusedError(shown, "it is no ordinary file", "put an ordinary file there")
        return descriptor
