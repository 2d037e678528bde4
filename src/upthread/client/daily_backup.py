"""Daily backups of a SQLite database, which `upthread restore` puts in its place.

A verb that writes makes a backup after its reply, once a day. The newest BACKUPS_MAX are kept. A
backup holds whatever the database held, so `forget` removes all of them, unfinished copies too: a
copy that began before the erasure then finds no file to rename.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Final

from upthread.client.database_files import BACKUPS, carry_key
from upthread.client.encryption import key_of
from upthread.client.file_permissions import secure_home
from upthread.config import Settings
from upthread.store.address import KEY_SUFFIX, file_path, is_postgres, key_path
from upthread.store.sqlite.backup import copied
from upthread.store.sqlite.files import size_of, sync_file

BACKUPS_MAX: Final = 3
FREE_BYTES_MIN: Final = 1024**3
"""No backup is made where less than this would stay free on the disk."""

_DIRECTORY: Final = "daily"
_DIGEST_CHARACTERS: Final = 8


def back_up_daily(settings: Settings, *, today: str | None = None) -> Path | None:
    """Make the backup of the day, and remove the oldest ones. Blocking, reads the whole database.

    Returns the backup, and None where there is nothing to do: today has one, the disk is nearly
    full, `forget` has erased meanwhile, or the database is a server's. `today` is, for example,
    20261129. StoreError for a damaged database, whose older backups then stay.
    """
    if is_postgres(settings.database):
        return None
    path = file_path(settings.database)
    first = _first_name(settings, path)
    target = first.with_name(
        f"{first.name}-{today or time.strftime('%Y%m%d', time.gmtime())}{path.suffix}"
    )
    size_bytes = size_of(path)
    if not size_bytes or target.exists():
        return None
    secure_home(Path(settings.home))
    for directory in (target.parent.parent, target.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    if _free_bytes(target.parent) - size_bytes < FREE_BYTES_MIN:
        return None
    try:
        with copied(path, beside=target, key=key_of(settings)) as copy:
            # The key first: a backup without it would be put in place with another one.
            carry_key(key_path(str(path.absolute()), Path(settings.home)), target)
            copy.rename(target)
            sync_file(target.parent)
    except FileNotFoundError:
        return None
    kept = sorted(daily_backups(settings))[-BACKUPS_MAX:]
    # Copies that a killed process left go, too. A copy that another process makes at this moment
    # goes with them: that process finds no file to rename, as after `forget`.
    keys = (each.with_name(each.name + KEY_SUFFIX) for each in kept)
    _remove(set(_files(settings)) - {*kept, *keys})
    return target


def daily_backups(settings: Settings) -> list[Path]:
    """Return the daily backups of the settings' database."""
    suffix = file_path(settings.database).suffix
    name = re.compile(rf".*-\d{{8}}{re.escape(suffix)}", re.DOTALL)
    return [each for each in _files(settings) if name.fullmatch(each.name)]


def remove_daily_backups(settings: Settings) -> None:
    """Remove all daily backups of the settings' database, with their keys and unfinished copies."""
    _remove(_files(settings))


def _files(settings: Settings) -> list[Path]:
    if is_postgres(settings.database):
        return []
    first = _first_name(settings, file_path(settings.database))
    return list(first.parent.glob(f"{escape(first.name)}-*"))


def _first_name(settings: Settings, path: Path) -> Path:
    """Return how the names of a database's backups begin: a home may serve several databases."""
    digest = sha256(os.fsencode(path.absolute())).hexdigest()[:_DIGEST_CHARACTERS]
    return Path(settings.home) / BACKUPS / _DIRECTORY / f"{path.stem}-{digest}"


def _remove(files: Iterable[Path]) -> None:
    for each in files:
        each.unlink(missing_ok=True)


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
