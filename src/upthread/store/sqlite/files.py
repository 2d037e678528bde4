"""Where a database may lie, who may read it, and what its file is before it is opened.

Everything about sessions is private: files 0600 in a 0700 directory, both ours, neither reached
through a link that somebody else could turn. A file is new, there, or what is left of one: SQLite
takes an empty file for a new database and removes the log beside it, so that is looked at first.
Decides nothing about what is in a whole file.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

from upthread.core.text import command
from upthread.errors import StoreError
from upthread.store.address import KEY_SUFFIX

SIDECARS = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database."""

QUEUE_SUFFIX = "-queue"
"""What is added to a database's name for the queue of its writers (database.py)."""

BESIDE = (*SIDECARS, QUEUE_SUFFIX)
"""What SQLite and we put beside a database."""

# The log needs memory shared by all who have the file open, which no network file
# system gives: https://sqlite.org/wal.html
_NETWORK_TYPES = frozenset(
    "acfs afs beegfs ceph cifs fuse gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs "
    "smb3 smbfs".split()
)
_MOUNT_TABLE = Path("/proc/self/mountinfo")

LOG_SUFFIX = "-wal"

CURE_OF_DAMAGE = (
    "`upthread restore FILE` puts a backup in its place, and the next prompt of each role reads "
    "back what its session has since; without a backup, `upthread adopt` continues a session"
)
ANEW = "to begin anew, move it and what lies beside it away"

# https://sqlite.org/fileformat2.html#the_database_header
HEADER_BYTES = 100
MAGIC = b"SQLite format 3\0"
_FULL_SIZE_PAGE = 65_536  # is written as 1, for want of a third byte

LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


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


# --- what a file is before it is opened -----------------------------------------------------------


def refuse_remains(path: Path) -> None:
    """Raise StoreError for a file that would be taken for a new database or a whole one in error.

    It is missing or empty while its key or its log lies beside it, or it is cut short.
    """
    if not size_of(path):
        beside = remains(path)
        # Asked again: another process may have made it between the two questions. It has its first
        # page before it has a log, and its schema before it has a key.
        size = size_of(path)
        if beside and not size:
            raise not_new(path, "is not there" if size is None else "is empty (0 bytes)", beside)
        return
    if is_cut_short(path):
        raise StoreError(
            f"the database {path} is cut short: pages are missing at its end",
            hint=CURE_OF_DAMAGE,
        )


def remains(path: Path, suffixes: Iterable[str] = (KEY_SUFFIX, LOG_SUFFIX)) -> list[Path]:
    """Return the files beside a path that hold something and show that a database was there."""
    beside = (path.with_name(path.name + suffix) for suffix in suffixes)
    return [each for each in beside if size_of(each)]


def is_cut_short(path: Path) -> bool:
    """Return whether pages are missing at a file's end, by what it says of itself.

    False where it says nothing: encrypted, or no database. Who checkpoints writes the first page
    first, and may be killed then: what has not been written yet is in the log.
    """
    while True:
        size, (page_bytes, pages) = size_of(path) or 0, _size_said(path)
        if size >= page_bytes * pages:
            return False
        logged = _logged_pages(path.with_name(path.name + LOG_SUFFIX), page_bytes)
        is_missing = any(page not in logged for page in range(size // page_bytes + 1, pages + 1))
        if size == size_of(path):  # else somebody has gone on, and may have begun a new log
            return is_missing


def _logged_pages(log: Path, page_bytes: int) -> set[int]:
    """Return the pages that a log holds a version of (sqlite.org/fileformat2.html, 4.1)."""
    found: set[int] = set()
    if not size_of(log):
        return found
    with log.open("rb") as file:  # nobody locks it: their locks are on the -shm
        salt = file.read(LOG_HEADER_BYTES)[16:24]
        while len(frame := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
            if frame[8:16] != salt:
                break
            found.add(int.from_bytes(frame[:4], "big"))
            file.seek(page_bytes, os.SEEK_CUR)
    return found


def size_of(path: Path) -> int | None:
    """Return a file's size in bytes, None where there is no ordinary one, or none could be."""
    try:
        found = path.lstat()
    except (OSError, ValueError):  # files.py says what is wrong with the place
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def header_of(path: Path) -> bytes:
    """Return the first bytes of a file, as many as are there, empty where there is none.

    Through the engine: closing a file of our own would drop the locks that a connection of this
    process has on it (sqlite.org/howtocorrupt.html, 2.2).
    """
    flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
    try:
        file: Any = apsw.VFSFile("unix", str(path.absolute()), flags)
    except apsw.CantOpenError:
        return b""
    try:
        read: bytes = file.xRead(min(HEADER_BYTES, size_of(path) or 0), 0)
        return read
    finally:
        file.xClose()


def _size_said(path: Path) -> tuple[int, int]:
    """Return how large a database's pages are and how many it says it has; 0 of none."""
    header = header_of(path)
    # The number counts only where whoever last wrote the file knew of it.
    if not header.startswith(MAGIC) or header[24:28] != header[92:96]:
        return 0, 0
    page_bytes = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return _FULL_SIZE_PAGE if page_bytes == 1 else page_bytes, pages


def not_new(path: Path, state: str, beside: Iterable[Path]) -> StoreError:
    """Return the error for a file that SQLite would take for a new database."""
    return StoreError(
        f"the database {path} {state}, and {' and '.join(each.name for each in beside)} beside it "
        "says that there was one: it is not taken for a new one, and nothing was written",
        hint=f"{CURE_OF_DAMAGE}; {ANEW}",
    )
