"""What Codex's failures mean. The errors are those of 0.169.0, as told for each answer."""

from __future__ import annotations

import pytest

from upthread.agents.codex.items import end_of_limit_ms, failure_of_turn, outcome_of_refusal
from upthread.core.types import Outcome


def http(kind, status):
    return {kind: {"httpStatusCode": status}}


@pytest.mark.parametrize(
    ("info", "message", "outcome"),
    [
        (http("responseTooManyFailedAttempts", 429), "exceeded retry limit", "rate_limited"),
        ("usageLimitExceeded", "You've hit your usage limit.", "rate_limited"),
        (http("responseStreamDisconnected", None), "stream disconnected", "transient"),
        ("internalServerError", "We're currently experiencing high demand", "transient"),
        ("contextWindowExceeded", "Codex ran out of room", "context_full"),
        ("other", '{"error": {"message": "nonsense"}}', "unknown"),
        ("other", "You exceeded your quota, check your billing details", "unknown"),
        (None, "Your credit balance is too low", "unknown"),
        ("other", "test said: No tool output found for function call c_1.", "unknown"),
        ("aKindOfTomorrow", "new", "unknown"),
        (None, "", "unknown"),
    ],
)
def test_a_failed_turn_is_told_by_its_kind_and_status(info, message, outcome):
    failure = failure_of_turn({"message": message, "codexErrorInfo": info})
    assert failure.outcome is Outcome(outcome)
    assert failure.detail


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("no rollout found for thread id 01a1", "missing"),
        ("thread not found: 01a1", "missing"),
        ("invalid session id: invalid character", "missing"),
        ("thread 01a1 already has an active writer", "busy"),
        ("failed to read thread: failed to read session metadata /x", "corrupted"),
        ("invalid paginated history lineage for 01a1: missing source rollout", "corrupted"),
        ("Invalid request: unknown variant", "unknown"),
    ],
)
def test_a_refused_request_is_told_by_its_words(said, outcome):
    assert outcome_of_refusal(said) is Outcome(outcome)


def test_a_limit_ends_when_the_last_of_its_full_windows_begins_anew():
    full, half = {"usedPercent": 100, "resetsAt": 10}, {"usedPercent": 50, "resetsAt": 99}
    later = {"usedPercent": 100.0, "resetsAt": 20}
    assert end_of_limit_ms({"primary": full, "secondary": half}) == 10_000
    assert end_of_limit_ms({"primary": full, "secondary": later}) == 20_000
    assert end_of_limit_ms({"primary": half, "secondary": None}) is None
    assert end_of_limit_ms(None) is None
