"""What lies in the spool: the calls that hooks saw, and what of them the record does not have yet.

Blocking reads, nothing taken in: that is runtime/hooked/intake.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from upthread.core.types import CHILD_SLOT, ConversationKey, TurnId
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.light_json import number_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.hooked.delegated_call import Delegated, turn_id_of


class Behind(Struct, frozen=True, kw_only=True):
    """What hooks saw of calls that have stopped, and the record does not have.

    `events` wait, the oldest since `since_ms`, epoch milliseconds. `takers` are the processes that
    have words of theirs and are still alive. `holder` has a conversation of theirs, in words; empty
    where nobody was found to.
    """

    events: int
    since_ms: int
    takers: tuple[int, ...]
    holder: str = ""

    @property
    def cure(self) -> str:
        """What a person does about it."""
        if self.takers:
            pids = " ".join(map(str, self.takers))
            return f"`upthread drain` is at it: ask again; if it stands still, `kill -9 {pids}`"
        return f"{self.holder or 'another process'} is at it: ask again, or end it"


def calls_in(place: Place) -> Iterator[Delegated]:
    """Yield the calls in the spool, oldest first as far as the clock was right."""
    events: dict[TurnId, dict[str, dict[str, Any]]] = defaultdict(dict)
    paths: dict[TurnId, list[str]] = defaultdict(list)
    for path in spool.names(place):
        event = _read(path)
        # Notes for people, of calls that were not decided, are in the spool as well.
        if event is None or not text_in(event, "call_id"):
            continue
        turn_id = turn_id_of(event)
        events[turn_id][text_in(event, "kind")] = event
        paths[turn_id].append(path)
    for turn_id, kinds in events.items():
        yield Delegated(kinds, tuple(paths[turn_id]))


def next_of(calls: Iterable[Delegated]) -> Iterator[Delegated]:
    """Yield the calls that are over, none whose conversation has to take in an earlier one first.

    A call whose agent never said that it has ended holds up nobody: it may never say so.
    """
    waiting: set[tuple[str, str, int]] = set()
    for call in calls:
        whose = call.whose
        if call.is_over and whose not in waiting:
            yield call
        # Of those that are only recorded each has a conversation of its own: nobody comes after it.
        elif call.has_stopped and number_in(call.any, "slot") != CHILD_SLOT:
            waiting.add(whose)


def with_words(place: Place, call: Delegated) -> Delegated:
    """Return a call that is over with what came since the spool was read: its end, its words.

    Who brought that may have kept it after the reading, and been gone when it was asked whether it
    lives. What somebody else has taken in meanwhile is not there any more: the call as it was.
    """
    if call.has_words:
        return call
    turn_id = turn_id_of(call.any)
    return next((each for each in calls_in(place) if turn_id_of(each.any) == turn_id), call)


def is_due(place: Place) -> bool:
    """Return whether a call lies in the spool of which nothing more is coming."""
    return any(True for _ in next_of(calls_in(place)))


def behind(place: Place, key: ConversationKey | None = None) -> Behind | None:
    """Return what the record lacks of calls that have stopped; of one conversation, or of all."""
    found = [
        call
        for call in calls_in(place)
        if call.has_stopped and (key is None or call.key(key.project_id) == key)
    ]
    if not found:
        return None
    return Behind(
        events=sum(len(call.paths) for call in found),
        since_ms=min(number_in(call.any, "at_ms") for call in found),
        takers=tuple(sorted({pid for call in found for pid in call.takers})),
    )


def _read(path: str) -> dict[str, Any] | None:
    """Return an event; one that cannot be read is set aside, where `doctor` finds it."""
    try:
        return files.read(path)
    except files.UnreadableError:
        # Out of the way: in its place it would be met, and fail, at every look.
        Path(path).replace(path.removesuffix(".json") + spool.SET_ASIDE)
        return None
