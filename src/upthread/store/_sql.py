"""The statements of a backend, by name, and the steps of its schema. They live in `sql/`."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

_SQL: Final = Path(__file__).parent / "sql"


class Migration(NamedTuple):
    """One step of the schema. The checksum tells a file that was changed after its release."""

    version: int
    name: str
    script: str
    checksum: str


def read_queries(dialect: str, file: str = "queries") -> Mapping[str, str]:
    """Return all statements of `sql/DIALECT/FILE.sql`, each on one line."""
    queries: dict[str, str] = {}
    for block in (_SQL / dialect / f"{file}.sql").read_text("utf-8").split("\n-- ")[1:]:
        title, _, statement = block.partition("\n")
        queries[title.partition(":")[0]] = " ".join(statement.split())
    return MappingProxyType(queries)


def read_migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all steps of `sql/DIALECT/migrations/`, oldest first."""
    return tuple(
        Migration(int(path.name[:4]), path.stem, script, sha256(script.encode()).hexdigest())
        for path in sorted((_SQL / dialect / "migrations").glob("[0-9]*.sql"))
        for script in (path.read_text("utf-8"),)
    )
