"""What Codex's failures mean, in the one vocabulary of outcomes. Pure.

A turn that failed names its kind (`codexErrorInfo`), some kinds with the provider's status; words
only refine what these say. A request that was refused has words only, and they are about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from upthread.agents._json_lines import as_object, member, text_at
from upthread.agents._outcomes import (
    ended_with,
    outcome_of_status,
    says_no_credit,
    says_no_credit_of_limit,
    says_unpaired_call,
)
from upthread.agents.base import PromptResult
from upthread.core.types import Outcome

FULL_PERCENT: Final = 100

_OF_KIND: Final[Mapping[str, Outcome]] = {
    "contextWindowExceeded": Outcome.CONTEXT_FULL,
    "usageLimitExceeded": Outcome.RATE_LIMITED,
    "rateLimitExceeded": Outcome.RATE_LIMITED,
    # What a person or their organisation allowed a session to cost: no waiting fills it again.
    "sessionBudgetExceeded": Outcome.CREDIT_EXHAUSTED,
    "unauthorized": Outcome.AUTH,
    "serverOverloaded": Outcome.TRANSIENT,
    "internalServerError": Outcome.TRANSIENT,
    "flexUnavailable": Outcome.TRANSIENT,
    "policyCapacityUnavailable": Outcome.TRANSIENT,
    "responseStreamDisconnected": Outcome.TRANSIENT,
    "responseStreamConnectionFailed": Outcome.TRANSIENT,
    "httpConnectionFailed": Outcome.TRANSIENT,
    "responseTooManyFailedAttempts": Outcome.TRANSIENT,
}
_REFUSED_BY_PROVIDER: Final = "other"
"""The kind of what the provider says of a request with status 400 (codex 0.169)."""

# By words, since codes say less: an unknown thread and one in use are both -32600 (0.169.0).
_OF_REFUSAL: Final = (
    (re.compile(r"no rollout found for thread id|thread not (found|loaded)"), Outcome.MISSING),
    (re.compile(r"invalid session id"), Outcome.MISSING),
    (re.compile(r"already has an active writer"), Outcome.BUSY),
    (re.compile(r"failed to read session metadata|invalid paginated history"), Outcome.CORRUPTED),
)


def failure_of_turn(error: object, *, reset_at_ms: int | None = None) -> PromptResult:
    """Say what the `error` of a turn means. `reset_at_ms` is what was said of a limit's end."""
    told = " ".join(filter(None, (text_at(error, "message"), text_at(error, "additionalDetails"))))
    kind, status = _kind_and_status(member(error, "codexErrorInfo"))
    # The status first: one kind stands for many of them (`httpConnectionFailed`, 0.169.0).
    outcome = _of_status(status) or _OF_KIND.get(kind, Outcome.UNKNOWN)
    refused = 400 if kind == _REFUSED_BY_PROVIDER else status
    is_limit_of_credit = outcome is Outcome.RATE_LIMITED and says_no_credit_of_limit(told)
    if is_limit_of_credit or says_no_credit(refused, told):
        outcome = Outcome.CREDIT_EXHAUSTED
    elif says_unpaired_call(refused, told, is_all_it_says=True):
        outcome = Outcome.CORRUPTED
    named = ", ".join(filter(None, (kind, f"HTTP {status}" if status else "")))
    detail = f"{told or 'no reason given'} ({named or 'an error without a kind'})"
    return ended_with(outcome, detail, reset_at_ms=reset_at_ms)


def _kind_and_status(info: object) -> tuple[str, int | None]:
    """A kind is a word, or the one member of an object that holds the provider's status."""
    if isinstance(info, str):
        return info, None
    for kind, details in as_object(info).items():
        status = member(details, "httpStatusCode")
        return kind, status if isinstance(status, int) else None
    return "", None


def _of_status(status: int | None) -> Outcome | None:
    if status is None:
        return None
    return outcome_of_status(status) or Outcome.UNKNOWN


def outcome_of_refusal(said: str) -> Outcome:
    """Say what the words of a refused request mean."""
    meant = (outcome for words, outcome in _OF_REFUSAL if words.search(said))
    return next(meant, Outcome.UNKNOWN)


def end_of_limit_ms(limits: object) -> int | None:
    """Return when the last of a subscription's used-up windows begins anew, None where none is.

    Codex gives the time in seconds.
    """
    ends: list[int] = []
    for window in (member(limits, "primary"), member(limits, "secondary")):
        used, resets_at = member(window, "usedPercent"), member(window, "resetsAt")
        if isinstance(used, int | float) and isinstance(resets_at, int) and used >= FULL_PERCENT:
            ends.append(resets_at * 1000)
    return max(ends, default=None)
