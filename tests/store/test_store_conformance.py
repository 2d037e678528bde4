"""Every promise of the store port on every store we ship. The matrix is printed at the end."""

from __future__ import annotations

import re

import pytest
from tests.support.shipped_stores import MEMORY, POSTGRES, SHIPPED_STORES

from upthread.store import base
from upthread.testing.store_conformance import PROMISES, Verdict, matrix

ABSENT_IN_MEMORY = {"is_durable", "is_shared", "mark_newer", "failing", "damage", "tamper"}
"""What the store in memory cannot have. SQLite has everything."""

BETWEEN_PEOPLE = "is_between_people"
"""What PostgreSQL alone is: the others are one person's."""


@pytest.mark.parametrize("backend", SHIPPED_STORES, ids=lambda backend: backend.name)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_store_keeps_promise(promise, backend, tmp_path, record_property):
    record_property("store promise", (promise.name, backend.name, "BROKEN"))
    verdict = promise.run(backend, tmp_path / "store.db")
    record_property("store promise", (promise.name, backend.name, verdict.value))
    is_absent = (backend is MEMORY and promise.needs in ABSENT_IN_MEMORY) or (
        backend is not POSTGRES and promise.needs == BETWEEN_PEOPLE
    )
    assert verdict is (Verdict.ABSENT if is_absent else Verdict.KEPT)


def test_every_numbered_promise_of_the_port_has_a_check():
    numbers = set(re.findall(r"^(S\d+) ", base.__doc__ or "", re.MULTILINE))
    assert {promise.number for promise in PROMISES} == numbers
    assert {promise.needs for promise in PROMISES} - {""} == ABSENT_IN_MEMORY | {BETWEEN_PEOPLE}


def test_the_matrix_shows_each_promise_under_each_backend():
    shown = matrix({("S2_b", "x"): "kept", ("S10_a", "x"): "absent", ("S2_b", "y"): "kept"})
    assert [line.split() for line in shown.splitlines()] == [
        ["x", "y"],
        ["S2_b", "kept", "kept"],
        ["S10_a", "absent", "-"],
    ]
