"""The store port's promises as tests, for every backend there is or will be.

A backend says what it is, and pytest (or any loop) runs each promise on it::

    BACKEND = StoreBackend(name="mine", make=MyStore, is_durable=True, is_shared=True)

    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
    def test_store_keeps(promise, tmp_path):
        assert promise.run(BACKEND, tmp_path / "store") is not Verdict.ABSENT

A broken promise raises AssertionError. A promise that needs what the backend declares not to have
is `ABSENT`, never passed over in silence: print `matrix` at the end. Plain functions and `assert`:
nothing here imports pytest.
"""

from upthread.testing.matrix import matrix
from upthread.testing.store_conformance.acts import ACTING_PROMISES
from upthread.testing.store_conformance.backend import (
    Promise,
    StoreBackend,
    Trial,
    Verdict,
)
from upthread.testing.store_conformance.completeness import COMPLETENESS_PROMISES
from upthread.testing.store_conformance.continuity import CONTINUITY_PROMISES
from upthread.testing.store_conformance.copies import MOVING_PROMISES
from upthread.testing.store_conformance.erasure import ERASING_PROMISES
from upthread.testing.store_conformance.freshness import FRESHNESS_PROMISES
from upthread.testing.store_conformance.leases import LEASE_PROMISES
from upthread.testing.store_conformance.processes import PROCESS_PROMISES
from upthread.testing.store_conformance.reads import READING_PROMISES
from upthread.testing.store_conformance.writes import WRITING_PROMISES

PROMISES: tuple[Promise, ...] = (
    *WRITING_PROMISES,
    *READING_PROMISES,
    *COMPLETENESS_PROMISES,
    *CONTINUITY_PROMISES,
    *ERASING_PROMISES,
    *FRESHNESS_PROMISES,
    *MOVING_PROMISES,
    *LEASE_PROMISES,
    *PROCESS_PROMISES,
    *ACTING_PROMISES,
)
"""All promises of `upthread.store.base`, some of them in several sides."""

__all__ = ["PROMISES", "Promise", "StoreBackend", "Trial", "Verdict", "matrix"]
