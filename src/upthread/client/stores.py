"""Which store an address names, from `--db` or UPTHREAD_DB: a SQLite file, or PostgreSQL.

DATABASE_URL is never read: it belongs to the application that is worked on.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from upthread.core.lazy_regex import regex
from upthread.errors import UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.store.base import WholeStore
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.presence import KEY_SUFFIX

if TYPE_CHECKING:
    from upthread.store.postgres import KnownWorker, Migrated

SQLITE_PREFIX: Final = "sqlite:///"
POSTGRES_PREFIXES: Final = ("postgres://", "postgresql://")

_NO_PATH: Final = regex(
    r"""
      [A-Za-z][A-Za-z0-9+.-]*:   # a URL of any kind, or USER:PASSWORD@HOST
    | [^/]*[@=]                  # USER@HOST, or the words of a connection string
    | //                         # a URL without its scheme
    | :                          # a name of SQLite's own, such as :memory:
    | .*(?:://|[\0-\x1f\x7f])    # a URL with something before it, or what no path is typed with
    | \s*$
    """,
    re.VERBOSE | re.DOTALL,
)
"""What is not clearly a file's path. It may be an address with a password in it, badly typed."""

_MISTYPED: Final = regex(
    r"""
      (?!\.\.?/)[^/]+//          # a URL whose colon is missing, or is another character
    | (?!\.\.?/)[^/].*:.*@       # or one with a slash missing: a password before a host
    | /+[^/]*:.*@                # or one without its scheme
    | .*(?:^|[\s'"?&])(?:host|hostaddr|port|user|password|dbname|service|sslmode)\s*=
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""What looks like an address badly typed, even where a path may stand. After `./` it is one."""

_KNOWN_SCHEMES: Final = frozenset(
    {"file", "http", "https", "mariadb", "mysql", "postgres", "postgresql", "sqlite"}
)

# Measured with workers that were killed and stopped: taken over after some 4 s (ADR 36).
SHARED_LEASE_TIMES: Final = LeaseTimes(heartbeat_s=1.0, stale_after_s=4.0)
"""On PostgreSQL, where a holder is most often on another machine and shows life in no other way."""


def open_store(database: str, *, key: bytes | None = None) -> WholeStore:
    """Open a store. UsageError for an address of another kind, StoreError when it cannot be.

    `key` is what a file is encrypted with; a server encrypts for itself.
    """
    if is_postgres(database):
        store: WholeStore = _postgres().PostgresStore(database)
        return store
    return SqliteStore(file_path(database), key=key)


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


def is_postgres(database: str) -> bool:
    """Return whether an address names a PostgreSQL database."""
    return database.startswith(POSTGRES_PREFIXES)


def key_path(database: str, home: Path) -> Path:
    """Return where the key of a store's redactions lies: beside its file, else in the home.

    Of a shared database every machine needs the same one.
    """
    if is_postgres(database):
        return home / f"postgres{KEY_SUFFIX}"
    path = file_path(database)
    return path.with_name(path.name + KEY_SUFFIX)


def database_files(database: str) -> tuple[Path, ...]:
    """Return the files a database may have, whether they are there or not; none of a server's."""
    if is_postgres(database):
        return ()
    path = file_path(database)
    return tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))


def file_path(database: str) -> Path:
    """Return the file of a SQLite address. UsageError for all that is not clearly one.

    What was given is not repeated: it may hold a password, which would then be a file's name too.
    """
    path = database.removeprefix(SQLITE_PREFIX)
    # What follows the prefix was said to be a path: of that only what is none in all likelihood is
    # refused.
    is_said = path != database
    is_none = not path.strip() or "\0" in path or "://" in path if is_said else _NO_PATH.match(path)
    if is_none or _MISTYPED.match(path):
        # Named only where it is a scheme that is known: what stands first may be a password.
        scheme = re.split("[:+]", database, maxsplit=1)[0].lower()
        raise UsageError(
            f"a database cannot be opened by such {_an(scheme)}: it is neither a path nor a URL "
            "that is known here",
            hint="give postgres://USER@HOST/DATABASE, or a file as /PATH, ./PATH or sqlite:///PATH",
        )
    return Path(path)


def _an(scheme: str) -> str:
    return f"a {scheme} address" if scheme in _KNOWN_SCHEMES else "an address"


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
