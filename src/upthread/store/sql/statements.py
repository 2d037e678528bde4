"""The statements of a backend, by name, and the steps of its schema. They lie beside this file.

Columns that are the fields of a value are not written out in each statement. `{link}` is the
columns of a link, `{l.link}` those of the table `l`, `{2:link}` the places of its values, numbered
from 2. What they are is said by the value itself, in the order of its fields: a new field of
`Link` is a column in all statements once a migration has made it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from upthread.core.decision.examined import ExaminedFile
from upthread.core.lazy_regex import regex
from upthread.core.types import Conversation, ConversationKey, Link, ProjectIdentity
from upthread.store.base import Run, Workstream

_SQL: Final = Path(__file__).parent


def _fields(value: type[Any], *, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return tuple(name for name in value.__struct_fields__ if name not in without)


def _conversation_columns() -> tuple[str, ...]:
    """Return a conversation's columns: its key stands in it as columns of its own."""
    names: list[str] = []
    for name in _fields(Conversation):
        names += _fields(ConversationKey) if name == "key" else (name,)
    return tuple(names)


# Its conversation is a row on one backend and a name on the other; its end is a row of its own.
_NOT_OF_A_LINK: Final = frozenset({"conversation_id", "ended_because", "ended_at_ms"})

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "identity": _fields(ProjectIdentity),
        "workstream": _fields(Workstream),
        "key": _fields(ConversationKey),
        "conversation": _conversation_columns(),
        "link": _fields(Link, without=_NOT_OF_A_LINK),
        "run": _fields(Run),
        "examined": _fields(ExaminedFile),
    }
)
"""The columns of a value that are called alike on both backends, in the order of its fields."""

_PLACE: Final = regex(r"\{(?:(?P<table>[a-z]+)\.|(?P<first>\d+):)?(?P<value>[a-z]+)\}")
_MARKS: Final = MappingProxyType({"sqlite": "?", "postgres": "$"})


class Migration(NamedTuple):
    """One step of the schema. The checksum tells a file that was changed after its release."""

    version: int
    name: str
    script: str
    checksum: str


def read_queries(dialect: str, file: str = "queries") -> Mapping[str, str]:
    """Return all statements of `DIALECT/FILE.sql`, each on one line, their columns written out."""
    queries: dict[str, str] = {}
    # What stands before the first name is about the file.
    for block in (_SQL / dialect / f"{file}.sql").read_text("utf-8").split("\n-- ")[1:]:
        title, _, statement = block.partition("\n")
        # A comment within a statement would swallow the rest of it here: what is to be said of it
        # goes into its title.
        one_line = " ".join(statement.split())
        queries[title.partition(":")[0]] = _PLACE.sub(
            lambda place: _written_out(place, _MARKS[dialect]), one_line
        )
    return MappingProxyType(queries)


def _written_out(place: re.Match[str], mark: str) -> str:
    names = COLUMNS[place["value"]]
    if place["first"]:
        first = int(place["first"])
        return ", ".join(f"{mark}{number}" for number in range(first, first + len(names)))
    return ", ".join(f"{place['table']}.{name}" if place["table"] else name for name in names)


@functools.cache
def read_migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all steps of `DIALECT/migrations/`, oldest first."""
    return tuple(
        Migration(int(path.name[:4]), path.stem, script, sha256(script.encode()).hexdigest())
        for path in sorted((_SQL / dialect / "migrations").glob("[0-9]*.sql"))
        for script in (path.read_text("utf-8"),)
    )
