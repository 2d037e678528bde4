"""Behind: that the record lacks what hooks saw, said beside whatever is read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upthread.surfaces.cli.terminal.times import since

if TYPE_CHECKING:
    from upthread.runtime.hooked.spooled import Behind


def in_words(behind: Behind) -> str:
    """Return what a person is told of a record that lacks something."""
    events = "1 event" if behind.events == 1 else f"{behind.events} events"
    return (
        f"the record is behind: {events} of calls that have ended are not taken in, the oldest of "
        f"{since(behind.since_ms)}, so what is said here may be older than what happened; "
        f"{behind.cure}"
    )


def shape(behind: Behind | None) -> dict[str, object]:
    """Return what JSON has of it, beside what was asked for; nothing where nothing is lacking."""
    if behind is None:
        return {}
    told = {"events": behind.events, "since_ms": behind.since_ms, "takers": [*behind.takers]}
    return {"behind": {**told, "hint": behind.cure}}
