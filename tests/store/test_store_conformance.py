"""Every promise of the store port on every store we ship. The matrix is printed at the end."""

import itertools
import re

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.shipped_stores import POSTGRES, SHIPPED_STORES

from upthread.store import base
from upthread.testing.store_conformance import PROMISES, Verdict, matrix
from upthread.testing.store_conformance.copies import copied, everything, recorded_in
from upthread.testing.store_conformance.samples import PROJECT

SLOW = {
    "S5_what_was_committed_outlives_its_process",
    "S6_writers_of_one_conversation_leave_no_gap",
    "S10_asked_at_the_same_moment_a_key_has_one_conversation",
    "S13_asked_at_the_same_moment_a_lease_has_one_holder",
    "S23_asked_at_the_same_moment_an_action_is_begun_once",
    "S16_a_new_store_opens_in_many_processes_at_once",
    "S22_however_much_tools_did_between_it_is_found",
    "S7_more_than_a_page_comes_back",
}
"""Promises that are tried with several processes, or with thousands of messages."""

ONCE_IN_THE_FIRST_SET = {
    "sqlite": {
        "S6_writers_of_one_conversation_leave_no_gap",
        "S16_a_new_store_opens_in_many_processes_at_once",
        "S22_however_much_tools_did_between_it_is_found",
        "S7_more_than_a_page_comes_back",
    },
    "postgres": {"S5_what_was_committed_outlives_its_process"},
}
"""Of the slow promises, for each backend. The others are tried in the extended set."""


def in_sets():
    for backend in SHIPPED_STORES:
        for promise in PROMISES:
            is_later = promise.name in SLOW - ONCE_IN_THE_FIRST_SET.get(backend.name, set())
            name = f"{promise.name}-{backend.name}"
            yield pytest.param(promise, backend, id=name, marks=EXTENDED if is_later else ())


@pytest.mark.parametrize(("promise", "backend"), list(in_sets()))
def test_store_keeps_promise(promise, backend, tmp_path, record_property):
    record_property("store promise", (promise.name, backend.name, "BROKEN"))
    verdict = promise.run(backend, tmp_path / "store.db")
    record_property("store promise", (promise.name, backend.name, verdict.value))
    is_absent = backend is not POSTGRES and promise.is_between_people
    assert verdict is (Verdict.ABSENT if is_absent else Verdict.KEPT)


def test_every_numbered_promise_of_the_port_has_a_check():
    numbers = set(re.findall(r"^(S\d+) ", base.__doc__ or "", re.MULTILINE))
    assert {promise.number for promise in PROMISES} == numbers
    assert {promise.name for promise in PROMISES} >= SLOW


def test_the_matrix_shows_each_promise_under_each_backend():
    shown = matrix({("S2_b", "x"): "kept", ("S10_a", "x"): "absent", ("S2_b", "y"): "kept"})
    assert [line.split() for line in shown.splitlines()] == [
        ["x", "y"],
        ["S2_b", "kept", "kept"],
        ["S10_a", "absent", "-"],
    ]


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
