"""What was said of a call stays for the whole turn, bounded, and what is forgotten is not known."""

from __future__ import annotations

import pytest

from upthread.agents import _prompt
from upthread.agents._prompt import TELLINGS_OF_CALL_MAX, UNSETTLED, ToldOfCalls
from upthread.core.shell.expected_call import Told

READS = Told(title="Read", tool_kind="read")


def test_all_that_was_said_of_a_call_is_kept_once_and_of_another_nothing():
    told = ToldOfCalls()
    other = Told(tool_kind="execute")
    for each in (READS, other, READS, Told()):
        told.note("c1", each)
    assert told.of("c1") == (READS, other)
    assert told.of("c2") == told.of(None) == ()


def test_a_call_told_in_very_many_ways_is_of_no_settled_kind():
    told = ToldOfCalls()
    for number in range(TELLINGS_OF_CALL_MAX + 1):
        told.note("c1", Told(title=str(number), tool_kind="read"))
    assert len(told.of("c1")) == TELLINGS_OF_CALL_MAX
    assert told.of("c1")[-1].tool_kind == UNSETTLED


@pytest.mark.parametrize(("limit", "most"), [("CALLS_TOLD_MAX", 2), ("TOLD_BYTES_MAX", 1_000)])
def test_what_may_have_been_forgotten_is_of_no_settled_kind(monkeypatch, limit, most):
    monkeypatch.setattr(_prompt, limit, most)
    told = ToldOfCalls()
    for number in range(20):
        told.note(f"c{number}", READS)
    assert READS in told.of("c19")
    assert told.of("c0") == (Told(tool_kind=UNSETTLED),)
    told.note("c0", READS)
    assert told.of("c0") == (Told(tool_kind=UNSETTLED), READS)
