"""What OpenCode's failures mean, in the one vocabulary of outcomes. Pure.

The server names its errors and passes the provider's status on; both come before any words. While
it retries by itself it says neither, only the provider's message and when it will try again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from upthread.agents._json_lines import member, text_at
from upthread.agents._outcomes import (
    ended_with,
    outcome_of_refusal,
    says_no_credit_of_limit,
)
from upthread.agents.base import PromptResult
from upthread.core.runs.stops import REFUSAL
from upthread.core.types import Outcome

RETRIES_MAX: Final = 3
"""How many retries OpenCode is left to; it would go on for ever."""
RETRY_WAIT_MAX_S: Final = 15.0
"""A longer pause before its next try is told as what it is, and not waited for."""

_DECLINED: Final = "ContentFilterError"
"""The model declined to go on; the session is well."""

_OF_NAME: Final[Mapping[str, Outcome]] = {
    "ProviderAuthError": Outcome.AUTH,
    "ContextOverflowError": Outcome.CONTEXT_FULL,
    "MessageAbortedError": Outcome.CANCELLED,
    # Cut off by the model's own limit on one answer: there is a reply, and it is told why it ends.
    # An agent's limit on its turns is none of these: there the work was left in the middle.
    "MessageOutputLengthError": Outcome.OK,
    _DECLINED: Outcome.OK,
    "NotFoundError": Outcome.MISSING,
}
PASSING_WORDS: Final = re.compile(
    r"overload|unavailable|gateway|server.?error|time.?out|connect|socket|fetch failed",
    re.IGNORECASE,
)
_WORDS_OF_LIMIT: Final = re.compile(
    r"\blimit|quota|exceeded|exhausted|throttl|slow.?down|too (many|fast)|usage", re.IGNORECASE
)


def detail_of_finish(reason: str) -> str:
    """Return what is to be said of how the model stopped; empty for the ordinary way."""
    if reason == "content-filter":
        return f"{REFUSAL}finish: {reason}"
    return "" if reason in {"", "stop"} else f"finish: {reason}"


def failure_of_message(error: object, *, now_ms: int) -> PromptResult:
    """Say what the `error` of a message or of `session.error` means."""
    name, said = text_at(error, "name"), text_at(error, "data", "message")
    detail = f"{said or 'no reason given'} ({name or 'an error without a name'})"
    if name == _DECLINED:
        detail = REFUSAL + detail
    outcome = _OF_NAME.get(name) or _of_status(member(error, "data", "statusCode"), said)
    return ended_with(outcome, detail, reset_at_ms=_reset_at_ms(error, now_ms))


def failure_of_retry(status: object, *, now_ms: int) -> PromptResult | None:
    """Return what a retry amounts to that is not worth waiting for, None while it is.

    A long pause before the next try is a limit; short ones are one only with words that say so,
    because OpenCode also tries again after a conflict (409).
    """
    attempt, next_ms = member(status, "attempt"), member(status, "next")
    if not isinstance(next_ms, int) or not isinstance(attempt, int):
        return None
    is_long = next_ms - now_ms > RETRY_WAIT_MAX_S * 1000
    if attempt < RETRIES_MAX and not is_long:
        return None
    said = text_at(status, "message")
    outcome = Outcome.RATE_LIMITED
    if says_no_credit_of_limit(said):
        outcome = Outcome.CREDIT_EXHAUSTED
    elif PASSING_WORDS.search(said) or not (is_long or _WORDS_OF_LIMIT.search(said)):
        outcome = Outcome.TRANSIENT
    return ended_with(outcome, f"{said} (retry {attempt})", reset_at_ms=next_ms)


def _of_status(status: object, said: str) -> Outcome:
    """Words refine what the provider's status says, and alone suggest a passing fault at most."""
    if not isinstance(status, int):
        return Outcome.TRANSIENT if PASSING_WORDS.search(said) else Outcome.UNKNOWN
    return outcome_of_refusal(status, said)


def _reset_at_ms(error: object, now_ms: int) -> int | None:
    after = text_at(error, "data", "responseHeaders", "retry-after")
    # Seconds alone: HTTP also allows a date, which is left unknown.
    return now_ms + int(after) * 1000 if after.isascii() and after.isdigit() else None
