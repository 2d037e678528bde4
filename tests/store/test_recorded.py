"""A project copied from any backend to any other is the same there."""

from __future__ import annotations

import itertools

import pytest
from tests.support.sets import spread
from tests.support.shipped_stores import SHIPPED_STORES

from upthread.testing.store_conformance.copies import copied, everything, recorded_in
from upthread.testing.store_conformance.samples import PROJECT

WAYS = list(itertools.product(SHIPPED_STORES, repeat=2))


@pytest.mark.parametrize("way", spread(WAYS, name=lambda way: f"{way[0].name} to {way[1].name}"))
def test_what_one_backend_holds_every_other_one_holds_as_well(way, tmp_path):
    source, target = way
    first, second = source.make(tmp_path / "first.db"), target.make(tmp_path / "second.db")
    first.commit(everything())
    copied(first, second, PROJECT)
    assert recorded_in(first, PROJECT) == recorded_in(second, PROJECT)
    first.close()
    second.close()
