"""The one line that says what was decided, where the person is looking."""

from __future__ import annotations

import time

from upthread.core.plain_case import FIRST, RESUME, START_FRESH
from upthread.runtime.bindings.light_json import number_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTE_FILES_MAX = 20
DECISION_CHARACTERS_MAX = 2_000
DAY_S = 24 * 60 * 60

_DONE = {
    FIRST: "STARTED",
    RESUME: "RESUMED {session}",
    "resume_with_update": "RESUMED {session} with an update",
    "resume_with_replay": "ROLLED OVER from {session} with replay",
    START_FRESH: "STARTED FRESH",
}


def address(workstream: str, role: str, slot: int) -> str:
    """`spec-42/planner`, or `spec-42/planner~2` for a sibling."""
    return f"{workstream}/{role}" + (f"~{slot}" if slot > 1 else "")


def decision_line(
    binding: dict[str, Any], decision: str, session: str, says: str, *, is_briefed: bool = False
) -> str:
    """Return the decision in one line; `says` are its reasons in words, empty for a plain one."""
    where = address(
        text_in(binding, "workstream"), text_in(binding, "role"), number_in(binding, "slot")
    )
    base_name = text_in(binding, "base_name")
    name = f" ({base_name}-{text_in(binding, 'role')})" if base_name else ""
    done = _DONE.get(decision, decision).format(session=one_line(session) or "an earlier session")
    if is_briefed and decision == START_FRESH:
        done += " with a briefing"
    turns = number_in(binding, "turns") + 1
    number = f" · turn {turns}" if turns > 1 else ""
    line = f"upthread: {where}{name}: {done}{number}" + (f": {says}" if says else "")
    return one_line(line, characters_max=DECISION_CHARACTERS_MAX)


def ago(at_ms: int) -> str:
    """Return how long ago a moment was, in whole days, by this machine's clock and place."""
    days = _day(time.time_ns() / 1e9) - _day(at_ms / 1000)
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"


def _day(at_s: float) -> int:
    return int((at_s + time.localtime(at_s).tm_gmtoff) // DAY_S)


def update_note(changed: list[dict[str, Any]], moved: list[str]) -> str:
    """Return what a resumed session is told of what has changed since it last worked."""
    lines = [
        f"- {one_line(text_in(each, 'path'))} ({one_line(text_in(each, 'how'))})"
        for each in changed[:NOTE_FILES_MAX]
    ]
    if len(changed) > NOTE_FILES_MAX:
        lines.append(f"- and {len(changed) - NOTE_FILES_MAX} more")
    told = ["Since you last worked here:"]
    if lines:
        told += ["Files you had examined have changed; look at them again:", *lines]
    told += moved
    return "\n".join(told) if len(told) > 1 else ""


def one_line(text: str, *, characters_max: int = 300) -> str:
    """Return text on one line, cut; nothing in it acts on a terminal."""
    if text.isascii() and text.isprintable() and len(text) <= characters_max:
        return text  # nearly all there is: a hook pays for what it imports
    from upthread.core.visible import visible_line

    return visible_line(text, characters_max=characters_max)
