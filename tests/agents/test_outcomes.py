"""A provider's status has one meaning, whichever agent passes it on.

Only a command that ran and failed by itself is told from one that nobody allowed.
"""

from __future__ import annotations

import pytest

from upthread.agents._outcomes import did_run, exit_code_in, outcome_of_status, says_no_credit


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, None),
        (400, None),
        (401, "auth"),
        (402, "credit_exhausted"),
        (403, "auth"),
        (404, None),
        (413, "context_full"),
        (429, "rate_limited"),
        (499, None),
        (500, "transient"),
        (529, "transient"),
        (600, None),
    ],
)
def test_a_status_means(status, outcome):
    assert outcome_of_status(status) == outcome


NO_CREDIT = "Your credit balance is too low to access the API. Please go to Plans & Billing."


@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_that_names_the_credit_is_about_the_credit(status):
    assert says_no_credit(status, NO_CREDIT)
    assert says_no_credit(status, "Your team has used all available credits")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "tools.3.name: billing_lookup is no name"),
        (400, "rate limit reached"),
        (404, NO_CREDIT),
        (500, NO_CREDIT),
        (None, NO_CREDIT),
    ],
)
def test_no_other_status_and_no_other_words_are(status, said):
    assert not says_no_credit(status, said)


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
