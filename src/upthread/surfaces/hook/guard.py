"""The guard's first look: whether the record has anything that may be in doubt, in one statement.

A hook asks this before each call that may act beyond this machine, so it loads apsw alone. Where
nothing was left open in the project, the call runs. Otherwise, and where this look cannot tell (a
server, an encrypted file, a repository with several working trees), the whole program decides:
client/agent_calls.py.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

EVENT = "Guard"
"""What the launcher is called with in place of an event's name."""

WAIT_MS = 200

# Whether a conversation's newest turn, and all before it, ended well is in its head: kinds.py.
_LEFT_OPEN = """
SELECT count(c.id) FILTER (
    WHERE json_extract(c.state, '$.turn') IS NOT NULL
    AND json_extract(c.state, '$.turn.is_clear') IS NOT 1
)
FROM tag AS t
JOIN head AS p ON p.id = t.stream
LEFT JOIN head AS c ON c.project = p.project AND c.kind = 'conversation'
WHERE t.tag IN ({paths})
HAVING count(p.id) > 0
"""


def is_clear(home: str, request: bytes, environment: Mapping[str, str]) -> bool:
    """Return whether nothing of the project is in doubt for certain; False where nobody can tell.

    Changes nothing.
    """
    database = environment.get("UPTHREAD_DB") or os.path.join(home, "upthread.db")
    if "://" in database:
        return False
    if not os.path.exists(database):
        return not os.path.lexists(f"{database}.key")  # without its key nothing was ever recorded
    import apsw

    try:
        connection: Any = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(WAIT_MS)
        # Read by SQLite: Python's own module for JSON takes longer to load than all of this.
        told = connection.execute("SELECT json_extract(?, '$.cwd')", (request.decode(),)).fetchall()
        paths = list(_above(os.path.realpath(str(told[0][0]))))
        tags = ",".join(["'path ' || json_array(?)"] * len(paths))
        left_open = _LEFT_OPEN.format(paths=tags)
        return bool(connection.execute(left_open, paths).fetchall() == [(0,)])
    except (apsw.Error, TypeError, ValueError):
        return False


def _above(directory: str) -> Iterator[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]
    yield "/"
