"""A store with a fault fails the suite shipped for stores, in the promise that the fault breaks."""

import pytest
from tests.support.sets import spread
from tests.testing.broken_stores import FAULTS

from upthread.errors import UpthreadError
from upthread.testing.store_conformance import PROMISES


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


REPRESENTATIVES = list({fault.breaks: fault for fault in reversed(FAULTS)}.values())
"""One fault for each promise that a fault breaks."""


@pytest.mark.extended
@pytest.mark.parametrize(
    "fault",
    spread(FAULTS, first=REPRESENTATIVES, extended=FAULTS[::3], name=lambda fault: fault.what),
)
def test_a_store_with_a_fault_breaks_its_promise(fault, tmp_path):
    assert broken_promises(fault.backend, fault.breaks, tmp_path), "the suite passes it"


def test_every_fault_breaks_a_promise_that_the_suite_has():
    known = {name for promise in PROMISES for name in (promise.number, promise.name)}
    assert {fault.breaks for fault in FAULTS} <= known
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
