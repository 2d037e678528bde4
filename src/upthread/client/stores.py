"""The store that an address names, opened; the key of its encryption; what only a server has.

A key is `file:PATH`, a file of 32 bytes, which belongs on another disk than the database; or
`keyring:NAME`, an entry of the operating system's keyring, through the library of that name, an
extra.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from upthread.client.file_permissions import make_key, read_key
from upthread.config import Settings
from upthread.errors import ConfigError, UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.store.address import file_path, is_postgres
from upthread.store.log import LogStore
from upthread.store.sqlite import BUSY_TIMEOUT_S, SqliteStore
from upthread.store.sqlite.database import KEY_BYTES

if TYPE_CHECKING:
    from upthread.store.postgres import KnownWorker, Migrated

# Measured with workers that were killed and stopped: taken over after some 4 s (ADR 36).
SHARED_LEASE_TIMES: Final = LeaseTimes(heartbeat_s=1.0, stale_after_s=4.0)
"""On PostgreSQL, where a holder is most often on another machine and shows life in no other way."""


def open_store(database: str, *, key: bytes | None = None, wait_s: float | None = None) -> LogStore:
    """Open a store. UsageError for an address of another kind, StoreError when it cannot be.

    `key` is what a file is encrypted with; a server encrypts for itself. `wait_s` is how long a
    call waits for other writers, and for a server; None: as long as usual.
    """
    if is_postgres(database):
        store: LogStore = _postgres().PostgresStore(database, wait_s=wait_s)
        return store
    busy_s = BUSY_TIMEOUT_S if wait_s is None else wait_s
    return SqliteStore(file_path(database), key=key, busy_timeout_s=busy_s)


def migrate_store(database: str) -> Migrated:
    """Bring the schema of a PostgreSQL database up to date; raises UsageError and StoreError."""
    if not is_postgres(database):
        path = file_path(database)
        raise UsageError(
            f"{path} is a SQLite file, which is brought up to date when it is opened",
            hint="name a PostgreSQL database: --db postgres://USER@HOST/DATABASE",
        )
    migrated: Migrated = _postgres().migrate(database)
    return migrated


def workers_of(database: str) -> tuple[KnownWorker, ...]:
    """Return the workers of a shared database, oldest first; UsageError for a SQLite file."""
    if not is_postgres(database):
        raise UsageError(
            "workers share a PostgreSQL database, and this is a SQLite file of one machine",
            hint="--db postgres://USER@HOST/DATABASE, or `upthread run`, which needs no worker",
        )
    store = _postgres()
    store.PostgresStore(database).close()  # whose errors say what is wrong with the schema
    table = store.WorkerTable(database)
    try:
        workers: tuple[KnownWorker, ...] = table.workers()
    finally:
        table.close()
    return workers


def shown_address(database: str) -> str:
    """Return an address as it can be shown: a server's without its password, a file's path."""
    if is_postgres(database):
        return str(_postgres().shown_address(database))
    return str(file_path(database))


def lease_times_for(database: str) -> LeaseTimes | None:
    """Return how leases are kept on a store; None: as on one machine."""
    return SHARED_LEASE_TIMES if is_postgres(database) else None


def _postgres() -> ModuleType:
    """Import what only this store needs: its driver is an extra, and takes its time to load."""
    try:
        from upthread.store import postgres  # noqa: PLC0415  # see above
    except ImportError as error:
        # An import that fails within ours is a fault, and not a driver that is missing.
        if (error.name or "psycopg").partition(".")[0] != "psycopg":
            raise
        raise UsageError(
            f"PostgreSQL needs a driver that is not here: {error}",
            hint="pip install 'upthread[postgres]'",
        ) from error
    return postgres


FILE: Final = "file:"
KEYRING: Final = "keyring:"
SERVICE: Final = "upthread"
"""Under which the keyring lists our keys."""

_LOST: Final = (
    "put it back from a copy, for without it the database cannot be read; "
    "the first one is made by `upthread encrypt`"
)


def key_of(settings: Settings) -> bytes | None:
    """Return the key of the settings' database, None where it is not encrypted.

    ConfigError when it is not where the configuration says. Blocking.
    """
    # A server encrypts for itself.
    if settings.encryption_key is None or is_postgres(settings.database):
        return None
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        return read_key(Path(name).expanduser(), mend=_LOST)
    told = _keyring().get_password(SERVICE, name)
    if told is None:
        raise ConfigError(f"the keyring has no key {name!r} of {SERVICE}", hint=_LOST)
    return _from_hex(told, name)


def made_key(settings: Settings) -> bytes:
    """Return the key of the settings' database, made where there is none yet. Blocking.

    UsageError when the configuration does not say where it is to be.
    """
    if settings.encryption_key is None:
        raise UsageError(
            "nothing says where the key is to be kept",
            hint='write encryption_key = "file:/a/path/elsewhere" or "keyring:NAME" at the top of '
            "your config.toml (see docs/privacy.md)",
        )
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        make_key(Path(name).expanduser())
    elif _keyring().get_password(SERVICE, name) is None:
        _keyring().set_password(SERVICE, name, os.urandom(KEY_BYTES).hex())
    # Read back, so that a key is used only once it is known to be kept.
    key = key_of(settings)
    assert key is not None
    return key


def _kind_and_name(source: str) -> tuple[str, str]:
    for kind in (FILE, KEYRING):
        if source.startswith(kind) and source != kind:
            return kind, source.removeprefix(kind)
    raise ConfigError(
        f"encryption_key = {source!r} says no place", hint='say "file:PATH" or "keyring:NAME"'
    )


def _from_hex(told: str, name: str) -> bytes:
    try:
        key = bytes.fromhex(told)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"what the keyring has under {name!r} is no key", hint=_LOST)
    return key


def _keyring() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as error:
        raise UsageError(
            f"the keyring needs a library that is not here: {error}",
            hint="pip install 'upthread[keyring]', or keep the key in a file: file:PATH",
        ) from error
    module: ModuleType = keyring
    return module
