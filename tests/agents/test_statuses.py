"""A provider's status has one meaning, whichever agent passes it on."""

import pytest

from upthread.agents._outcomes import outcome_of_status, says_no_credit


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
