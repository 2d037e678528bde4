"""What is in a SQLite file, in words that do not depend on its own row numbers."""

from pathlib import Path
from typing import Any

import apsw

HEADS = """
SELECT kind, name, project, last, hash, state FROM head WHERE kind <> 'project' ORDER BY kind, id
"""
ENTRIES = """
SELECT e.kind, h.kind, h.name, e.seq, e.at_ms, e.kept, e.said, e.digest, e.hash
FROM entry AS e JOIN head AS h ON h.id = e.stream WHERE e.kind <> 'identity'
ORDER BY h.kind, h.id, seq
"""
# A project may be known by other paths, too, in the place that it is moved to.
IDENTITIES = """
SELECT e.kept FROM entry AS e WHERE kind = 'identity' AND kept ->> '$.identity.owner' IS NULL
ORDER BY kept
"""
TAGS = """
SELECT t.tag, iif(t.nth = t.stream, NULL, t.nth), h.name, t.seq
FROM tag AS t JOIN head AS h ON h.id = t.stream WHERE h.kind <> 'project' ORDER BY tag, nth
"""

Dump = dict[str, list[tuple[Any, ...]]]


def dump(path: Path) -> Dump:
    """Return what there is by the kind of entry, with heads, tags, and the paths of this machine.

    Leases are left out: who holds something is true of one store only.
    """
    connection = apsw.Connection(str(path))
    found: Dump = {
        "head": connection.execute(HEADS).fetchall(),
        "tag": sorted(connection.execute(TAGS).fetchall(), key=repr),
        "identity": connection.execute(IDENTITIES).fetchall(),
    }
    for kind, *row in connection.execute(ENTRIES):
        found.setdefault(kind, []).append(tuple(row))
    connection.close()
    return found
