"""A row of the benchmarks has the verdict that its limit gives it."""

from bench.measure import COUNTED, Row


def row(**members) -> Row:
    return Row(**{"workload": "W0", "what": "a row", "raw": 2.0, "ours": 3.0, **members})


def test_a_ratio_is_met_or_missed():
    assert row(limit=1.5).is_met is True
    assert row(limit=1.4).is_met is False
    assert row(at_least=1.5).is_met is True
    assert row(at_least=1.6).is_met is False
    assert row().is_met is None


def test_what_has_no_raw_side_is_held_to_its_limit_itself():
    assert row(raw=None, ours=0, limit=0).is_met is True
    assert row(raw=None, ours=1, limit=0).is_met is False
    assert row(raw=None, ours=150, limit=150).is_met is True
    assert row(raw=None, ours=1).is_met is None


def test_a_busy_machine_misses_times_alone():
    assert row(limit=1.0).is_of_the_machine
    assert not row(raw=None, ours=1, limit=0).is_of_the_machine
    assert not row(limit=1.0, note=COUNTED).is_of_the_machine
