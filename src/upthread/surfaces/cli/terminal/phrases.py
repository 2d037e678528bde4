"""Words: what happened, in the words a person reads. Text in, text out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

from upthread.core.decision import words
from upthread.core.decision.price import Tokens
from upthread.core.events import RunParked, TurnParked
from upthread.core.runs.stops import NEW_REFUSED, OURS, Source, stop_in_words
from upthread.core.states import Standing, effects_command, go_on_command
from upthread.core.text import visible_ends
from upthread.core.turns.turn import HELD_BACK
from upthread.core.types import Conversation, ConversationKey, Outcome
from upthread.runtime.turns.progress import TurnResult
from upthread.surfaces.cli.terminal.neutral import one_line, until


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
    if not isinstance(told, dict):
        return ""
    members = cast("dict[str, object]", told)
    message = members.get("message")
    if isinstance(message, str) and message.strip():
        return message
    inner = members.get("error")
    return inner if isinstance(inner, str) else _message_of(inner)


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
