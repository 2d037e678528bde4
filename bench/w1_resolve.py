"""W1: resolve an address among a hundred, ten thousand and a million conversations.

Raw: one lookup of the upstream id in one table, by workstream and role. Ours:
`SqliteStore.resolve`, which looks in three tables (the newest generation, its newest link, not
ended) and returns values.
The million rows are written with SQL, on both sides: through `commit` they would take minutes.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
from measure import Row, Side, compared, interleaved
from raw import RawStore
from scratch import scratch

from upthread.core.types import ConversationKey, ProjectId
from upthread.store.sqlite import SqliteStore

PROJECT = ProjectId("prj_measured")
SIZES = (100, 10_000, 1_000_000)
SIZES_QUICK = (100, 10_000)
LOOKUPS = 200
BATCHES = 40
LIMIT = 1.5
GROWTH_LIMIT = 2.0

_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
_OURS = """
INSERT INTO workstream (project_id, workstream, base_name, opened_at_ms)
SELECT 'prj_measured', 'spec-' || i, 'Kael-' || i, 1790000000000 FROM n;
INSERT INTO conversation (
    conversation_id, project_id, workstream, role, slot, generation, base_name, opened_at_ms
) SELECT
    printf('con_%026d', i), 'prj_measured', 'spec-' || i, 'planner', 1, 1, 'Kael-' || i,
    1790000000000
FROM n;
INSERT INTO link (
    conversation, seq, upstream_session_id, agent, agent_version, working_directory,
    opened_because, opened_at_ms
) SELECT
    i + 1, 1, printf('ses_%026d', i), 'opencode', '1.0.217', '/home/kim/projects/checkout',
    'none_yet', 1790000000000
FROM n;
"""
_RAW = """
INSERT INTO address (workstream, role, upstream)
SELECT 'spec-' || i, 'planner', printf('ses_%026d', i) FROM n;
"""


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each size, and the growth."""
    sizes = SIZES_QUICK if is_quick else SIZES
    with scratch() as directory:
        sides: dict[str, Side] = {}
        for size in sizes:
            sides[f"raw {size}"] = _raw(directory / f"raw-{size}.db", size)
            sides[f"ours {size}"] = _ours(directory / f"ours-{size}.db", size)
        timings = interleaved(sides, repetitions=150, budget_s=12, operations=LOOKUPS)
    rows = [
        compared("W1", f"resolve among {size:,}", timings[f"raw {size}"], ours, LIMIT)
        for size in sizes
        for ours in (timings[f"ours {size}"],)
    ]
    smallest, largest = (timings[f"ours {size}"].wall_p10_us for size in (sizes[0], sizes[-1]))
    first, last = (timings[f"raw {size}"].wall_p10_us for size in (sizes[0], sizes[-1]))
    growth = Row(
        workload="W1",
        what=f"growth, {sizes[0]:,} to {sizes[-1]:,}",
        raw=smallest,
        ours=largest,
        limit=GROWTH_LIMIT,
        note=f"ours to ours; raw to raw {last / first:.2f}",
    )
    return [*rows, growth]


def _fill(connection: Any, statements: str, size: int) -> None:
    connection.execute("PRAGMA synchronous=OFF")
    with connection:
        for statement in statements.strip().split(";")[:-1]:
            connection.execute(_NUMBERS.format(last=size - 1) + statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _numbers(size: int) -> list[list[int]]:
    """Return what each repetition looks up, the same for both sides."""
    chance = random.Random(size)
    return [[chance.randrange(size) for _ in range(LOOKUPS)] for _ in range(BATCHES)]


def _raw(path: Path, size: int) -> Side:
    store = RawStore(path)
    _fill(store.connection, _RAW, size)
    batches = [[f"spec-{number}" for number in batch] for batch in _numbers(size)]

    def lookups(repetition: int) -> None:
        for name in batches[repetition % BATCHES]:
            assert store.resolve(name, "planner")

    return lookups


def _ours(path: Path, size: int) -> Side:
    SqliteStore(path).close()
    connection: Any = apsw.Connection(str(path))
    _fill(connection, _OURS, size)
    connection.close()
    store = SqliteStore(path)
    batches = [
        [
            ConversationKey(project_id=PROJECT, workstream=f"spec-{number}", role="planner")
            for number in batch
        ]
        for batch in _numbers(size)
    ]

    def lookups(repetition: int) -> None:
        for key in batches[repetition % BATCHES]:
            assert store.resolve(key)

    return lookups
