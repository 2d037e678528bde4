"""W10: the shared store beside raw psycopg: resolve among many, eight writers, and twenty.

The server is the tests' own, on a socket, with fsync. Raw is psycopg with prepared statements and
one table; it writes a message in a commit, six to a turn, where ours makes five, all of them
synced. The writers have a second measure, a trend: psycopg alone, which sends the statements that
ours sends for the same turns, all made beforehand. Raw to sent is what leases, chains and the life
of a turn cost the server, whoever asks for it; sent to ours is what making them costs us.

Resolving is measured on one processor, both sides. With two, each exchange wakes an idle one, which
on a virtual machine takes longer than either side's work, and which of the sides is spared that is
the scheduler's choice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import raw
import w6_writers
from measure import Row, Side, compared, interleaved
from tests.support.default_turn import MESSAGES, Place, commits_of, open_place, prepare_turn
from tests.support.postgres_server import (
    OWNER,
    PostgresServer,
    as_owner,
    make_owner,
    with_database,
)
from upthread.store.postgres.batch import Known
from upthread.store.postgres.queries import to_columns
from upthread.store.postgres.remembered import Memory
from upthread.store.sql.batch import NO_PART
from upthread.store.sql.writes import prepared
from w1_resolve import LOOKUPS, PROJECT

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
SENT_TURNS = 1_500
"""More than a writer comes to in a round."""

_RAW_SCHEMA = """
CREATE SCHEMA raw;
CREATE TABLE raw.message (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream BIGINT,
    body BYTEA);
CREATE INDEX ON raw.message (stream, id);
CREATE TABLE raw.address (workstream TEXT, role TEXT, upstream TEXT,
    PRIMARY KEY (workstream, role));
"""
_RAW_ROWS = """
INSERT INTO raw.address SELECT 'big-' || i, 'planner', 'ses_' || i FROM generate_series(1, {n}) i
"""
_ROWS = (
    """INSERT INTO upthread.conversation (conversation_id, project_id, workstream, role, slot,
    generation, base_name, opened_at_ms) SELECT ('con_big_' || i)::bytea, 'prj_measured',
    ('big-' || i)::bytea, 'planner', 1, 1, ('Kael-' || i)::bytea, 1790000000000
    FROM generate_series(1, {n}) i""",
    """INSERT INTO upthread.link (conversation_id, seq, upstream_session_id, agent, agent_version,
    working_directory, opened_because, opened_at_ms) SELECT ('con_big_' || i)::bytea, 1,
    ('ses_' || i)::bytea, 'opencode', '1.0.217', '/home/kim', 'none_yet', 1790000000000
    FROM generate_series(1, {n}) i""",
    "ANALYZE upthread.conversation, upthread.link, raw.address",
)
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
        for statement in (_RAW_ROWS, _ACT_FOR, *_ROWS):
            connection.execute(statement.format(n=size).encode())
    with _on_one_processor():
        return _resolved(address, size)


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
                project_id=PROJECT, workstream=f"big-{number}", role="planner", slot=1
            )
            found = store.resolve(key)
            assert found is not None
            assert found.link is not None

    def theirs(repetition: int) -> None:
        for number in _numbers(repetition, size):
            row = bare.execute(_RESOLVE, (f"big-{number}", "planner"), binary=True).fetchone()
            assert row is not None

    sides: dict[str, Side] = {"raw": theirs, "ours": ours}
    timings = interleaved(sides, repetitions=60, budget_s=12, operations=LOOKUPS)
    store.close()
    bare.close()
    what = f"PostgreSQL: resolve among {size:,}"
    return compared("W10", what, timings["raw"], timings["ours"], RESOLVE_LIMIT)


def _numbers(repetition: int, size: int) -> list[int]:
    chance = random.Random(repetition)
    return [chance.randint(1, size) for _ in range(LOOKUPS)]


def _writers(address: str, *, rounds: int) -> list[Row]:
    place: Any = address  # a side is given where its store is
    found: dict[str, list[w6_writers.Written]] = {"raw": [], "sent": [], "ours": []}
    for _ in range(rounds):
        for side, written in found.items():
            written.append(w6_writers.round_of(place, _SIDES[side], writers=w6_writers.WRITERS))
    many = w6_writers.round_of(place, _ours, writers=w6_writers.WRITERS_MANY)
    best = {side: max(written) for side, written in found.items()}
    return [
        _of_writers("", best["raw"], best["ours"], at_least=WRITERS_AT_LEAST),
        _of_writers(", raw sends the same", best["sent"], best["ours"]),
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


def _of_writers(
    how: str, raw: w6_writers.Written, ours: w6_writers.Written, *, at_least: float | None = None
) -> Row:
    return Row(
        workload="W10",
        what=f"PostgreSQL: {w6_writers.WRITERS} writers{how}",
        raw=raw.turns_per_s,
        ours=ours.turns_per_s,
        unit="turns/s",
        at_least=at_least,
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


class _Noted:
    """Notes the statements of commits instead of sending them."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Sequence[Any]]] = []

    def send(self, statement: bytes, values: Sequence[Any]) -> None:
        self.sent.append((statement, values))


def _sent(address: Path, writer: int) -> w6_writers.Turn:
    store = PostgresStore(as_owner(str(address)))
    place = open_place(store, f"sent-{os.getpid()}-{writer}")
    store.close()
    turns = list(_statements(place))
    connection = psycopg.connect(
        as_owner(str(address)),
        autocommit=True,
        prepare_threshold=0,
        cursor_factory=psycopg.RawCursor,
    )

    connection.execute(_ACT_FOR.encode())

    def write(number: int) -> None:
        for statement, values in turns[number]:
            connection.execute(statement, values, binary=True).fetchall()

    return write


def _statements(place: Place) -> Iterator[list[tuple[bytes, Sequence[Any]]]]:
    """Yield what ours sends for turn after turn of a place that is new."""
    conversation = encode_text(place.conversation.conversation_id)
    memory, fences = Memory(), (place.fence,)
    memory.put(Known(tails={conversation: NO_PART}))
    for number in range(SENT_TURNS):
        noted: Any = _Noted()
        for writes in commits_of(place, prepare_turn(place, number)):
            steps = [prepared(write, to_columns) for write in writes]
            assert memory.commit(noted, steps, fences)
        place.next_seq += MESSAGES
        place.turns += 1
        yield noted.sent


_SIDES = {"raw": _raw, "sent": _sent, "ours": _ours}
