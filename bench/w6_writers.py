"""W6: eight writers on one store, each a process with a conversation of its own; and twenty.

All sides write the turn of W2 as fast as they can, one of its commits synced. They run in
alternating rounds. Raw waits for its turn as SQLite has it, which is not at all in turn; a second
raw stands in the queue that ours stands in. Beside the store's own turns stand those of eight
runtimes, which claim, decide and record each; on few cores it is their processor time that counts
(W12). Every error is counted, and none is forgiven.
"""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import raw
from measure import Row, percentile
from raw import RawStore
from scratch import scratch
from tests.support.default_turn import Place, open_place, prepare_turn, record_turn
from told_turns import Telling

from upthread.core.types import TurnId
from upthread.store.base import Store
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import WriteQueue

WRITERS = 8
WRITERS_MANY = 20
ROUND_S = 2.5
ROUNDS = 2
AT_LEAST = 1.0
AT_LEAST_OF_QUEUED = 0.5
AT_LEAST_OF_STORE = 0.5
P99_LIMIT = 3.0
START_S = 60.0
START_SHARE_S = 4.0
"""Until all writers of `writing` write."""

TURNS_MADE = 64


class Written(NamedTuple):
    """What the writers of a round did. `errors` are in words."""

    turns_per_s: float
    p99_ms: float
    errors: list[str]


def measure(*, is_quick: bool) -> list[Row]:
    """Return turns a second, and the errors of twenty writers."""
    rounds = 1 if is_quick else ROUNDS
    found: dict[str, list[Written]] = {side: [] for side in _SIDES}
    with scratch() as directory:
        for number in range(rounds):
            for side, written in found.items():
                path = directory / f"{side}-{number}.db"
                written.append(round_of(path, _SIDES[side], writers=WRITERS))
        many = round_of(directory / "many.db", _ours, writers=WRITERS_MANY)
    best = {side: max(written) for side, written in found.items()}
    errors = [error for side in ("ours", "told") for each in found[side] for error in each.errors]
    return [
        Row(
            workload="W6",
            what=f"{WRITERS} writers",
            raw=best["raw"].turns_per_s,
            ours=best["ours"].turns_per_s,
            unit="turns/s",
            at_least=AT_LEAST,
        ),
        Row(
            workload="W6",
            what=f"{WRITERS} writers, against raw in the same queue",
            raw=best["queued"].turns_per_s,
            ours=best["ours"].turns_per_s,
            unit="turns/s",
            at_least=AT_LEAST_OF_QUEUED,
        ),
        Row(
            workload="W6",
            what=f"p99 of a turn of {WRITERS} writers",
            raw=best["raw"].p99_ms,
            ours=best["ours"].p99_ms,
            unit="ms",
            limit=P99_LIMIT,
            note=f"in the same queue {best['queued'].p99_ms:.0f} ms",
        ),
        Row(
            workload="W6",
            what=f"{WRITERS} writers through the runtime, against the store's",
            raw=best["ours"].turns_per_s,
            ours=best["told"].turns_per_s,
            unit="turns/s",
            at_least=AT_LEAST_OF_STORE,
            note=f"p99 {best['told'].p99_ms:.0f} ms",
        ),
        _errors(f"errors of {WRITERS} writers", errors),
        _errors(f"errors of {WRITERS_MANY} writers", many.errors),
    ]


def _errors(what: str, errors: list[str]) -> Row:
    return Row(
        workload="W6",
        what=what,
        raw=None,
        ours=len(errors),
        unit="errors",
        limit=0,
        note="; ".join(sorted(set(errors)))[:200],
    )


Turn = Callable[[int], object]


def _raw(path: Path, writer: int) -> Turn:
    store = RawStore(path)
    turns = [raw.bodies(number) for number in range(TURNS_MADE)]
    return lambda number: store.append_turn(writer, turns[number % TURNS_MADE])


def _queued(path: Path, writer: int) -> Turn:
    store = RawStore(path)
    queue = WriteQueue(path, wait_s=30.0)
    turns = [raw.bodies(number) for number in range(TURNS_MADE)]
    return lambda number: store.append_turn(writer, turns[number % TURNS_MADE], queue)


def _ours(path: Path, writer: int) -> Turn:
    store = SqliteStore(path)
    return recording(store, open_place(store, f"spec-{writer}"))


def _told(path: Path, writer: int) -> Turn:
    store, runner = SqliteStore(path), asyncio.Runner()
    telling = Telling(store, open_place(store, f"spec-{writer}"), path.parent, number=writer)
    turn: Turn = lambda number: runner.run(telling.tell(telling.prepare(number)))  # noqa: E731
    turn(0)  # it loads what is loaded late
    return turn


def recording(store: Store, place: Place) -> Turn:
    """Return what records a turn of a place; what it says is made now, as raw's is."""
    turns = [prepare_turn(place, number) for number in range(TURNS_MADE)]

    def record(number: int) -> None:
        turn_id = TurnId(f"{turns[0].turn_id}-{number}")
        # Later than all before it, as the clock has it: a store looks for what might be there.
        at_ms = turns[0].at_ms + number
        turn = dataclasses.replace(turns[number % TURNS_MADE], turn_id=turn_id, at_ms=at_ms)
        record_turn(store, place, turn)

    return record


_SIDES: dict[str, Callable[[Path, int], Turn]] = {
    "raw": _raw,
    "queued": _queued,
    "ours": _ours,
    "told": _told,
}


def round_of(path: Path, side: Callable[[Path, int], Turn], *, writers: int) -> Written:
    # Raw has no race-free creation; ours is created by all writers at once.
    if side in {_raw, _queued}:
        RawStore(path).close()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=_write, args=(side, path, number, ready, results))
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    done: list[tuple[list[float], list[str]]] = [
        results.get(timeout=2 * START_S) for _ in processes
    ]
    for process in processes:
        process.join()
    walls_s = [wall for walls, _ in done for wall in walls]
    return Written(
        turns_per_s=len(walls_s) / ROUND_S,
        p99_ms=percentile(walls_s, 0.99) * 1e3 if walls_s else 0.0,
        errors=[error for _, errors in done for error in errors],
    )


@contextmanager
def writing(path: Path, *, writers: int) -> Iterator[None]:
    """Have processes of ours write turns to a database, each its own, as fast as they can."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    processes = [
        context.Process(target=_write_until, args=(path, number, stop)) for number in range(writers)
    ]
    for process in processes:
        process.start()
    try:
        time.sleep(START_SHARE_S)
        yield
        assert all(process.is_alive() for process in processes), "a writer has failed"
    finally:
        stop.set()
        for process in processes:
            process.join()


def _write_until(path: Path, writer: int, stop: Any) -> None:
    turn, number = _ours(path, writer), 0
    while not stop.is_set():
        turn(number)
        number += 1


def _write(
    side: Callable[[Path, int], Turn], path: Path, writer: int, ready: Any, results: Any
) -> None:
    """Write turns for `ROUND_S` seconds, in a process of its own."""
    walls_s: list[float] = []
    errors: list[str] = []
    turn: Turn = lambda _: None  # noqa: E731  # until the store is open
    try:
        turn = side(path, writer)
    except Exception as error:  # noqa: BLE001  # counted and shown, whatever it is
        errors.append(f"open: {type(error).__name__}: {error}")
    ready.wait(START_S)
    end_s = time.perf_counter() + ROUND_S
    number = 0
    while time.perf_counter() < end_s and not errors:
        started_s = time.perf_counter()
        try:
            turn(number)
        except Exception as error:  # noqa: BLE001  # counted and shown, whatever it is
            errors.append(f"{type(error).__name__}: {error}")
        walls_s.append(time.perf_counter() - started_s)
        number += 1
    results.put((walls_s, errors))
