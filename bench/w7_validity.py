"""W7: is a history of 1,000 and of 10,000 messages sound? What that costs above reading it.

Ours: `core.history.model.faults` over messages that are in memory. Raw: a pass over the same
messages that looks at each part and decides nothing. The limit is absolute: 0.3 ms for 1,000 above
that pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from measure import Row, Side, compared, interleaved
from scratch import scratch
from tests.support.default_turn import open_place
from w2_turn import fill

from upthread.core.history.model import HistoryMessage, faults, history_of
from upthread.store.sqlite import SqliteStore

SIZES = (1_000, 10_000)
LIMIT_MS_PER_THOUSAND = 0.3


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each size."""
    rows: list[Row] = []
    for size in SIZES:
        messages = _messages(size // 6 * 6)
        sides = {"raw": _pass(messages), "ours": _check(messages)}
        timings = interleaved(sides, repetitions=200, budget_s=1 if is_quick else 3)
        limit_us = LIMIT_MS_PER_THOUSAND * len(messages)
        limit = 1 + limit_us / timings["raw"].wall_p10_us
        row = compared(
            "W7", f"check {size:,} for soundness", timings["raw"], timings["ours"], limit
        )
        rows.append(row)
    return rows


def _messages(number: int) -> Sequence[HistoryMessage]:
    with scratch() as directory:
        store = SqliteStore(directory / "validity.db")
        place = open_place(store, "spec-42")
        fill(store, place, number)
        messages = history_of(store.messages(place.conversation.conversation_id))
        store.close()
    assert len(messages) == number
    return messages


def _pass(messages: Sequence[HistoryMessage]) -> Side:
    def look(_: int) -> None:
        for message in messages:
            for part in message.parts:
                type(part)

    return look


def _check(messages: Sequence[HistoryMessage]) -> Side:
    def check(_: int) -> None:
        assert not faults(messages)

    return check
