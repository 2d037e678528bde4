"""The store port's promises as tests, for every backend there is or will be.

A backend says what it is, and pytest (or any loop) runs each promise on it::

    BACKEND = StoreBackend(name="mine", make=MyStore, mark_newer=…, failing=…, tamper=…)

    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
    def test_store_keeps(promise, tmp_path):
        assert promise.run(BACKEND, tmp_path / "store") is not Verdict.ABSENT

A broken promise raises AssertionError. A promise between people is `ABSENT` on a backend that is
one person's, never passed over in silence: print `matrix` at the end. Plain functions and `assert`:
nothing here imports pytest.
"""

from upthread.testing.store_conformance import (
    backend,
    continuity,
    copies,
    erasure,
    leases,
    reads,
    writes,
)
from upthread.testing.store_conformance.backend import Promise, StoreBackend, Trial, Verdict, matrix

CHECKS = (writes, reads, continuity, erasure, copies, leases)
"""Where the checks are; each adds its own when it is loaded."""

PROMISES: tuple[Promise, ...] = tuple(backend.PROMISES)
"""All promises of `upthread.store.base`, some of them in several sides."""

__all__ = ["PROMISES", "Promise", "StoreBackend", "Trial", "Verdict", "matrix"]
