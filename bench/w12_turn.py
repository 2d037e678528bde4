"""W12: a turn of the runtime beside the store's commits, and what it grows by with a history.

Ours: a turn told by the runtime to an agent in this process that says the turn of W2 at once: the
claim, the handshake, what is read before the prompt leaves, the record, the end. Raw: the commits
of the same turn alone, each a thread hop. There is no lower bound to be compared with, so its limit
is what was measured when the turn became what it is, with room for a busy machine; what must not
grow has limits of its own. The figures are of the processor: a turn waits for nothing but the disk.
Hops are counted, and are what a promise can be made of.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
from measure import Row, Timing, timing_of
from scratch import scratch
from tests.support.default_turn import MESSAGES, Place, commits_of, open_place, prepare_turn
from told_turns import Telling

from upthread.core.commands import RecordParts
from upthread.core.names import Address, key_of
from upthread.runtime.system import EventLoop, System
from upthread.store.sqlite import SqliteStore

Result = TypeVar("Result")
Turn = Callable[[int], Awaitable[None]]

SHORT, LONG = "10 messages", "10,000 messages"
MANY = "20,000 turns"
HISTORIES = {SHORT: (10, 1), LONG: (10_000, 1), MANY: (1_000, 20_000)}
"""How many messages there are before, and how many turns at least."""

TURNS_PER_COMMIT = 50
WARM_UP = 3
LIMIT = 9.0
GROWTH_LIMIT = 1.1
HOPS_MAX = 6


def measure(*, is_quick: bool) -> list[Row]:
    """Return a row for the turn, two for its growth, and what was counted."""
    with scratch() as directory:
        timings, hops = anyio.run(_measured, directory, 6 if is_quick else 25)
    growth = [
        _compared(f"growth to {name}", timings[SHORT], timings[name], GROWTH_LIMIT, "CPU, to ours")
        for name in (LONG, MANY)
    ]
    counted = Row(
        workload="W12",
        what="hops of a turn",
        raw=HOPS_MAX,
        ours=hops,
        unit="",
        limit=1.0,
        note="counted; raw: as many as may be",
    )
    turn = _compared("turn of the runtime", timings["commits"], timings[SHORT], LIMIT, "CPU")
    return [turn, *growth, counted]


def _compared(what: str, raw: Timing, ours: Timing, limit: float, note: str) -> Row:
    return Row(
        workload="W12",
        what=what,
        raw=raw.cpu_p50_us,
        ours=ours.cpu_p50_us,
        limit=limit,
        note=note,
        counts={"raw": raw._asdict(), "ours": ours._asdict()},
    )


class _Counting(EventLoop):
    """An event loop whose hops are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.hops = 0

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        self.hops += 1
        return await super().in_thread(call)


async def _measured(directory: Path, budget_s: float) -> tuple[dict[str, Timing], int]:
    waits = _Counting()
    sides: dict[str, Turn] = {"commits": _commits(directory)}
    for number, (name, size) in enumerate(HISTORIES.items()):
        sides[name] = await _told(directory / f"{number}.db", directory, *size, waits)
    timings = await _in_turn(sides, budget_s)
    waits.hops = 0
    await sides[SHORT](0)
    return timings, waits.hops


async def _in_turn(sides: dict[str, Turn], budget_s: float) -> dict[str, Timing]:
    """Do a turn of each side, in an order that turns round, and again. The first ones warm up."""
    walls: dict[str, list[float]] = {name: [] for name in sides}
    cpus: dict[str, list[float]] = {name: [] for name in sides}
    names, end_s, number = list(sides), time.perf_counter() + budget_s, 0
    gc.collect()
    while number < WARM_UP + 5 or time.perf_counter() < end_s:
        for name in names if number % 2 else reversed(names):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            await sides[name](number)
            walls[name].append((time.perf_counter() - wall_s) * 1e6)
            cpus[name].append((time.process_time() - cpu_s) * 1e6)
        number += 1
    return {name: timing_of(walls[name][WARM_UP:], cpus[name][WARM_UP:]) for name in sides}


def _commits(directory: Path) -> Turn:
    store, system = SqliteStore(directory / "commits.db"), System()
    place = open_place(store, "spec-42")

    async def turn(number: int) -> None:
        for writes in commits_of(place, prepare_turn(place, number)):
            batch = writes
            await system.in_thread(lambda batch=batch: store.commit(batch, fences=(place.fence,)))
        place.next_seq += MESSAGES
        place.turns += 1

    return turn


async def _told(path: Path, directory: Path, messages: int, turns: int, waits: _Counting) -> Turn:
    """Return what tells a turn of a conversation that has a history already."""
    store = SqliteStore(path)
    place = open_place(store, "spec-42")
    telling = Telling(store, place, directory, system=System(waits=waits))
    await telling.tell(telling.prepare(0))
    own = key_of(place.conversation.key.project_id, Address(workstream="told", role="planner"))
    resolved = store.resolve(own)
    assert resolved is not None
    assert resolved.link is not None
    told = dataclasses.replace(place, conversation=resolved.conversation, link=resolved.link)
    told.next_seq, told.turns = store.message_count(resolved.conversation.conversation_id) + 1, 1
    _fill(store, told, messages, max(turns, messages // MESSAGES))
    first = told.turns

    async def turn(number: int) -> None:
        await telling.tell(telling.prepare(first + number))

    return turn


def _fill(store: SqliteStore, place: Place, messages: int, turns: int) -> None:
    """Write turns, and for the newest of them the messages that are asked for."""
    silent = turns - max(1, messages // MESSAGES)
    while place.turns < turns:
        writes: list[object] = []
        for _ in range(min(TURNS_PER_COMMIT, turns - place.turns)):
            has_messages = place.turns >= silent
            for commit in commits_of(place, prepare_turn(place, place.turns)):
                writes += [w for w in commit if has_messages or not isinstance(w, RecordParts)]
            place.next_seq += MESSAGES if has_messages else 0
            place.turns += 1
        store.commit(writes)  # type: ignore[arg-type]
