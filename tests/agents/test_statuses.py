"""A provider's status has one meaning, whichever agent passes it on."""

import pytest

from upthread.agents._statuses import outcome_of_status


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
