"""Which store an address names, from `--db` or UPTHREAD_DB: a SQLite file, or PostgreSQL.

DATABASE_URL is never read: it belongs to the application that is worked on. Loads no store: to tell
whether there is one takes its name alone.
"""

import re
from pathlib import Path

from upthread.errors import UsageError

KEY_SUFFIX = ".key"
"""What is added to a database's name for the key of its redactions. Made after its schema."""

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgres://", "postgresql://")

_NO_PATH = re.compile(
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

_MISTYPED = re.compile(
    r"""
      (?!\.\.?/)[^/]+//          # a URL whose colon is missing, or is another character
    | (?!\.\.?/)[^/].*:.*@       # or one with a slash missing: a password before a host
    | /+[^/]*:.*@                # or one without its scheme
    | .*(?:^|[\s'"?&])(?:host|hostaddr|port|user|password|dbname|service|sslmode)\s*=
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""What looks like an address badly typed, even where a path may stand. After `./` it is one."""

_KNOWN_SCHEMES = frozenset(
    {"file", "http", "https", "mariadb", "mysql", "postgres", "postgresql", "sqlite"}
)


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
        address = f"a {scheme} address" if scheme in _KNOWN_SCHEMES else "an address"
        raise UsageError(
            f"a database cannot be opened by such {address}: it is neither a path nor a URL "
            "that is known here",
            hint="give postgres://USER@HOST/DATABASE, or a file as /PATH, ./PATH or sqlite:///PATH",
        )
    return Path(path)
