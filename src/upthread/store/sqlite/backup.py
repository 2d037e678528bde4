"""Whole database files: checked, copied while others write, and put in each other's place.

A copy is what was committed at one moment, log and all. Nothing is ever deleted but a copy of ours
that did not become one. What is said of a file that could be opened comes from SQLite; what a file
that could not be opened is, from files.py and from the error of opening it.
"""

import os
import re
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw
from msgspec import Struct

from upthread.errors import StoreError, UsageError
from upthread.store.sqlite.database import (
    Connection,
    Database,
    connect,
    cure,
    faults_in,
    has_locks,
    raw_key,
    without_locks,
)
from upthread.store.sqlite.files import (
    BESIDE,
    CURE_OF_DAMAGE,
    SIDECARS,
    prepare_file,
    refuse_remains,
    size_of,
    sync_file,
)

FAULTS_MAX = 100
"""How many faults the engine is asked for."""

ALL_PAGES = -1
_BUSY_TIMEOUT_MS = 5_000
_CHECK_TIMEOUT_S = 30.0
_MEMORY = "memory"
_COPY_BYTES = 8
_CHANCE = re.compile(r"[0-9a-f]{16}")


class FileFaults(Struct, frozen=True, kw_only=True):
    """What is wrong with a database file; `faults` is empty for a sound one.

    `is_open` is whether it can be opened at all, `cure` what helps.
    """

    path: Path
    is_open: bool
    faults: tuple[str, ...] = ()
    cure: str = CURE_OF_DAMAGE

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return self.is_open and not self.faults


def check_file(path: Path, *, key: bytes | None = None) -> FileFaults:
    """Check all of a database file; one that is not there yet is sound, and not made.

    Nothing in it is changed.
    """
    try:
        refuse_remains(path)
        if not size_of(path):
            return FileFaults(path=path, is_open=True)
        # For its refusals: what no store would open is said in the store's words.
        Database(path, busy_timeout_s=_CHECK_TIMEOUT_S, key=key).close()
    except StoreError as error:
        return FileFaults(path=path, is_open=False, faults=(error.message,), cure=error.hint)
    connection = connect(path, key, busy_timeout_ms=int(_CHECK_TIMEOUT_S * 1000))
    try:
        faults = faults_in(connection, faults_max=FAULTS_MAX)
    except apsw.Error as error:
        # Damage may also end the check, as that of the schema does: then this is the fault.
        faults = (str(error),)
    finally:
        connection.close()
    return FileFaults(path=path, is_open=True, faults=faults)


def copy_to(path: Path, target: Path, *, key: bytes | None) -> None:
    """Copy a database to a new file, 0600, checked and on the disk before it has its name.

    Others may write meanwhile. UsageError where `target` is there, StoreError when it cannot be
    copied or is damaged; then there is no copy.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already", hint="name a file that is not")
    with copied(path, beside=target, key=key) as copy:
        copy.rename(target)
        sync_file(target.parent)


@contextmanager
def copied(path: Path, *, beside: Path, key: bytes | None) -> Generator[Path]:
    """Give a checked copy of a database, in a file with a name by chance beside `beside`.

    It is removed at the end unless it has got another name. StoreError as for `copy_to`, and
    FileNotFoundError where somebody has removed the copy meanwhile.
    """
    if not size_of(path):
        raise StoreError(f"{path} is no database: it is not there, or empty", hint="name another")
    beside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = _new_copy(beside)
    try:
        _copy(path, copy, key)
        # The copy and not its source: what is checked here nobody writes to meanwhile.
        found = check_file(copy, key=key)
        if not found.is_sound:
            raise StoreError(f"{path} is damaged: {found.faults[0]}", hint=CURE_OF_DAMAGE)
        sync_file(copy)
        yield copy
    except StoreError:
        copy.stat()  # else it could not be opened because it is gone
        raise
    finally:
        # The check has had it open, and may have left a log beside it.
        for suffix in ("", *BESIDE):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def put_in_place(path: Path, copy: Path, aside: Path, *, key: bytes | None) -> None:
    """Give a copy the place of a database, which is kept under the name `aside`, log and all.

    StoreError while somebody has the database open. Killed between the two steps there is no
    database, which is not taken for a new one: files.py.
    """
    with _alone(path, key):
        # The database before its log. Killed between the two, a log without a database is refused;
        # a database without its log would be opened, and lack what was committed to the log.
        for suffix in ("", *SIDECARS):
            was = path.with_name(path.name + suffix)
            if was.exists():
                was.rename(aside.with_name(aside.name + suffix))
        copy.rename(path)
        sync_file(path.parent)


def _copy(path: Path, copy: Path, key: bytes | None) -> None:
    if not has_locks(path):
        raise without_locks(path, "copy")
    try:
        with closing(connect(path, key)) as source, closing(connect(copy, key)) as target:
            # An encrypted copy must have the page size before it begins.
            target.pragma("page_size", str(source.pragma("page_size")))
            with closing(target.backup("main", source, "main")) as backup:
                # All at once: a copy made in steps begins again whenever somebody has written.
                backup.step(ALL_PAGES)
    except apsw.Error as error:
        raise StoreError(f"{path} could not be copied: {error}", hint=cure(error)) from error


def change_key(path: Path, *, before: bytes | None, after: bytes | None) -> None:
    """Put a copy under another key, None for none, in the place of a database.

    Nobody else may have it open. StoreError when somebody has, or when `before` is not its key;
    after a crash the file is the old one or the new one, whole. (The engine can also write a file
    anew in place. Killed meanwhile, it is damaged by whoever opens it with the other key.)
    """
    place = prepare_file(path)
    connection = connect(place, before, busy_timeout_ms=0)
    try:
        _be_alone(connection)
        # Only now, alone: while others may be here, one of them may be making such a copy.
        # What a process that was killed has left is taken away.
        for each in place.parent.iterdir():
            name, _, chance = each.name.rpartition(".")
            if name == place.name and _CHANCE.fullmatch(chance):
                each.unlink()
        copy = _new_copy(place)
        with_key = f"file:{quote(str(copy))}?key={raw_key(after) if after else ''}"
        connection.execute("VACUUM INTO ?", (with_key,))
        # Before it has the name: a power cut must not leave the name with half a file behind it.
        sync_file(copy)
        # Whoever has opened the old file and waits for it is refused: SQLite does not write to a
        # file that has lost its name.
        copy.replace(place)
        sync_file(place.parent)
    except (apsw.Error, OSError) as error:
        raise StoreError(
            f"the key of {path} could not be changed: {error}", hint=cure(error)
        ) from error
    finally:
        connection.close()


@contextmanager
def _alone(path: Path, key: bytes | None) -> Generator[None]:
    """Have a database to ourselves for the block. One that is damaged or gone nobody can have."""
    if not size_of(path):
        yield
        return
    connection = connect(prepare_file(path), key, busy_timeout_ms=_BUSY_TIMEOUT_MS)
    try:
        with suppress(apsw.CorruptError, apsw.NotADBError):
            _be_alone(connection)
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreError(
            f"another process has {path} open",
            hint="let it finish or end it, then do it again",
        ) from error
    finally:
        connection.close()


def _be_alone(connection: Connection) -> None:
    """Take the file for this connection alone, until it is closed, and remove its log.

    apsw.BusyError or LockedError when somebody else has it open.
    """
    connection.pragma("temp_store", _MEMORY)
    connection.pragma("locking_mode", "exclusive")
    # The log goes only while nobody else has it.
    connection.pragma("journal_mode", "delete")
    # The mode alone takes no lock: it keeps the one that is taken next.
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def _new_copy(place: Path) -> Path:
    """Make an empty file beside another, 0600, with a name by chance; it takes its place later."""
    copy = place.with_name(f"{place.name}.{os.urandom(_COPY_BYTES).hex()}")
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return copy
