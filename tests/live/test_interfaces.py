"""The interactive interfaces of the real agents: what a person sees of upthread, and what is said
afterwards, through a first start, a second one, a window that is nearly full, and a kill.

One person at one desk for each agent: what comes later stands on what came before, as it does for
people, and an agent is started three times in all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from tests.live.interfaces import (
    INTERFACES,
    Desk,
    wait_replied,
    wait_told,
)
from tests.live.shell import agents_left
from tests.live.terminal import Terminal

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def one_worker_each(agent: str):
    return pytest.param(agent, marks=pytest.mark.xdist_group(f"interface-{agent}"))


@pytest.fixture(scope="module", params=[one_worker_each(agent) for agent in INTERFACES])
def desk(request, tmp_path_factory) -> Iterator[Desk]:
    interface = INTERFACES[request.param]
    binary = request.getfixturevalue(interface.fixture)
    directory = tmp_path_factory.mktemp("desk")
    with RehearsalModel() as model:
        yield Desk(interface, binary, model, directory)
    assert model.violations == []
    assert agents_left(directory) == []


@pytest.fixture(scope="module")
def first(desk):
    with desk.at_the_agent() as terminal:
        desk.ask(
            terminal,
            f"Go. {desk.interface.delegate('Remember KIWI-1. [[SAY noted PEAR]]')} [[SAY the planner is done]]",
        )
        said= wait_told(terminal, "spec-1/planner") 
        wait_replied(terminal, "the planner is done")
        print(terminal.screen)
        desk.leave(terminal)
    return said

@pytest.fixture(scope="module")
def second(desk, first):
    with desk.at_the_agent() as terminal:
        desk.ask(
            terminal,
            f"Go. {desk.interface.delegate('What was it? [[USAGE 95000]] [[SAY it was KIWI]]')} [[SAY told again]]",
        )
        said= wait_told(terminal, "spec-1/planner", "turn 2") 
        wait_replied(terminal, "told again")
        desk.says("why","spec-1/planner")
        desk.says("show","spec-1","--json")
        desk.ask(
            terminal,
            f"Go. {desk.interface.delegate('Third? [[SAY third]]')} [[SAY told a third time]]",
        )
        try:
            said= wait_told(terminal, "spec-1/planner", "turn 3") 
        except AssertionError as e: print(e)
        wait_replied(terminal, "told a third time")
        print(terminal.screen)
        desk.says("why","spec-1/planner")
        yield terminal

def test_x(desk, second):
    terminal=second
    delegate, write = desk.interface.delegate, desk.interface.write
    desk.agent.upthread("use","spec-2")
    file = desk.project / "plan.md"
    t=time.monotonic()
    desk.ask(terminal, f"Go. {delegate(f'Write the plan. {write(file, chr(80))} [[HANG]]')}")
    print(wait_told(terminal, "spec-2/planner"))
    until=time.monotonic()+25
    while not file.exists() and time.monotonic()<until: time.sleep(.1)
    time.sleep(1.5)
    print(terminal.screen)
    terminal.kill()
    for w in (("ls",),("show","spec-2"),("why","spec-2/planner"),("brief","spec-2/planner"),("show","spec-2","--effects"),("audit","spec-2")):
        try: print(w, desk.says(*w)[:3000])
        except AssertionError as e: print(w,e)
    with desk.at_the_agent() as terminal:
        n=len(desk.model.model_requests)
        desk.ask(terminal, f"Go. {delegate('What was it? [[SAY it was KIWI]]')} [[SAY told again]]")
        print(wait_told(terminal, "spec-2/planner"))
        wait_replied(terminal, "told again")
        print(terminal.screen)
        desk.leave(terminal)
    raise AssertionError
