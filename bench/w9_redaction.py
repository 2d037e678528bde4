"""W9: what redaction costs the commits of a recorded turn.

Raw: the commits of W2's turn, each a thread hop. Ours: the same through a `ProjectStore` with a
policy, which looks for every family of secrets in each text before it commits. Two more rows have
no verdict: the whole turn, told by the runtime to an agent in this process that says it at once, in
which the look would be lost; and a megabyte of text looked through.

Both sides write to one conversation, in an order by chance: two files differ by as much as what is
measured, so do two conversations by which of them stands last in an index, and a disk from one
second to the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from measure import Row, Side, Timing, compared, interleaved, timing_of
from scratch import scratch
from tests.support.default_turn import (
    MESSAGES,
    USER,
    Place,
    PreparedTurn,
    commits_of,
    open_place,
    prepare_turn,
    texts,
)
from told_turns import Telling

from upthread.core.redaction.redactor import Redactor
from upthread.runtime.record.project_store import ProjectStore, RecordPolicy
from upthread.runtime.system import System
from upthread.store.base import Store
from upthread.store.sqlite import SqliteStore

TURNS_MAX = 5_000
LIMIT = 1.1
MEGABYTE = 1_000_000


def measure(*, is_quick: bool) -> list[Row]:
    """Return what a turn's commits cost with redaction, the whole turn, and a megabyte of text."""
    redactor = Redactor(bytes(range(32)))
    budget_s = 4 if is_quick else 25
    with scratch() as directory:
        told = anyio.run(_told, directory, redactor, budget_s)
        committed = anyio.run(_committed, directory, redactor, budget_s)
    text = "\n".join(map("".join, (texts(number) for number in range(80))))[:MEGABYTE]
    looks: dict[str, Side] = {
        "raw": lambda _: _discard(text.encode()),
        "ours": lambda _: _discard(redactor.redact(text)),
    }
    look = interleaved(looks, repetitions=40, budget_s=2)
    return [
        compared("W9", "commits of a turn, redacted", committed["raw"], committed["ours"], LIMIT),
        compared("W9", "the whole turn", told["raw"], told["ours"], None),
        compared("W9", "look through 1 MB", look["raw"], look["ours"], None, "raw: encode it"),
    ]


def _discard(_value: object) -> None:
    pass


def _stores(store: Store, place: Place, redactor: Redactor) -> tuple[Store, Store]:
    """Return a project's store that records all as it is, and one that redacts."""
    project_id = place.conversation.key.project_id
    return (
        ProjectStore(store, project_id, by_user=USER, now_ms=_now_ms),
        ProjectStore(
            store,
            project_id,
            by_user=USER,
            now_ms=_now_ms,
            policy=RecordPolicy(),
            redactor=redactor,
        ),
    )


async def _told(directory: Path, redactor: Redactor, budget_s: float) -> dict[str, Timing]:
    """Tell turns of one conversation, as many of each side."""
    store = SqliteStore(directory / "told.db")
    place = open_place(store, "spec-42")
    own, private = _stores(store, place, redactor)
    sides = {
        "raw": Telling(own, place, directory),
        "ours": Telling(private, place, directory, redactor),
    }

    def prepare(name: str, number: int) -> Callable[[], Awaitable[None]]:
        request = sides[name].prepare(number)
        return lambda: sides[name].tell(request)

    return await _in_turn(prepare, budget_s)


async def _committed(directory: Path, redactor: Redactor, budget_s: float) -> dict[str, Timing]:
    """Commit turns of one conversation, as many of each side."""
    store = SqliteStore(directory / "committed.db")
    place, system = open_place(store, "spec-42"), System()
    own, private = _stores(store, place, redactor)
    sides: dict[str, Store] = {"raw": own, "ours": private}

    def prepare(name: str, number: int) -> Callable[[], Awaitable[None]]:
        turn = prepare_turn(place, number)
        return lambda: _record(sides[name], system, place, turn)

    return await _in_turn(prepare, budget_s)


async def _in_turn(
    prepare: Callable[[str, int], Callable[[], Awaitable[None]]], budget_s: float
) -> dict[str, Timing]:
    """Do a turn of each side, in an order by chance, and again. The first ones warm up."""
    names = ["raw", "ours"]
    walls: dict[str, list[float]] = {name: [] for name in names}
    cpus: dict[str, list[float]] = {name: [] for name in names}
    chance, end_s = random.Random(0), time.perf_counter() + budget_s
    number = 0
    while len(walls["raw"]) <= TURNS_MAX and time.perf_counter() < end_s:
        chance.shuffle(names)
        for name in names:
            do = prepare(name, number)
            number += 1
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            await do()
            walls[name].append((time.perf_counter() - wall_s) * 1e6)
            cpus[name].append((time.process_time() - cpu_s) * 1e6)
    return {name: timing_of(walls[name][2:], cpus[name][2:]) for name in names}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _record(store: Store, system: System, place: Place, turn: PreparedTurn) -> None:
    for writes in commits_of(place, turn):
        await system.in_thread(lambda batch=writes: store.commit(batch, fences=(place.fence,)))
    place.next_seq += MESSAGES
    place.turns += 1
