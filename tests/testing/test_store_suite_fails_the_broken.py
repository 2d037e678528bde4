"""A store with a fault fails the suite shipped for stores, in the promise that the fault breaks."""

from __future__ import annotations

import pytest
from tests.testing.broken_stores import FAULTS

from upthread.errors import UpthreadError
from upthread.testing.store_conformance import PROMISES

ENOUGH = 69


def broken_promises(backend, number, directory):
    """Return the promises of a number that a backend breaks, up to the first."""
    for promise in PROMISES:
        if promise.number != number:
            continue
        place = directory / promise.name
        place.mkdir()
        try:
            promise.run(backend, place / "store.db")
        except (AssertionError, UpthreadError):
            return [promise.name]
    return []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_store_with_a_fault_breaks_its_promise(fault, tmp_path):
    assert broken_promises(fault.backend, fault.breaks, tmp_path), "the suite passes it"


def test_each_fault_is_another_and_there_are_enough_of_them():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS) >= ENOUGH
    assert {fault.breaks for fault in FAULTS} <= {promise.number for promise in PROMISES}
