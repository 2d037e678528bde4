"""A hook waits for its drain once: a second wait in the same call has no time left."""

from __future__ import annotations

import sys

import pytest

from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook import drain_wait


class Clock:
    """The time as the hook sees it: only sleeping moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(drain_wait, "_until_s", [])
    monkeypatch.setattr(drain_wait, "time", clock)
    return clock


@pytest.fixture
def project(place) -> Place:
    place.start_drains_by_words((sys.executable, "-c", "import time; time.sleep(20)"))
    known = Place(str(place.home), str(place.project))
    assert known.read() is not None
    return known


def test_a_call_that_waits_twice_waits_no_longer_than_its_agent_does(project, clock):
    assert not drain_wait.wait_for_drain(project, lambda: False)
    waited_s = clock.now_s
    assert waited_s == pytest.approx(drain_wait.WAIT_S, abs=2 * drain_wait.LOOK_S)
    assert not drain_wait.wait_for_drain(project, lambda: False)
    assert clock.now_s == waited_s, "the time was over"
    assert drain_wait.wait_for_drain(project, lambda: True), "what is so is not waited for"
    assert clock.now_s == waited_s
