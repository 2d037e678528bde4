"""A provider's status has one meaning, whichever agent passes it on.

Only a command that ran and failed by itself is told from one that nobody allowed.
"""

import pytest

from upthread.agents._outcomes import (
    OF_ERROR_KIND,
    did_run,
    exit_code_in,
    outcome_of_status,
    says_no_credit,
)
from upthread.agents.acp.wire import quirk_for, refusal_in
from upthread.agents.claude_code import translation as claude_code
from upthread.agents.codex import items as codex
from upthread.agents.opencode import turn as opencode


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((each, None) for each in (200, 400, 404, 499, 600)),
        *((each, "auth") for each in (401, 403)),
        *((each, "transient") for each in (500, 529)),
        *((402, "credit_exhausted"), (413, "context_full"), (429, "rate_limited")),
    ],
)
def test_a_status_means(status, outcome):
    assert outcome_of_status(status) == outcome


NO_CREDIT = "Your credit balance is too low to access the API. Please go to Plans & Billing."


@pytest.mark.parametrize(
    ("status", "said", "is_about_it"),
    [
        (400, NO_CREDIT, True),
        (403, "Your team has used all available credits", True),
        (400, "tools.3.name: billing_lookup is no name", False),
        (400, "rate limit reached", False),
        (404, NO_CREDIT, False),
        (500, NO_CREDIT, False),
        (None, NO_CREDIT, False),
    ],
)
def test_a_refusal_is_about_the_credit_by_its_status_and_its_words(status, said, is_about_it):
    assert says_no_credit(status, said) is is_about_it


@pytest.mark.parametrize(
    ("exit_code", "ran"),
    [(1, True), (127, True), (0, False), (-1, False), (137, False), (None, False), (True, False)],
)
def test_what_failed_by_itself_did_run(exit_code, ran):
    assert did_run(exit_code) is ran


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("Exit code 1\n2 failed", 1),
        ("Exit code 137", 137),
        ("Claude requested permissions to use Bash, but you haven't granted it yet.", None),
        ("it said: Exit code 1", None),
        ("Exit code 12345", None),
    ],
)
def test_a_failed_commands_text_begins_with_its_exit_code(text, exit_code):
    assert exit_code_in(text) == exit_code


UNPAIRED = "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_01"
NO_OUTPUT = "No tool output found for function call call_1."


def told_by_all(status: int, said: str) -> dict[str, str]:
    """What each agent's adapter makes of the same words of a provider with the same status."""
    claude = {"is_error": True, "api_error_status": status, "result": said}
    error = {"name": "APIError", "data": {"message": said, "statusCode": status}}
    info = "other" if status == 400 else {"httpConnectionFailed": {"httpStatusCode": status}}
    asked = {"message": said, "codexErrorInfo": info}
    return {
        "claude-code": claude_code.result_of(claude).outcome,
        "opencode": opencode.failure_of_message(error, now_ms=0).outcome,
        "codex": codex.failure_of_turn(asked).outcome,
        "acp": refusal_in(-32603, said, {"status": status}, quirk=quirk_for("gemini")).outcome,
    }


@pytest.mark.parametrize(
    ("status", "said", "outcome"),
    [
        (400, UNPAIRED, "corrupted"),
        (400, NO_OUTPUT, "corrupted"),
        (500, UNPAIRED, "transient"),
        (429, "payment required", "credit_exhausted"),
        (429, "You exceeded your current quota, please check your plan", "credit_exhausted"),
        (401, "no", "auth"),
        (402, "no", "credit_exhausted"),
        (403, "no", "auth"),
        (404, "no", "unknown"),
        (418, "no", "unknown"),
        (503, "no", "transient"),
        (429, "slow down", "rate_limited"),
        (403, "credit balance is too low", "credit_exhausted"),
        (400, NO_CREDIT, "credit_exhausted"),
        (400, "temperature must be at most 1", "unknown"),
    ],
)
def test_a_providers_words_have_one_meaning_whichever_agent_passes_them_on(status, said, outcome):
    assert set(told_by_all(status, said).values()) == {outcome}


@pytest.mark.parametrize(("kind", "outcome"), OF_ERROR_KIND.items())
def test_claude_codes_kinds_have_one_meaning_natively_and_over_acp(kind, outcome):
    over_acp = refusal_in(-32603, "no", {"errorKind": kind}, quirk=quirk_for("claude"))
    assert (over_acp.outcome, over_acp.is_certain) == (outcome, True)
    frame = {"is_error": True, "result": "no"}
    assert claude_code.result_of(frame, error_kind=kind).outcome == outcome
