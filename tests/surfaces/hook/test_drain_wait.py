"""How long a hook waits: one time for all that it waits for, however much that is."""

from __future__ import annotations

import sys
import time

import pytest

from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook import drain_wait


@pytest.fixture
def project(place, monkeypatch) -> Place:
    monkeypatch.setattr(drain_wait, "_until_s", [])
    monkeypatch.setattr(drain_wait, "WAIT_S", 1.0)
    place.start_drains_by_words((sys.executable, "-c", "import time; time.sleep(20)"))
    known = Place(str(place.home), str(place.project))
    assert known.read() is not None
    return known


def test_a_call_that_waits_twice_waits_no_longer_than_its_agent_does(project):
    started_s = time.monotonic()
    assert not drain_wait.wait_for_drain(project, lambda: False)
    first_s = time.monotonic() - started_s
    assert not drain_wait.wait_for_drain(project, lambda: False)
    second_s = time.monotonic() - started_s - first_s
    assert first_s >= 1.0
    assert second_s < first_s, "the time was over"


def test_what_is_so_is_not_waited_for(project):
    assert drain_wait.wait_for_drain(project, lambda: True)
