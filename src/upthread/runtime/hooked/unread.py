"""Unread calls: those of which the agent's own store could not be read when they were taken in.

A database may have been locked, a transcript moved away. What hooks saw of such a call stays here,
without a word of what was said, so that the store is looked into again; whoever looks into the
record does so, until the conversation has gone on, or for some days.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from upthread.core.types import TurnId
from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import object_in, text_in
from upthread.runtime.bindings.places import Place, read_binding
from upthread.runtime.hooked.delegated_call import Delegated, turn_id_of
from upthread.runtime.hooked.retrieval import Retrieved

UNREAD_DAYS_MAX: Final = 3
"""How long a store is looked into again."""

_MS_PER_DAY: Final = 86_400_000
_WORDS: Final = frozenset({"said", "asked"})


def is_unread(call: Delegated, found: Retrieved) -> bool:
    """Return whether a call that was cut off may have more in its agent's store than was found.

    That could not be read, or lacks the session the call is known to have worked in.
    """
    if found.turn is not None or "ended" in call.events:
        return False
    return bool(found.fault) or (found.session is None and bool(call.cut_off.session))


def keep(place: Place, call: Delegated) -> None:
    """Keep what hooks saw of a call, but none of its words."""
    # It may lie here for days, and needs no words: they are on record, or nobody has them.
    events = {kind: event for kind, event in call.events.items() if kind not in _WORDS}
    files.replace(_path(place, turn_id_of(call.any)), {"events": events})


def unread_calls(place: Place) -> Iterator[Delegated]:
    """Yield the calls that are to be looked for again."""
    for path in Path(place.project, "unread").glob("*.json"):
        kept = object_in(read_binding(str(path)), "events")
        events: dict[str, dict[str, Any]] = {kind: object_in(kept, kind) for kind in kept}
        if events:
            yield Delegated(events, (str(path),))
        else:  # nobody can read it: the call itself is on record
            files.remove(str(path))


def has_waited_long(call: Delegated, now_ms: int) -> bool:
    """Return whether a call has been looked for as long as it is worth."""
    (path,) = call.paths
    return now_ms - Path(path).stat().st_mtime * 1000 > UNREAD_DAYS_MAX * _MS_PER_DAY


def forget(place: Place, workstream: str | None) -> None:
    """Look no more for what belongs to a workstream, None: for anything: it is to be forgotten."""
    for call in list(unread_calls(place)):
        if workstream in {None, text_in(call.any, "workstream")}:
            for path in call.paths:
                files.remove(path)
    files.remove_half_written(str(Path(place.project, "unread")))


def has_unread(place: Place) -> bool:
    """Return whether a call is to be looked for again."""
    return any(unread_calls(place))


def _path(place: Place, turn_id: TurnId) -> str:
    return str(Path(place.project, "unread", f"{turn_id}.json"))
