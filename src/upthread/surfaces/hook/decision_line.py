"""The one line that says what was decided, where the person is looking."""

from __future__ import annotations

import time

from upthread.core.decision import words
from upthread.core.decision.words import address_in_words, conversation_name
from upthread.runtime.bindings.light_json import number_in, text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from upthread.surfaces.hook.hook_decision import HookDecision

# Ids and names are others': one of a megabyte would push all else off the screen.
DECISION_CHARACTERS_MAX = 2_000
DAY_S = 24 * 60 * 60


def decision_line(binding: dict[str, Any], taken: HookDecision, session: str) -> str:
    """Return a decision in one line, for the person who is looking at the agent."""
    return line_of(binding, taken.decision, session, because=taken.because, cost=taken.cost)


def line_of(
    binding: dict[str, Any], decision: str, session: str, *, because: str = "", cost: str = ""
) -> str:
    """Return what is done for a conversation in one line; `because` is empty for a plain case."""
    role, slot = text_in(binding, "role"), number_in(binding, "slot")
    where = address_in_words(text_in(binding, "workstream"), role, slot)
    base_name = text_in(binding, "base_name")
    sibling = f"~{slot}" if slot > 1 else ""
    line = words.decision_line(
        conversation_name(where, f"{base_name}-{role}{sibling}" if base_name else ""),
        decision,
        one_line(session),
        turn_number=number_in(binding, "turns") + 1,
        because=because,
        cost=cost,
    )
    return one_line(f"upthread: {line}", characters_max=DECISION_CHARACTERS_MAX)


def misnamed_in_words(named: str) -> str:
    """Return what is told of a call that named a session its agent does not have; else nothing."""
    if not named:
        return ""
    return f"; the call named {one_line(named)}, a session that the agent does not have"


def ago(at_ms: int) -> str:
    """Return `today`, `yesterday` or `3 days ago` for epoch milliseconds, by local calendar days.

    A moment in the future is today.
    """
    days = _day(time.time_ns() / 1e9) - _day(at_ms / 1000)
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"


def _day(at_s: float) -> int:
    # By the moment's own offset: around a change of summer time a day has 23 or 25 hours.
    return int((at_s + time.localtime(at_s).tm_gmtoff) // DAY_S)


def one_line(text: str, *, characters_max: int = 300) -> str:
    """Return text on one line, cut at `characters_max`; what acts on a terminal, as its escape."""
    is_plain = text.replace("·", "").isascii() and text.isprintable()  # the dot is our own
    if is_plain and len(text) <= characters_max:
        return text  # nearly all there is: a hook pays for what it imports
    from upthread.core.text import visible_line

    return visible_line(text, characters_max=characters_max)
