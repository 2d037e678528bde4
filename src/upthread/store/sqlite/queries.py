"""The statements, by name. They live in `sql/sqlite/`; this only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

_SQL: Final = Path(__file__).parent.parent / "sql" / "sqlite"


class Migration(NamedTuple):
    """One step of the schema. The checksum tells a file that was changed after its release."""

    version: int
    name: str
    script: str
    checksum: str


def _read_queries() -> Mapping[str, str]:
    queries: dict[str, str] = {}
    for block in (_SQL / "queries.sql").read_text("utf-8").split("\n-- ")[1:]:
        title, _, statement = block.partition("\n")
        queries[title.partition(":")[0]] = " ".join(statement.split())
    return MappingProxyType(queries)


def read_migrations() -> tuple[Migration, ...]:
    """Return all steps, oldest first."""
    return tuple(
        Migration(int(path.name[:4]), path.stem, script, sha256(script.encode()).hexdigest())
        for path in sorted((_SQL / "migrations").glob("[0-9]*.sql"))
        for script in (path.read_text("utf-8"),)
    )


QUERIES: Final = _read_queries()
