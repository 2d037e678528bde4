"""Whole database files: copied while others write, and put in the place of one another.

A copy is what was committed at one moment, log and all, under the same key. Nothing is ever
deleted but a copy of ours that did not become one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from upthread.errors import StoreError, UsageError
from upthread.store.sqlite.encryption import be_alone, connect, cure, new_copy
from upthread.store.sqlite.files import BESIDE, SIDECARS, prepare_file, sync_file
from upthread.store.sqlite.integrity import check_file
from upthread.store.sqlite.presence import CURE_OF_DAMAGE, size_of

ALL_PAGES: Final = -1
_BUSY_TIMEOUT_MS: Final = 5_000


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
    copy = new_copy(beside)
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
    database, which is not taken for a new one: presence.py.
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
    try:
        with closing(connect(path, key)) as source, closing(connect(copy, key)) as target:
            # An encrypted copy must have the page size before it begins.
            target.pragma("page_size", str(source.pragma("page_size")))
            with closing(target.backup("main", source, "main")) as backup:
                # All at once: a copy made in steps begins again whenever somebody has written.
                backup.step(ALL_PAGES)
    except apsw.Error as error:
        raise StoreError(f"{path} could not be copied: {error}", hint=cure(error)) from error


@contextmanager
def _alone(path: Path, key: bytes | None) -> Generator[None]:
    """Have a database to ourselves for the block. One that is damaged or gone nobody can have."""
    if not size_of(path):
        yield
        return
    connection = connect(prepare_file(path), key, busy_timeout_ms=_BUSY_TIMEOUT_MS)
    try:
        with suppress(apsw.CorruptError, apsw.NotADBError):
            be_alone(connection)
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreError(
            f"another process has {path} open",
            hint="let it finish or end it, then do it again",
        ) from error
    finally:
        connection.close()
