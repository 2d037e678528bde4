"""Several inserts as one statement: what is joined, in which order its values go, what is not."""

from __future__ import annotations

import re

import pytest

from upthread.store.postgres.joined_statement import ROWS_MAX, joined

PART, TURN, ACT = 12, 4, 6
"""The values of a row."""


def test_the_values_of_a_statement_are_numbered_through_checks_first():
    statement = joined(1, 1, (("record_part", 2), ("open_turn", 1), ("record_act", 1)))
    numbers = [int(each) for each in re.findall(rb"\$(\d+)", statement)]
    assert set(numbers) == set(range(1, 4 + 2 * PART + TURN + ACT + 1))
    assert statement.endswith(b" SELECT upthread.must_hold($1, $2), upthread.must_end_with($3, $4)")
    assert statement.count(b"INSERT") == 3


def test_without_rows_it_only_checks_and_without_checks_it_only_inserts():
    assert joined(2, 0, ()) == b"SELECT upthread.must_hold($1, $2), upthread.must_hold($3, $4)"
    assert joined(0, 0, (("open_turn", 1),)).endswith(b"VALUES ($1, $2, $3, $4)) SELECT 1")


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((("record_part", ROWS_MAX + 1),), id="too many rows"),
        pytest.param((("settle_transitions", 1),), id="no insert"),
        pytest.param((("record_act", 1),), id="nothing that has a unique key"),
        pytest.param((("open_turn", 1), ("record_act", 2)), id="two that look for themselves"),
    ],
)
def test_what_cannot_be_one_statement_is_none(shape):
    assert joined(1, 1, shape) is None
