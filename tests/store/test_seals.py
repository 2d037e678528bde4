"""What a seal tells apart."""

from __future__ import annotations

from upthread.store._rules import seal_of


def test_seals_tell_apart_what_looks_alike_beside_each_other():
    columns = [("1",), (1,), (b"1",), (None,), ("1", ""), ("", "1"), ("i1", 1), (1.0,)]
    assert len({seal_of(*each) for each in columns}) == len(columns)
