"""The open session of a conversation, by one query of a database file and no store.

`upthread id` asks it, as scripts do before each command of theirs. The statement is the store's.
Where anything is out of the ordinary there is no answer, and the store is opened, which says what
it is.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apsw

from upthread.errors import StoreError
from upthread.store.seals import seal_of
from upthread.store.sqlite.files import prepare_file
from upthread.store.sqlite.presence import allow_full_disk, refuse_remains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

BUSY_TIMEOUT_MS = 1_000  # then the store waits, and says who holds the lock

_QUERIES = Path(__file__).parent.parent / "sql" / "sqlite" / "queries.sql"
_IDENTITIES = """
SELECT
    id, quote(project_id), quote(path), quote(root_commit), quote(remote), quote(owner), hex(seal)
FROM project_identity
WHERE path = ?1 OR (root_commit IS NOT NULL AND root_commit = ?2) ORDER BY id
"""
# All that a project is told by: of the same rows it is told in the same way, also once another
# file, a backup say, lies where this one did; and a row that was tampered with is another one.


def open_session(
    database: str,
    identity: Sequence[str | None],
    identities: list[Any],
    key: tuple[str, str, str, int],
) -> tuple[str, str, str] | None:
    """Return conversation id, agent and upstream id of a key's open link.

    None where the store has to be asked. `identity` is path and root commit, and `identities` what
    `identities_in` said of them when it was found which project this is. `key` is project,
    workstream, role and slot.
    """
    try:
        connection = _opened(database)
    except (StoreError, apsw.Error, OSError):
        return None
    try:
        if identities_in(partial(_rows, connection), identity) != identities:
            return None
        found: Any = connection.execute(_statement(), key).fetchone() or (None,)
        is_whole, *row = found
    except (apsw.Error, UnicodeEncodeError):  # the second: a path that is kept as bytes
        return None
    finally:
        connection.close()
    # A text that is not valid Unicode is kept as bytes, NULL is no open link, and a row that is not
    # as it was recorded is told about by the store, which refuses it.
    is_told = is_whole == 1 and all(isinstance(each, str) for each in row)
    return tuple(row) if is_told else None


def identities_in(
    rows: Callable[[str, tuple[Any, ...]], Iterable[Any]], identity: Sequence[str | None]
) -> list[Any]:
    """Return a schema's version, and what a project with a path and a root commit is told by.

    `rows` returns those of a statement with its values, and raises what its caller makes of a
    damaged file.
    """
    ((version,),) = rows("PRAGMA user_version", ())
    return [version, *map(list, rows(_IDENTITIES, tuple(identity[:2])))]


def _rows(connection: Any, statement: str, values: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = connection.execute(statement, values).fetchall()
    return found


def _opened(database: str) -> Any:
    path = Path(database)
    if not path.is_file():
        raise StoreError(f"{database} is not there")
    refuse_remains(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection: Any = apsw.Connection(str(prepare_file(path)), flags=flags)
    allow_full_disk(connection, path)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # Innocuous: without that, no view may call it.
    connection.create_scalar_function(
        "seal", seal_of, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
    )
    return connection


def _statement() -> str:
    """Return the store's `resolve`, asked for the open link's seal and what it is called alone."""
    _, _, rest = _QUERIES.read_text("utf-8").partition("\n-- resolve:")
    statement = rest.partition("\n")[2].partition(";")[0]
    first, _, others = statement.partition("FROM")
    assert "{l.link}" in first, "`resolve` gives the link's columns"
    assert others.count(" link AS l") == 1, "`resolve` reads links from their table"
    sealed = others.replace(" link AS l", " sealed_link AS l")
    return (
        f"SELECT l.seal = l.sealed, c.conversation_id, l.agent, l.upstream_session_id FROM{sealed}"
    )
