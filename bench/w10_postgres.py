"""W10: the shared store beside raw psycopg: resolve among many, eight writers, and twenty.

The server is the tests' own, on a socket, with fsync. Raw is psycopg with prepared statements and
one table; it writes a message in a commit, six to a turn, where ours makes five, all of them
synced.

Resolving is measured on one processor, both sides. With two, each exchange wakes an idle one, which
on a virtual machine takes longer than either side's work, and which of the sides is spared that is
the scheduler's choice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import raw
import w6_writers
from measure import Row, Side, compared, interleaved
from tests.support.default_turn import open_place
from tests.support.postgres_server import OWNER, PostgresServer, as_owner, make_owner, with_database
from w1_resolve import LOOKUPS, PROJECT, many_heads

from upthread.core.codec import encode_text
from upthread.core.types import ConversationKey
from upthread.store.postgres import PostgresStore, migrate

SIZE = 1_000_000
SIZE_QUICK = 10_000
RESOLVE_LIMIT = 2.0
BUFFERS_MIB = 1_024
"""As much as its keeper would give a server of this size: a million of either side fit in."""
WRITERS_AT_LEAST = 0.6
ROUNDS = 4

_RAW_SCHEMA = """
CREATE SCHEMA raw;
CREATE TABLE raw.message (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream BIGINT,
    body BYTEA);
CREATE INDEX ON raw.message (stream, id);
CREATE TABLE raw.address (workstream TEXT, role TEXT, upstream TEXT,
    PRIMARY KEY (workstream, role));
"""
_RAW_ROWS = """
INSERT INTO raw.address SELECT 'spec-' || i, 'planner', 'ses_' || i
FROM generate_series(0, {n} - 1) i
"""
_COLUMNS = "(id, kind, name, project, last, hash, state, seal)"
_FIRST = 1_000_000
"""Comes before the ids of the rows that are copied: the writers have made rows by then."""
_HEAD = f"COPY upthread.head {_COLUMNS} FROM STDIN (FORMAT BINARY)"
_TAG = "COPY upthread.tag (tag, nth, project, stream, seq) FROM STDIN (FORMAT BINARY)"
_ACT_FOR = f"SET upthread.project = 'x{encode_text(PROJECT).hex()}'"
_RESOLVE = "SELECT upstream FROM raw.address WHERE workstream = %s AND role = %s"
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
_APPEND = "INSERT INTO raw.message (stream, body) VALUES (%s, %s)"


def measure(*, is_quick: bool) -> list[Row]:
    """Return the rows: resolve, turns a second, errors."""
    server = PostgresServer(is_synced=True, buffers_mib=BUFFERS_MIB)
    try:
        with psycopg.connect(server.address, autocommit=True) as connection:
            make_owner(connection)
            connection.execute(f"CREATE DATABASE measured OWNER {OWNER}")
        address = with_database(server.address, "measured")
        migrate(as_owner(address))
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_RAW_SCHEMA)
        written = _writers(address, rounds=1 if is_quick else ROUNDS)
        return [*written, _resolving(address, SIZE_QUICK if is_quick else SIZE)]
    finally:
        server.remove()


def _resolving(address: str, size: int) -> Row:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_RAW_ROWS.format(n=size).encode())
        _fill(connection, size)
        connection.execute("ANALYZE upthread.head, upthread.tag, raw.address")
    with _on_one_processor():
        return _resolved(address, size)


def _fill(connection: psycopg.Connection[Any], size: int) -> None:
    project = encode_text(PROJECT)
    connection.execute(_ACT_FOR.encode())
    with connection.cursor() as cursor, cursor.copy(_HEAD) as copy:
        copy.set_types(["int8", "text", "bytea", "bytea", "int4", "bytea", "bytea", "bytea"])
        for each in many_heads(size):
            name, state = each.name.encode(), each.state.encode()
            row = (
                _FIRST + each.row,
                "conversation",
                name,
                project,
                each.last,
                each.hash,
                state,
                each.seal,
            )
            copy.write_row(row)
    with connection.cursor() as cursor, cursor.copy(_TAG) as copy:
        copy.set_types(["bytea", "int8", "bytea", "int8", "int4"])
        for each in many_heads(size):
            copy.write_row((each.tag.encode(), 1, project, _FIRST + each.row, 1))


@contextmanager
def _on_one_processor() -> Iterator[None]:
    """Keep this process on one processor; those of the server are put beside it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _resolved(address: str, size: int) -> Row:
    store = PostgresStore(as_owner(address))
    store.act_for(PROJECT)
    bare = psycopg.connect(address, autocommit=True, prepare_threshold=0)
    with psycopg.connect(address, autocommit=True) as connection:
        for (pid,) in connection.execute(_BACKENDS):
            os.sched_setaffinity(pid, os.sched_getaffinity(0))

    def ours(repetition: int) -> None:
        for number in _numbers(repetition, size):
            key = ConversationKey(
                project_id=PROJECT, workstream=f"spec-{number}", role="planner", slot=1
            )
            found = store.resolve(key)
            assert found is not None
            assert found.link is not None

    def theirs(repetition: int) -> None:
        for number in _numbers(repetition, size):
            row = bare.execute(_RESOLVE, (f"spec-{number}", "planner"), binary=True).fetchone()
            assert row is not None

    sides: dict[str, Side] = {"raw": theirs, "ours": ours}
    timings = interleaved(sides, repetitions=60, budget_s=12, operations=LOOKUPS)
    store.close()
    bare.close()
    what = f"PostgreSQL: resolve among {size:,}"
    return compared("W10", what, timings["raw"], timings["ours"], RESOLVE_LIMIT)


def _numbers(repetition: int, size: int) -> list[int]:
    chance = random.Random(repetition)
    return [chance.randrange(size) for _ in range(LOOKUPS)]


def _writers(address: str, *, rounds: int) -> list[Row]:
    place: Any = address  # a side is given where its store is
    found: dict[str, list[w6_writers.Written]] = {"raw": [], "ours": []}
    for _ in range(rounds):
        for side, written in found.items():
            written.append(w6_writers.round_of(place, _SIDES[side], writers=w6_writers.WRITERS))
    many = w6_writers.round_of(place, _ours, writers=w6_writers.WRITERS_MANY)
    best = {side: max(written) for side, written in found.items()}
    return [
        _of_writers(best["raw"], best["ours"]),
        Row(
            workload="W10",
            what=f"PostgreSQL: errors of {w6_writers.WRITERS_MANY} writers",
            raw=None,
            ours=len(many.errors),
            unit="errors",
            limit=0,
            note="; ".join(sorted(set(many.errors)))[:200],
        ),
    ]


def _of_writers(raw: w6_writers.Written, ours: w6_writers.Written) -> Row:
    return Row(
        workload="W10",
        what=f"PostgreSQL: {w6_writers.WRITERS} writers",
        raw=raw.turns_per_s,
        ours=ours.turns_per_s,
        unit="turns/s",
        at_least=WRITERS_AT_LEAST,
        note=f"p99 {raw.p99_ms:.0f} and {ours.p99_ms:.0f} ms",
    )


def _raw(address: Path, writer: int) -> w6_writers.Turn:
    connection = psycopg.connect(str(address), autocommit=True, prepare_threshold=0)
    turns = [raw.bodies(number) for number in range(64)]

    def write(number: int) -> None:
        for message in turns[number % 64]:
            connection.execute(_APPEND, (writer, raw.encode(message)), binary=True)

    return write


def _ours(address: Path, writer: int) -> w6_writers.Turn:
    store = PostgresStore(as_owner(str(address)))
    place = open_place(store, f"spec-{os.getpid()}-{writer}")  # each round has writers of its own
    return w6_writers.recording(store, place)


_SIDES = {"raw": _raw, "ours": _ours}
