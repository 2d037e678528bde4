"""What a person reads: what happened, moments on their clock, and harmless texts of others.

Text in, text out.
"""

import calendar
import json
import os
import re
import time
from pathlib import Path

from upthread.core import text as texts
from upthread.core.codec import object_at
from upthread.core.decision import words
from upthread.core.decision.words import Tokens
from upthread.core.events import RunParked, TurnParked
from upthread.core.runs.stops import NEW_REFUSED, OURS, Source, stop_in_words
from upthread.core.states import Standing, effects_command, go_on_command
from upthread.core.text import visible_ends
from upthread.core.turns.turn import HELD_BACK
from upthread.core.types import Conversation, ConversationKey, Outcome
from upthread.errors import UsageError
from upthread.runtime.turns.delegation import TurnResult

_BACKTICKS = re.compile("`+")

neutral = texts.visible_text
one_line = texts.visible_line
command = texts.command


def short_path(path: Path) -> str:
    """`~/.claude/settings.json`; whole where it is not below the home."""
    home = os.environ.get("HOME", "")
    return f"~/{path.relative_to(home)}" if home and path.is_relative_to(home) else str(path)


def conversation_name(conversation: Conversation) -> str:
    """`spec-42/planner (Kael-planner)`."""
    return words.conversation_name(conversation.address, conversation.instance_name)


def stopped_in_words(
    reason: str, *, detail: str, until_ms: int | None, source: Source = OURS
) -> tuple[str, str]:
    """Return why a turn or a run ended without an answer, or waits, and what a person can do.

    `reason` is an outcome, or what it is parked for.
    """
    stop = stop_in_words(reason, detail, source=source)
    is_endless = reason == Outcome.RATE_LIMITED and until_ms is None
    said = stop.said + (", until when it did not say" if is_endless else "")
    return _why_in_words(said, detail=stop.detail, until_ms=until_ms), stop.cure


def parked_in_words(parked: TurnParked | RunParked) -> tuple[str, str]:
    """Return why a turn or a run waits, and what a person can do."""
    return stopped_in_words(parked.reason, detail=parked.detail, until_ms=parked.reset_at_ms)


def failure_in_words(result: TurnResult) -> tuple[str, str]:
    """Return why a turn ended without an answer, and what a person can do."""
    return stopped_in_words(
        result.outcome,
        detail=result.detail,
        until_ms=result.reset_at_ms,
        source=result.source,
    )


def standing_in_words(standing: Standing) -> str:
    """Return why something stands as it does, and until when."""
    return _why_in_words(standing.reason, detail=standing.detail, until_ms=standing.until_ms)


def _why_in_words(said: str, *, detail: str, until_ms: int | None) -> str:
    limit = f" {until(until_ms)}" if until_ms is not None else ""
    first, refused, second = detail.partition(NEW_REFUSED)
    # A line has room for both refusals.
    told = f"{visible_ends(first, characters_max=100)}{refused}{second}" if refused else detail
    return f"{one_line(said)}{limit}" + (f": {one_line(message_in(told))}" if told else "")


def message_in(detail: str) -> str:
    """Return what an agent said went wrong; of an error that came as JSON its message alone.

    Providers answer with an object of codes and ids, and agents hand it on as it is. All of it is
    in --json.
    """
    before, brace, rest = detail.partition("{")
    if not brace:
        return detail
    try:
        message = _message_of(json.loads(brace + rest))
    except (ValueError, RecursionError):
        return detail
    return f"{before.strip()} {message}".strip() if message else detail


def _message_of(told: object) -> str:
    """Return the message of an error object, wherever providers put it; empty for none."""
    members = object_at(told)
    message, inner = members.get("message"), members.get("error")
    if isinstance(message, str) and message.strip():
        return message
    return inner if isinstance(inner, str) else _message_of(inner) if inner else ""


def going_on(key: ConversationKey, reason: str) -> str:
    """Return what goes on with a turn that is parked for this: where it is held, to look first."""
    if reason == HELD_BACK:
        return f"look first: {effects_command(key.workstream)}"
    return f"go on with it: {go_on_command(key.address)}"


def spaced(word: str) -> str:
    """Return a word of a protocol, which has none of ours, as a person reads it."""
    return word.replace("_", " ")


def spent_line(what: str, total: Tokens, tokens_max: int) -> str:
    """`spec-42: ~41k of at most 50000 tokens`."""
    return f"{what}: {total.in_words} of at most {tokens_max} tokens"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 turn`, `3 turns`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


# --- times --------------------------------------------------------------------------------------
# A moment on the reader's own clock, in UTC, and how far away it is. JSON has epoch milliseconds;
# a line that a person may pass on to somebody elsewhere has UTC.

NEVER = "—"
"""What stands where there is no moment to tell."""

_MINUTES_OF_HOUR = 60
_MINUTES_OF_DAY = 24 * _MINUTES_OF_HOUR
_MS_OF_MINUTE = 60_000


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
    if minutes >= _MINUTES_OF_DAY:
        return counted(minutes // _MINUTES_OF_DAY, "day")
    hours, rest = divmod(minutes, _MINUTES_OF_HOUR)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{rest} min" if rest else "")))


# --- texts of others -----------------------------------------------------------------------------
# Neutral text: what an agent or a file said, made harmless for a terminal and for Markdown.
#
# What is shown of a character is decided in `core/text.py`; here is what a place asks for beside
# it: a code span, a fence, a command that can be copied.


def code(text: str) -> str:
    """Return the text as an inline code span of Markdown, which it cannot close."""
    flat = one_line(text)
    return texts.code(flat) if flat else "—"


def fenced(text: str, language: str = "text") -> str:
    """Return the text as a fenced block of Markdown, its fence longer than any in the text."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    body = neutral(text)
    return f"{ticks}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{ticks}"
