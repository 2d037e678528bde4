"""W2: a durable turn of six messages, 12.7 kB of text, on a history of 10, 1,000 and 10,000.

Ours: the writes of `tests.support.default_turn` through the recorder and `SqliteStore.commit`,
in five commits under a lease, the last one synced. Raw: each of the six messages in a commit of its
own, the last one synced, as a stream is kept. A second raw row has all six in one commit, which
loses the turn in a crash: it is what streaming costs, and has no verdict.

What is said is made before the clock runs, on both sides; encoding is measured, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import raw
from measure import COUNTED, Row, Side, Timing, compared, interleaved
from raw import RawStore
from scratch import scratch
from tests.support.default_turn import (
    MESSAGES,
    Place,
    commits_of,
    open_place,
    prepare_turn,
    record_turn,
)
from tests.support.sqlite_faults import FaultyFileSystem, faulty_file_system

from upthread.store.sqlite import SqliteStore

HISTORIES = (10, 1_000, 10_000)
REPETITIONS = 150
TURNS_COUNTED = 100
TURNS_PER_FILL = 50
LIMIT = 1.6
GROWTH_LIMIT = 1.1
BYTES_LIMIT = 1.2


def measure(*, is_quick: bool) -> list[Row]:
    """Return a row for each history, the growth, and what was counted."""
    with scratch() as directory:
        sides: dict[str, Side] = {}
        for messages in HISTORIES:
            sides[f"raw {messages}"] = _raw(directory / f"raw-{messages}.db", messages)
            sides[f"ours {messages}"] = _ours(directory / f"ours-{messages}.db", messages)
        sides["at once"] = _raw_at_once(directory / "raw-at-once.db")
        budget_s = 8 if is_quick else 30
        timings = interleaved(sides, repetitions=REPETITIONS, budget_s=budget_s)
        counts = {"raw": _counted(directory, _raw_turns), "ours": _counted(directory, _our_turns)}
    return [*_timed_rows(timings), *_counted_rows(counts)]


def _timed_rows(timings: dict[str, Timing]) -> list[Row]:
    rows = [
        compared(
            "W2",
            f"turn on a history of {messages:,}",
            timings[f"raw {messages}"],
            timings[f"ours {messages}"],
            LIMIT,
        )
        for messages in HISTORIES
    ]
    first, last = timings[f"ours {HISTORIES[0]}"], timings[f"ours {HISTORIES[-1]}"]
    growth = compared(
        "W2",
        f"growth, {HISTORIES[0]} to {HISTORIES[-1]:,}",
        first,
        last,
        GROWTH_LIMIT,
        "ours to ours",
    )
    at_once = compared(
        "W2", "turn, raw in one commit", timings["at once"], first, None, "raw loses it in a crash"
    )
    return [*rows, growth, at_once]


def _counted_rows(counts: dict[str, dict[str, float]]) -> list[Row]:
    limits = {"syncs": 1.0, "grown_bytes": BYTES_LIMIT}
    words = {
        "syncs": "synced commits a turn",
        "statements": "statements a turn",
        "log_bytes": "written to log and file a turn",
        "grown_bytes": "growth of the database a turn",
    }
    return [
        Row(
            workload="W2",
            what=what,
            raw=counts["raw"][name],
            ours=counts["ours"][name],
            unit="B" if name.endswith("bytes") else "",
            limit=limits.get(name),
            note=COUNTED,
        )
        for name, what in words.items()
    ]


# --- the sides ---------------------------------------------------------------------------------


def fill(store: SqliteStore, place: Place, messages: int) -> None:
    """Write a history, many turns a commit."""
    turns = messages // MESSAGES
    for first in range(0, turns, TURNS_PER_FILL):
        writes: list[Any] = []
        for number in range(first, min(first + TURNS_PER_FILL, turns)):
            for commit in commits_of(place, prepare_turn(place, number)):
                writes += commit
            place.next_seq += MESSAGES
            place.turns += 1
        store.commit(writes)


def _ours(path: Path, messages: int) -> Side:
    store = SqliteStore(path)
    place = open_place(store, "spec-42")
    fill(store, place, messages)
    first = place.turns
    turns = [prepare_turn(place, first + number) for number in range(REPETITIONS + 1)]
    return lambda repetition: record_turn(store, place, turns[repetition])


def _raw(path: Path, messages: int) -> Side:
    store = RawStore(path)
    store.append_history(1, raw.history(messages))
    first = messages // MESSAGES
    turns = [raw.bodies(first + number) for number in range(REPETITIONS + 1)]
    return lambda repetition: store.append_turn(1, turns[repetition])


def _raw_at_once(path: Path) -> Side:
    store = RawStore(path)
    turns = [raw.bodies(number) for number in range(REPETITIONS + 1)]
    return lambda repetition: store.append_turn_at_once(1, turns[repetition])


# --- what is counted ---------------------------------------------------------------------------


@contextmanager
def _raw_turns(path: Path, vfs: str) -> Generator[tuple[Any, Callable[[int], None]]]:
    store = RawStore(path, vfs=vfs)
    yield store.connection, lambda number: store.append_turn(1, raw.bodies(number))
    store.close()


@contextmanager
def _our_turns(path: Path, vfs: str) -> Generator[tuple[Any, Callable[[int], None]]]:
    store = SqliteStore(path, vfs=vfs)
    place = open_place(store, "spec-42")

    def turn(number: int) -> None:
        record_turn(store, place, prepare_turn(place, number))

    yield store.database.connection, turn
    store.close()


def _counted(directory: Path, turns: Any) -> dict[str, float]:
    """Return what a turn costs in things that can be counted, over a hundred turns."""
    with faulty_file_system() as disk:
        path = directory / f"counted-{disk.name}.db"
        with turns(path, disk.name) as (connection, turn):
            turn(0)
            before = _grown(connection), disk.log_syncs, disk.written_bytes
            statements = _statements(connection, turn)
            syncs = _syncs_of_one_turn(disk, turn)
            for number in range(3, TURNS_COUNTED + 1):
                turn(number)
            written = disk.written_bytes - before[2]
            grown = _grown(connection) - before[0]
    return {
        "syncs": syncs,
        "statements": statements,
        "log_bytes": round(written / TURNS_COUNTED),
        "grown_bytes": round(grown / TURNS_COUNTED),
    }


def _statements(connection: Any, turn: Callable[[int], None]) -> int:
    statements: list[str] = []

    def note(_cursor: object, statement: str, _bindings: object) -> bool:
        statements.append(statement)
        return True

    connection.set_exec_trace(note)
    turn(1)
    connection.set_exec_trace(None)
    return len(statements)


def _syncs_of_one_turn(disk: FaultyFileSystem, turn: Callable[[int], None]) -> int:
    """Syncs of the log: a checkpoint, every thousand pages, adds its own on both sides."""
    before = disk.log_syncs
    turn(2)
    return disk.log_syncs - before


def _grown(connection: Any) -> int:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
