"""A row of the benchmarks has the verdict that its limit gives it."""

import pytest
from bench.measure import Row


def row(**members) -> Row:
    return Row(**{"workload": "W0", "what": "a row", "raw": 2.0, "ours": 3.0, **members})


@pytest.mark.parametrize(
    ("members", "is_met"),
    [
        ({"limit": 1.5}, True),
        ({"limit": 1.4}, False),
        ({"at_least": 1.5}, True),
        ({"at_least": 1.6}, False),
        ({}, None),
        ({"raw": None, "ours": 0, "limit": 0}, True),
        ({"raw": None, "ours": 1, "limit": 0}, False),
        ({"raw": None, "ours": 1}, None),
    ],
)
def test_a_ratio_or_a_count_is_met_or_missed(members, is_met):
    assert row(**members).is_met is is_met
