"""What OpenCode's errors mean."""

from __future__ import annotations

import pytest

from upthread.agents.opencode.server import ApiError
from upthread.agents.opencode.turn import (
    RETRIES_MAX,
    RETRY_WAIT_MAX_S,
    failure_of_message,
    failure_of_retry,
)
from upthread.core.types import Outcome

NOW_MS = 1_000_000
SHORT_MS = NOW_MS + 1000
LONG_MS = NOW_MS + round(RETRY_WAIT_MAX_S * 1000) + 1


def api_error(status, message="no", **more):
    return {"name": "APIError", "data": {"message": message, "statusCode": status, **more}}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ({"name": "ProviderAuthError", "data": {"message": "no"}}, Outcome.AUTH),
        ({"name": "ContextOverflowError", "data": {"message": "no"}}, Outcome.CONTEXT_FULL),
        ({"name": "MessageAbortedError", "data": {"message": "Aborted"}}, Outcome.CANCELLED),
        ({"name": "MessageOutputLengthError", "data": {}}, Outcome.OK),
        (api_error(400, "rate limit reached"), Outcome.UNKNOWN),
        ({"name": "UnknownError", "data": {"message": "fetch failed"}}, Outcome.TRANSIENT),
        ({"name": "UnknownError", "data": {"message": "boom"}}, Outcome.UNKNOWN),
        ({"name": "UnknownError", "data": {"message": "test_rate_limit.py"}}, Outcome.UNKNOWN),
        (None, Outcome.UNKNOWN),
    ],
)
def test_a_messages_error_has_one_meaning(error, outcome):
    assert failure_of_message(error, now_ms=NOW_MS).outcome is outcome


def test_a_rate_limit_tells_when_the_provider_said_to_come_back():
    limited = api_error(429, responseHeaders={"retry-after": "30"})
    assert failure_of_message(limited, now_ms=NOW_MS).reset_at_ms == NOW_MS + 30_000
    soon = api_error(429, responseHeaders={"retry-after": "soon"})
    assert failure_of_message(soon, now_ms=NOW_MS).reset_at_ms is None


def test_a_refused_request_is_missing_only_by_the_servers_own_word():
    assert ApiError(404, "NotFoundError", "gone").outcome is Outcome.MISSING
    assert ApiError(500, "", "").outcome is Outcome.UNKNOWN


def retry(attempt, next_ms, message="slow down"):
    return {"type": "retry", "attempt": attempt, "next": next_ms, "message": message}


@pytest.mark.parametrize("status", [retry(1, LONG_MS), retry(RETRIES_MAX, SHORT_MS)])
def test_a_long_or_repeated_one_is_a_limit_with_its_end(status):
    failure = failure_of_retry(status, now_ms=NOW_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.RATE_LIMITED, status["next"])
    assert "slow down" in failure.detail


def test_a_short_retry_is_left_to_opencode_and_a_fault_that_lasts_is_no_limit():
    for waited_for in (retry(1, SHORT_MS), {"type": "retry"}):
        assert failure_of_retry(waited_for, now_ms=NOW_MS) is None
    conflict = retry(RETRIES_MAX, SHORT_MS, "the folder is with the auditors")
    failure = failure_of_retry(conflict, now_ms=NOW_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.TRANSIENT, None)
    failure = failure_of_retry(retry(RETRIES_MAX, SHORT_MS, "Overloaded"), now_ms=NOW_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.TRANSIENT, None)
