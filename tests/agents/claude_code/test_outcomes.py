"""How a turn of Claude Code ended. The frames are those of 2.1.330, cut to what is looked at."""

import pytest

from upthread.agents.claude_code.translation import is_missing, result_of, tokens_of

FAILED = {"is_error": True, "subtype": "success", "terminal_reason": "api_error"}


def failed(status, said):
    return {**FAILED, "api_error_status": status, "result": said}


@pytest.mark.parametrize(
    ("outcome", "kind", "frame"),
    [
        ("rate_limited", "rate_limit", failed(429, "API Error: Request rejected (429)")),
        ("auth", "authentication_failed", failed(403, "Failed to authenticate. API Error: 403")),
        ("credit_exhausted", "billing_error", failed(400, "Credit balance is too low")),
        ("transient", "server_error", failed(529, "API Error: 529 overloaded.")),
        ("unknown", "model_not_found", failed(404, "There's an issue with the selected model")),
        ("unknown", "unknown", failed(400, "API Error: 400 something invalid")),
        (
            *("context_full", "invalid_request"),
            {**failed(400, "Prompt is too long"), "terminal_reason": "prompt_too_long"},
        ),
        ("credit_exhausted", "invalid_request", failed(400, "Your credit balance is too low")),
        ("unknown", "", failed(None, "x")),
        ("cancelled", "", {"is_error": True, "terminal_reason": "aborted_streaming"}),
        ("cancelled", "", {"is_error": True, "terminal_reason": "aborted_tools"}),
        ("unknown", "", {"is_error": True, "subtype": "error_max_turns", "errors": ["too many"]}),
    ],
)
def test_a_failed_turn_is_told_in_our_words_with_the_agents_own(outcome, kind, frame):
    result = result_of(frame, error_kind=kind)
    assert result.outcome == outcome
    assert result.detail


def test_success_is_read_from_the_error_flag_and_not_from_the_word():
    assert result_of({"is_error": False, "subtype": "success"}).outcome == "ok"
    assert result_of({"subtype": "success", "stop_reason": "end_turn"}).detail == ""
    assert result_of({**FAILED, "result": "x"}).outcome == "unknown"
    cut = result_of({"is_error": False, "stop_reason": "max_tokens"})
    assert (cut.outcome, cut.detail.partition(":")[0]) == ("ok", "max_tokens")
    assert result_of(failed(429, "x"), reset_at_ms=5).reset_at_ms == 5
    assert result_of(failed(500, "x"), reset_at_ms=5).reset_at_ms is None, "no limit"


def test_all_tokens_are_counted_cached_ones_too():
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 4, "speed": "x"}
    assert tokens_of({**usage, "cache_creation_input_tokens": 8}) == 15
    told = result_of({"usage": usage})
    assert (told.tokens_used, told.tokens_in, told.tokens_out) == (7, 5, 2)
    assert tokens_of({"input_tokens": 0}) is None
    assert tokens_of(None) is None


def test_a_session_is_missing_only_by_its_own_id():
    said = "its stderr ends with: No conversation found with session ID: 1-2"
    assert is_missing(said, "1-2")
    assert not is_missing(said, "1-3")
