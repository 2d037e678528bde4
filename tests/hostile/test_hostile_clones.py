"""In a hostile clone nothing of it is run, whichever way in; nothing hangs, leaks or leaves it.

All clones are entered every time, with the most dangerous calls and a share of all others that
moves on from clone to clone; `make soak` makes every call in every clone.
"""

from __future__ import annotations

import pytest
from tests.hostile.entries import ADDRESS, CALLS, EVENTS, WORKSTREAM, calls
from tests.support.hostile_clones import CLONES

from upthread.surfaces.cli.program import VERBS

NAMES = list(CLONES)
SHARES = 48
"""How many clones it takes until every call was made."""

EVENTS_AT_ONCE = 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_it_is_run_and_nothing_hangs_or_leaks(name, hostile_world):
    world, number = hostile_world, NAMES.index(name)
    world.enter(CLONES[name])
    for words in dict.fromkeys((("show", WORKSTREAM), *calls()[number % SHARES :: SHARES])):
        world.verb(words)
    agent = list(EVENTS)[number % len(EVENTS)]
    world.hook(agent, world.directory, first=number, events_max=EVENTS_AT_ONCE)
    (world.start_mcp, world.start_drain, world.library, world.show_status_line)[number % 4]()
    world.settle()
    assert world.breaches.found == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_no_way_in_runs_anything_of_it(name, hostile_world):
    world = hostile_world
    world.enter(CLONES[name])
    world.start_for_real("ls")
    world.start_for_real("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    for agent in EVENTS:
        for directory in dict.fromkeys((world.clone, world.directory)):
            world.hook(agent, directory)
    world.start_mcp()
    world.start_drain()
    world.show_status_line()
    world.library()
    for words in calls():
        world.verb(words)
    world.settle()
    assert world.breaches.found == []


def test_every_verb_is_called_and_none_that_is_not_there():
    called = {words[0] for words in calls()}
    assert called == VERBS.keys()
    assert CALLS.keys() <= VERBS.keys()
