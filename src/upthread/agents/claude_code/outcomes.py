"""What the end of a turn means, in the one vocabulary of outcomes. Pure.

`subtype` says `success` to a failed turn too (2.1.330), so it is not looked at. What counts is a
`terminal_reason` that tells more than `api_error`, the error's kind on the answer, and the
provider's status, in this order; what none of them says is `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from upthread.agents._json_lines import member, text_at, texts_at
from upthread.agents._outcomes import OF_ERROR_KIND, ended_with, outcome_of_refusal
from upthread.agents.base import PromptResult
from upthread.core.events import UsageReported
from upthread.core.runs.stops import REFUSAL
from upthread.core.types import Outcome, UpstreamSessionId

_OF_REASON: Final[Mapping[str, Outcome]] = {
    "prompt_too_long": Outcome.CONTEXT_FULL,
    # Its own guards against a window that is too full, by their names in 2.1.330; neither could be
    # brought about.
    "blocking_limit": Outcome.CONTEXT_FULL,
    "rapid_refill_breaker": Outcome.CONTEXT_FULL,
    "aborted_streaming": Outcome.CANCELLED,
    "aborted_tools": Outcome.CANCELLED,
}
_FAILED_CALL: Final = re.compile(
    r"API error: (?P<said>.*?) \(error type (?P<kind>\w+)(, HTTP (?P<status>\d{3}))?", re.DOTALL
)
_ORDINARY_STOPS: Final = frozenset({"", "end_turn", "stop_sequence", "tool_use"})
_READ: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_WRITTEN: Final = ("output_tokens",)


def result_of(
    frame: Mapping[str, Any],
    *,
    error_kind: str = "",
    refused_by: str = "",
    reset_at_ms: int | None = None,
) -> PromptResult:
    """Say how a turn ended from its `result` frame.

    `error_kind` is the kind of the last error among the answers, `refused_by` the words of a hook
    that blocked the prompt, `reset_at_ms` what was said of a limit of the subscription.
    """
    outcome, usage = _outcome(frame, error_kind), frame.get("usage")
    detail = f"{REFUSAL}{refused_by}" if refused_by else _detail(frame, outcome, error_kind)
    return structs.replace(
        ended_with(outcome, detail, reset_at_ms=reset_at_ms),
        tokens_used=tokens_of(usage),
        tokens_in=tokens_of(usage, _READ),
        tokens_out=tokens_of(usage, _WRITTEN),
    )


def failed_call(said: str) -> PromptResult:
    """Say how a call of a sub-agent failed, from what the tool answered in place of a reply.

    For example `Agent terminated early due to an API error: … (error type rate_limit, HTTP 429, …)`
    (2.1.332). What has not this form is `unknown`.
    """
    found = _FAILED_CALL.search(said)
    if found is None:
        return ended_with(Outcome.UNKNOWN, said)
    frame = {
        "is_error": True,
        "terminal_reason": "api_error",
        "api_error_status": int(found["status"]) if found["status"] else None,
        "result": found["said"],
    }
    return result_of(frame, error_kind=found["kind"])


def _outcome(frame: Mapping[str, Any], error_kind: str) -> Outcome:
    reason = text_at(frame, "terminal_reason")
    # First: a full window is a plain 400 by its kind and its status (2.1.330).
    if reason in _OF_REASON:
        return _OF_REASON[reason]
    if not frame.get("is_error"):
        return Outcome.OK
    status = frame.get("api_error_status")
    if error_kind in OF_ERROR_KIND:
        return OF_ERROR_KIND[error_kind]
    if not isinstance(status, int):
        return Outcome.UNKNOWN
    return outcome_of_refusal(status, text_at(frame, "result"))


def _detail(frame: Mapping[str, Any], outcome: Outcome, error_kind: str) -> str:
    stop = text_at(frame, "stop_reason")
    if outcome is Outcome.OK:
        return "" if stop in _ORDINARY_STOPS else f"{stop}: the model stopped for this reason"
    said = [
        error_kind,
        text_at(frame, "terminal_reason") or text_at(frame, "subtype"),
        text_at(frame, "result"),
        *texts_at(frame, "errors"),
    ]
    return ": ".join(part for part in said if part)


def usage_of(usage: object, session: UpstreamSessionId, *, written: int | None) -> UsageReported:
    """Return what a request took and the session then holds: all that was read, and `written`."""
    read = tokens_of(usage, _READ)
    return UsageReported(
        upstream_session_id=session,
        tokens_used=(read or 0) + (written or 0),
        tokens_read=read,
        tokens_written=written,
        tokens_cached=figure_of(usage, "cache_read_input_tokens"),
        tokens_cache_written=figure_of(usage, "cache_creation_input_tokens"),
    )


def figure_of(usage: object, name: str) -> int | None:
    """Return the tokens that a usage has under a name; None where it does not say."""
    told = member(usage, name)
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def tokens_of(usage: object, names: tuple[str, ...] = (*_READ, *_WRITTEN)) -> int | None:
    """Return all tokens of a usage, cached ones too; None when it names none."""
    figures = [member(usage, name) for name in names]
    total = sum(figure for figure in figures if isinstance(figure, int))
    return total or None


def is_missing(said: str, session: str) -> bool:
    """Whether the CLI's words say that it has no such session (2.1.197, 2.1.330)."""
    return f"No conversation found with session ID: {session}" in said
