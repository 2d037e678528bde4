"""What a program said when it was tried, remembered while the program is the same.

Whether `setpriv` can do what we want, and which version an agent is, would otherwise be a process
of its own in each turn. A program is the same by its path, its inode, its size and the moment it
was changed. What runs another program cannot be known by that, a shell script for one, so it is
asked each time; and whatever is remembered is asked again after a day.

One file in upthread's home, 0600, replaced whole. It is never made where there is no home yet: who
only looks leaves nothing behind. What is not as we wrote it counts for nothing, and is asked anew.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from upthread.boundary.files import read_all, read_start, through_links, write_whole
from upthread.boundary.own_files import home_directory
from upthread.core.types import ready

FILE: Final = "probes.json"
FILE_BYTES_MAX: Final = 256 * 1024
PROBES_MAX: Final = 64
SAID_CHARACTERS_MAX: Final = 200
DAY_MS: Final = 24 * 3600 * 1000


_Stamp: TypeAlias = tuple[int, int, int, int, int]
"""A file's device, inode, size, and in nanoseconds when it was last written, and changed at all:
the time of the last write can be put back."""


class _Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one command said. `stamps` are the program's, after its interpreter's."""

    stamps: tuple[_Stamp, ...]
    said: str
    asked_at_ms: int


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    probes: dict[str, _Probe]


def remembered(command: Sequence[str]) -> str | None:
    """Return what exactly this command said, None where it has to be run. Blocking.

    Its words are a program's whole path, before it perhaps its interpreter's, and options.
    """
    probe = _read(_path()).get(_key(command))
    if probe is None or probe.stamps != _stamps(command):
        return None
    age_ms = _now_ms() - probe.asked_at_ms
    return probe.said if 0 <= age_ms < DAY_MS else None


def remember(command: Sequence[str], said: str) -> None:
    """Keep what a command said, if that can be known by its program. Blocking."""
    stamps, path = _stamps(command), _path()
    if not stamps or not path.parent.is_dir():
        return
    probe = _Probe(stamps, said[:SAID_CHARACTERS_MAX], _now_ms())
    probes = {**_read(path), _key(command): probe}
    newest = sorted(probes.items(), key=lambda each: -each[1].asked_at_ms)[:PROBES_MAX]
    # It is asked again where it cannot be kept: no turn is worse for that, only slower.
    with suppress(OSError):
        write_whole(path, msgspec.json.encode(_File(dict(newest))))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _path() -> Path:
    return home_directory(os.environ) / FILE


def _key(command: Sequence[str]) -> str:
    # A name that is no text is escaped: JSON has none.
    return os.fsencode(shlex.join(command)).decode("utf-8", "backslashreplace")


def _stamps(command: Sequence[str]) -> tuple[_Stamp, ...]:
    """Return what a command's programs are known by; nothing where that would not tell."""
    programs = [word for word in command if word.startswith(os.sep)]
    # A module's name, or a file's by which it is found, is no program that can be looked at.
    if not all(word.startswith("-") for word in command if word not in programs):
        return ()
    try:
        # An interpreter is known with the script it runs; one by itself runs who knows what.
        if not programs or read_start(programs[0], 2) == b"#!":
            return ()
        return tuple(_stamp(program) for program in dict.fromkeys(programs))
    except OSError:
        return ()


def _stamp(program: str) -> _Stamp:
    found = os.stat(program)  # noqa: PTH116  # a plain question
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: Path) -> Mapping[str, _Probe]:
    try:
        descriptor = through_links(str(path))
        status = os.fstat(descriptor)
        raw = read_all(descriptor, str(path), bytes_max=FILE_BYTES_MAX)
        # Whoever else could write it could say that a program is what it is not.
        is_ours = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022
        return msgspec.json.decode(raw, type=ready(_File)).probes if is_ours else {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
