"""W4: read a whole conversation of 1,000 and of 10,000 messages, and check its tool calls.

Ours: `SqliteStore.messages` and a pass over the parts. Raw: all rows of one stream, decoded, and
the same pass. The check is the same on both sides: each call is answered once, before the next
thing said.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import raw
from measure import Row, Side, compared, interleaved
from raw import RawStore
from scratch import scratch
from tests.support.default_turn import open_place
from w2_turn import fill

from upthread.core.types import Message, Speaker, ToolCallPart, ToolResultPart
from upthread.store.sqlite import SqliteStore

SIZES = (1_000, 10_000)
LIMIT = 1.3


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each size."""
    rows: list[Row] = []
    with scratch() as directory:
        for size in SIZES:
            messages = size // 6 * 6
            sides = {
                "raw": _raw(directory / f"raw-{size}.db", messages),
                "ours": _ours(directory / f"ours-{size}.db", messages),
            }
            timings = interleaved(sides, repetitions=60, budget_s=3 if is_quick else 8)
            what = f"reload {size:,} and check the calls"
            rows.append(compared("W4", what, timings["raw"], timings["ours"], LIMIT))
    return rows


def is_paired(messages: Iterable[Message]) -> bool:
    """Return whether each call is answered, by one result, before the next thing said."""
    awaited: set[str] = set()
    for message in messages:
        if message.speaker is not Speaker.TOOL and awaited:
            return False
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                awaited.add(part.call_id)
            elif isinstance(part, ToolResultPart):
                if part.call_id not in awaited:
                    return False
                awaited.discard(part.call_id)
    return not awaited


def _raw(path: Path, messages: int) -> Side:
    store = RawStore(path)
    store.append_history(1, raw.history(messages))

    def reload(_: int) -> None:
        found = store.reload(1)
        assert len(found) == messages
        assert raw.is_paired(found)

    return reload


def _ours(path: Path, messages: int) -> Side:
    store = SqliteStore(path)
    place = open_place(store, "spec-42")
    fill(store, place, messages)

    def reload(_: int) -> None:
        found = store.messages(place.conversation.conversation_id)
        assert len(found) == messages
        assert is_paired(found)

    return reload
