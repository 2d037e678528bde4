"""An agent with a fault fails the suite shipped for agents, in the promise it breaks."""

import pytest
from msgspec.structs import replace
from tests.agents.test_agent_conformance import REHEARSAL
from tests.support.sets import spread
from tests.testing.broken_agents import FAULTS, IDLE, BrokenAdapter

from upthread.errors import UpstreamError
from upthread.testing.agent_conformance import PROMISES, sessions, trial

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_goes_on():
    """End what a fault has started."""
    yield
    while IDLE:
        with IDLE.pop() as process:
            process.kill()


@pytest.fixture(autouse=True)
def short_of_patience(monkeypatch):
    """Do not wait for a fault as long as for an agent that is only slow."""
    monkeypatch.setattr(trial, "PATIENCE_S", 2.0)
    monkeypatch.setattr(trial, "CANCEL_TIMEOUT_S", 0.5)
    monkeypatch.setattr(sessions, "BURIAL_S", 0.3)
    monkeypatch.setattr(sessions, "BAD_START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(sessions, "ENDING_S", 2.0)


async def broken_promise(agent, sought, directory):
    """Return the first promise sought that an agent breaks, None when it keeps them all."""
    for promise in PROMISES:
        if sought not in {promise.number, promise.name}:
            continue
        place = directory / promise.name
        place.mkdir()
        try:
            await promise.run(agent, place)
        except (AssertionError, UpstreamError):
            return promise.name
    return None


REPRESENTATIVES = list({fault.breaks: fault for fault in FAULTS}.values())
"""One fault for each promise that a fault breaks: the last, since the first ones take longer."""


@pytest.mark.extended
@pytest.mark.parametrize(
    "fault",
    spread(FAULTS, first=REPRESENTATIVES, extended=FAULTS[::3], name=lambda fault: fault.what),
)
async def test_an_agent_with_a_fault_breaks_its_promise(fault, tmp_path):
    bad_starts = {what: BrokenAdapter(each, fault) for what, each in REHEARSAL.bad_starts.items()}
    adapter = BrokenAdapter(REHEARSAL.adapter, fault)
    agent = replace(REHEARSAL, name=fault.what, adapter=adapter, bad_starts=bad_starts)
    assert await broken_promise(agent, fault.breaks, tmp_path), "the suite passes it"


def test_every_fault_breaks_a_promise_that_the_suite_has():
    known = {name for promise in PROMISES for name in (promise.number, promise.name)}
    assert {fault.breaks for fault in FAULTS} <= known
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
