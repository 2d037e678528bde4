"""Where a database may lie, and who may read it.

Everything about sessions is private: files 0600 in a 0700 directory, both ours, neither reached
through a link that somebody else could turn. Decides nothing about what is in the file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from upthread.core.text import command
from upthread.errors import StoreError

SIDECARS: Final = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database."""

QUEUE_SUFFIX: Final = "-queue"
"""What is added to a database's name for the queue of its writers (write_queue.py)."""

BESIDE: Final = (*SIDECARS, QUEUE_SUFFIX)
"""What SQLite and we put beside a database."""

# The log needs memory shared by all who have the file open, which no network file
# system gives: https://sqlite.org/wal.html
_NETWORK_TYPES: Final = frozenset(
    "acfs afs beegfs ceph cifs fuse gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs "
    "smb3 smbfs".split()
)
_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")


def prepare_file(path: Path) -> Path:
    """Make the directory and an empty file if there is none, and return the path to open.

    StoreError when the directory, the file or one of those beside it is a link or belongs to
    somebody else, when others may write to the directory, or when it lies on a network.
    """
    try:
        # The directory first: in one that others may turn elsewhere, no check of a file holds.
        directory = _prepare_directory(path.absolute().parent)
        place = directory / path.name
        refuse_network(place, _mount_table())
        _create(place)
        for name in (path.name, *(path.name + suffix for suffix in BESIDE)):
            _make_private(directory / name)
    except OSError as error:
        raise StoreError(
            f"the database {path} cannot be opened: {error.strerror or error}",
            hint=f"make {path.parent} a directory you may write to, or set UPTHREAD_HOME",
        ) from error
    return place


def _prepare_directory(directory: Path) -> Path:
    for missing in reversed(list(_missing(directory))):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    _refuse_link(directory, found)
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{directory} is not a directory", hint="name another place")
    _refuse_foreign(directory, found)
    if found.st_mode & stat.S_IWOTH:
        raise StoreError(
            f"the directory {directory} may be written by everybody",
            hint=f"name another place, or run: {command('chmod', 'o-w', str(directory))}",
        )
    # Links further up are the system's (/var on macOS); SQLite itself refuses to follow any.
    return directory.resolve()


def _missing(directory: Path) -> Iterator[Path]:
    while not os.path.lexists(directory):
        yield directory
        directory = directory.parent


def _create(place: Path) -> None:
    """Make the file ourselves, so that its mode is ours whatever the umask says."""
    try:
        handle = os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    # Only ever a file nobody has opened yet: closing one that another connection of this process
    # has open would drop that connection's locks (POSIX; sqlite.org/howtocorrupt.html, 2.2).
    os.close(handle)
    sync_file(place.parent)


def sync_file(path: Path) -> None:
    """Have a file or the names in a directory on the disk. No connection here has it open."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_private(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    _refuse_link(path, found)
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a file", hint="name another place")
    _refuse_foreign(path, found)
    if found.st_mode & 0o077:
        path.chmod(0o600)


def _refuse_link(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(
            f"{path} is a symbolic link", hint="name the place it points to, or remove the link"
        )


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
            hint="name a place of your own, or give it to yourself with chown",
        )


def refuse_network(path: Path, mount_table: str) -> None:
    """Raise StoreError when `path` lies on a network file system.

    `mount_table` is the text of /proc/self/mountinfo (proc(5)); empty where there is none.
    """
    file_system = _file_system_of(path, mount_table)
    if file_system in _NETWORK_TYPES or file_system.startswith("fuse."):
        raise StoreError(
            f"{path} lies on a network file system ({file_system}), where SQLite loses data",
            hint="set UPTHREAD_HOME to a local directory; several machines share PostgreSQL: --db",
        )


def _file_system_of(path: Path, mount_table: str) -> str:
    """Return the type of the mount that holds `path`, "" when unknown. The last of equals wins."""
    longest, found = -1, ""
    for line in mount_table.splitlines():
        left, _, right = line.partition(" - ")
        mount_point = _unescaped(left.split(" ")[4])
        if len(mount_point) >= longest and path.is_relative_to(mount_point):
            longest, found = len(mount_point), right.split(" ")[0]
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _mount_table() -> str:
    try:
        return _MOUNT_TABLE.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
