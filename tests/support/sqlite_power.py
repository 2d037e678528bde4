"""A SQLite file system that notes every change, and what a disk may hold after the power is cut.

Register it with `recording_file_system`, let a store write, then take `Disk(log)` to any place in
the log and ask it what is left. The model: a sync makes certain all that was done to that file
before it. Of what came after, each 512-byte sector of each write, each truncation and each deletion
may have reached the disk or not, by itself. A sector is written whole or not at all, and bytes that
nobody wrote do not change, which SQLite assumes too (sqlite.org/psow.html). The order of writes
that overlap needs no choice of its own: a later one that is left out shows the earlier. The first
sync of a journal or log that SQLite made also syncs its directory (os_unix.c, UNIXFILE_DIRSYNC;
seen in SQLite 3.51), and only that makes an earlier deletion certain.

The shared memory beside a write-ahead log is not noted: it is made anew from the log.
"""

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

import apsw

SECTOR_BYTES = 512
CHANCES_TO_REACH_THE_DISK = (0.0, 0.1, 0.5, 0.9, 1.0)
"""Of each change after the last sync; one of these is drawn for each power cut."""

_TORN_SHARE = 0.5
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing done to a file, by its name without the directory; that has no name.

    `at` is a write's offset or a truncation's new size, in bytes.
    """

    kind: Literal["write", "truncate", "sync", "delete", "sync_directory"]
    file: str
    at: int = 0
    content: bytes = b""


_DIRECTORY_SYNCED = Change(kind="sync_directory", file="")


class RecordingFileSystem(apsw.VFS):
    """The default file system, with a log of all that changed."""

    def __init__(self) -> None:
        self.name = f"upthread-recording-{next(_NUMBERS)}"
        self.log: list[Change] = []
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        """Open a file that reports here."""
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  # SQLite's own
        """Delete a file; with `syncdir`, for certain."""
        super().xDelete(filename, syncdir)
        self.log.append(Change(kind="delete", file=Path(filename).name))
        if syncdir:
            self.log.append(_DIRECTORY_SYNCED)


class _RecordedFile(apsw.VFSFile):
    def __init__(self, owner: RecordingFileSystem, name: Any, flags: list[int]) -> None:
        self._log = owner.log
        path = name if isinstance(name, str) else name.filename()
        self._file = Path(path).name
        self._is_new = bool(flags[0] & apsw.SQLITE_OPEN_CREATE) and not Path(path).exists()
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802  # SQLite's name
        # apsw's stub names a type that Python 3.11 does not have.
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]
        self._log.append(Change(kind="write", file=self._file, at=offset, content=bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # SQLite's name
        super().xTruncate(newsize)
        self._log.append(Change(kind="truncate", file=self._file, at=newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        super().xSync(flags)
        self._log.append(Change(kind="sync", file=self._file))
        if self._is_new:
            self._log.append(_DIRECTORY_SYNCED)
            self._is_new = False


@contextmanager
def recording_file_system() -> Generator[RecordingFileSystem]:
    """Register the file system while the block lasts; close every store on it before its end."""
    file_system = RecordingFileSystem()
    try:
        yield file_system
    finally:
        file_system.unregister()


class Disk:
    """What is certain at one place in a log, and what may be left of the rest."""

    def __init__(self, log: Sequence[Change]) -> None:
        self._log = log
        self._place = 0
        self._certain: dict[str, bytearray] = {}
        self._uncertain: dict[str, list[Change]] = {}

    def advance(self, place: int) -> None:
        """Go on to just before change number `place`, counted from 0. Never back."""
        for change in self._log[self._place : place]:
            self._take(change)
        self._place = max(self._place, place)

    def left_after_power_cut(self, chance: random.Random) -> Mapping[str, bytes]:
        """Return the files the disk may hold, by name; one that is empty may not be there."""
        reach = chance.choice(CHANCES_TO_REACH_THE_DISK)
        left: dict[str, bytes] = {}
        for file in sorted({*self._certain, *self._uncertain}):
            content = bytearray(self._certain.get(file, b""))
            for change in self._uncertain.get(file, ()):
                reached = list(_reached(change, reach, chance))
                if change.kind == "delete" and not reached:
                    break  # what was made under its name afterwards was never linked
                for piece in reached:
                    _do(piece, content)
            left[file] = bytes(content)
        return left

    def _take(self, change: Change) -> None:
        if change.kind == "sync_directory":
            for file, changes in self._uncertain.items():
                deletions = [at for at, each in enumerate(changes) if each.kind == "delete"]
                if deletions:
                    self._certain.pop(file, None)
                    del changes[: deletions[-1] + 1]
        elif change.kind == "sync":
            content = self._certain.setdefault(change.file, bytearray())
            for earlier in self._uncertain.pop(change.file, ()):
                _do(earlier, content)
        else:
            self._uncertain.setdefault(change.file, []).append(change)


def _reached(change: Change, reach: float, chance: random.Random) -> Iterator[Change]:
    """Yield what of a change reached the disk: all, nothing, or of a write some sectors."""
    if chance.random() < reach:
        yield change
    elif change.kind == "write" and 0 < reach < 1 and chance.random() < _TORN_SHARE:
        yield from (sector for sector in _sectors(change) if chance.random() < reach)


def _sectors(write: Change) -> Iterator[Change]:
    end = write.at + len(write.content)
    at = write.at
    while at < end:
        following = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        piece = write.content[at - write.at : following - write.at]
        yield Change(kind="write", file=write.file, at=at, content=piece)
        at = following


def _do(change: Change, content: bytearray) -> None:
    if change.kind == "write":
        content.extend(bytes(max(0, change.at - len(content))))
        content[change.at : change.at + len(change.content)] = change.content
    elif change.kind == "truncate":
        del content[change.at :]
        content.extend(bytes(change.at - len(content)))
    else:
        content.clear()
