"""What a person reads, made of what is not ours: moments, and the texts of others."""

from __future__ import annotations

import calendar
import re
import time
from typing import Final

from upthread.core import text as texts
from upthread.errors import UsageError

# --- times --------------------------------------------------------------------------------------
# Times: how a moment is told to a person: on their own clock, in UTC, and how far away it is.
#
# JSON says epoch milliseconds; what a person may pass on to somebody elsewhere says UTC.

NEVER: Final = "—"
"""What stands where there is no moment to tell."""

_MINUTES_OF_HOUR: Final = 60
_MINUTES_OF_DAY: Final = 24 * _MINUTES_OF_HOUR
_MS_OF_MINUTE: Final = 60_000


def midnight_ms(date: str, hint: str) -> int:
    """Return when a day begins in UTC, so that a command means the same on every machine.

    Raises UsageError for a text that is no date such as 2026-01-31.
    """
    try:
        return calendar.timegm(time.strptime(date, "%Y-%m-%d")) * 1000
    except ValueError:
        raise UsageError(f"{date!r} is no date", hint=hint) from None


def since(at_ms: int | None, *, now_ms: int | None = None) -> str:
    """`12:04 (7 min ago)`; with the date where it was another day."""
    if at_ms is None:
        return NEVER
    now_ms = _now_ms() if now_ms is None else now_ms
    away = _distance(now_ms - at_ms)
    return f"{_clock(at_ms, now_ms)} ({f'{away} ago' if away else 'just now'})"


def ago(at_ms: int, *, now_ms: int) -> str:
    """`7 min ago`, `2 h ago`, `just now`: where there is no room for the clock."""
    away = " ".join(_distance(now_ms - at_ms).split(" ")[:2])
    return f"{away} ago" if away else "just now"


def until(at_ms: int, *, now_ms: int | None = None) -> str:
    """`until 14:12 (in 2 h 8 min)`; `until 14:12 (that is past)` once it is."""
    now_ms = _now_ms() if now_ms is None else now_ms
    away = _distance(at_ms - now_ms)
    when = f"in {away}" if away else "in less than a minute"
    return f"until {_clock(at_ms, now_ms)} ({'that is past' if at_ms <= now_ms else when})"


def moment(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _clock(at_ms: int, now_ms: int) -> str:
    # In the reader's time: nobody else reads this line.
    at, now = time.localtime(at_ms // 1000), time.localtime(now_ms // 1000)
    is_today = (at.tm_year, at.tm_yday) == (now.tm_year, now.tm_yday)
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", at)


def _distance(distance_ms: int) -> str:
    """Return how long it is, rounded down; empty for less than a minute, or the wrong way."""
    minutes = max(0, distance_ms) // _MS_OF_MINUTE
    if minutes < _MINUTES_OF_HOUR:
        return f"{minutes} min" if minutes else ""
    if minutes < _MINUTES_OF_DAY:
        hours, rest = divmod(minutes, _MINUTES_OF_HOUR)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days = minutes // _MINUTES_OF_DAY
    return "1 day" if days == 1 else f"{days} days"


# --- neutral ------------------------------------------------------------------------------------
# Neutral text: what an agent or a file said, made harmless for a terminal and for Markdown.
#
# What is shown of a character is decided in `core/text.py`; here is what a place asks for beside
# it: a code span, a fence, a command that can be copied.


_BACKTICKS = re.compile("`+")

neutral = texts.visible_text
one_line = texts.visible_line
command = texts.command


def code(text: str) -> str:
    """Return the text as an inline code span of Markdown, which it cannot close."""
    flat = one_line(text)
    return texts.code(flat) if flat else "—"


def fenced(text: str, language: str = "text") -> str:
    """Return the text as a fenced block of Markdown, its fence longer than any in the text."""
    ticks = "`" * max(3, _longest_run(text) + 1)
    body = neutral(text)
    return f"{ticks}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
