"""W9: what redaction costs a recorded turn: the turn of W2, with and without it.

Raw: the turn's writes committed as they are. Ours: the same writes through `PrivateStore`, which
looks for every family of secrets in each text before it commits. Both go the way the runtime goes:
one event loop, one thread hop a commit. A second row is the look alone, per megabyte of text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
from measure import Row, Side, compared, interleaved
from scratch import scratch

from upthread.core.redaction.redactor import Redactor
from upthread.runtime.private_store import PrivateStore, RecordPolicy
from upthread.runtime.system import System
from upthread.store.base import Store
from upthread.store.sqlite import SqliteStore
from upthread.testing.default_turn import (
    Place,
    PreparedTurn,
    commits_of,
    open_place,
    prepare_turn,
    texts,
)

REPETITIONS = 150
LIMIT = 1.05
TURNS_A_LOOP = 4
MEGABYTE = 1_000_000


def measure(*, is_quick: bool) -> list[Row]:
    """Return what a turn costs with redaction, and a megabyte of text."""
    redactor = Redactor(bytes(range(32)))
    with scratch() as directory:
        sides = {
            "raw": _turns(directory / "raw.db", lambda store: store),
            "ours": _turns(
                directory / "ours.db",
                lambda store: PrivateStore(store, policy=RecordPolicy(), redactor=redactor),
            ),
        }
        budget_s = 4 if is_quick else 20
        timings = interleaved(sides, repetitions=REPETITIONS, budget_s=budget_s)
    text = "\n".join(map("".join, (texts(number) for number in range(80))))[:MEGABYTE]
    looks: dict[str, Side] = {
        "raw": lambda _: _discard(text.encode()),
        "ours": lambda _: _discard(redactor.redact(text)),
    }
    look = interleaved(looks, repetitions=40, budget_s=2)
    return [
        compared("W9", "turn, redacted", timings["raw"], timings["ours"], LIMIT),
        compared("W9", "look through 1 MB", look["raw"], look["ours"], None, "raw: encode it"),
    ]


def _discard(_value: object) -> None:
    pass


def _turns(path: Path, wrapped: Callable[[Store], Store]) -> Side:
    store = wrapped(SqliteStore(path))
    place = open_place(store, "spec-42")
    system = System()

    async def record(first: int) -> None:
        for number in range(first, first + TURNS_A_LOOP):
            await _record(store, system, place, prepare_turn(place, number))

    return lambda repetition: anyio.run(record, repetition * TURNS_A_LOOP)


async def _record(store: Store, system: System, place: Place, turn: PreparedTurn) -> None:
    for writes in commits_of(place, turn):
        await system.in_thread(lambda batch=writes: store.commit(batch, fences=(place.fence,)))
    place.next_seq += 6
    place.turns += 1
