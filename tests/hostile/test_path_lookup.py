"""No way in starts what PATH finds in the clone: by an empty entry, a relative one, or its path.

One clone has a program of every name that anybody looks up, in each folder such a PATH names; what
is started under another name is seen by the driver, which writes down each start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.hostile.entries import ADDRESS, EVENTS, SPECIFICATION, calls
from tests.hostile.world import World
from tests.support.hostile_clones import CLONES, Canary, HostileClone
from tests.support.postgres_server import drop_database_at, migrated_database_at

HERE = "{clone}"
FORMS: Mapping[str, tuple[str, ...]] = {
    "relative": ("", ".", "bin", "./bin", "../clone", "node_modules/.bin"),
    "absolute": (HERE, f"{HERE}/bin", f"{HERE}/docs/../bin"),
}
"""What stands before everything else in PATH."""

TELL = ("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")


def build(directory: Path, canary: Canary) -> None:
    for name in ("executables_in_the_root", "executables_in_bin", "node_executables"):
        CLONES[name].build(directory, canary)


CLONE = HostileClone(name="path_lookup", attacks="programs wherever PATH looks", build=build)


@pytest.fixture(params=FORMS)
def world(request, hostile_world) -> World:
    """A careless person's world: PATH leads into the clone before it leads anywhere else."""
    hostile_world.enter(CLONE)
    entries = FORMS[request.param]
    hostile_world.careless_path = tuple(e.format(clone=hostile_world.clone) for e in entries)
    return hostile_world


@pytest.mark.timeout(300)
def test_no_call_of_a_verb_and_none_of_the_library_does(world):
    for words in calls():
        world.verb(words)
    world.library()
    world.settle()
    assert world.breaches.found == []
    assert world.started > len(calls()), "git and agents were started, and seen to be"


@pytest.mark.timeout(300)
def test_no_hook_server_drain_or_status_line_does(world):
    for agent in EVENTS:
        world.hook(agent, world.clone)
    world.start_mcp()
    world.start_drain()
    world.show_status_line()
    world.start_for_real(*TELL)
    world.settle()
    assert world.breaches.found == []


@pytest.mark.timeout(300)
def test_no_call_does_in_a_home_that_is_the_clone_where_only_the_entry_tells(hostile_world):
    """Whoever keeps their home in git: what lies in there is theirs, but not by a relative name."""
    world = hostile_world
    world.enter(CLONE)
    world.careless_path = FORMS["relative"]
    world.more_environment = {"HOME": str(world.clone)}
    for words in (("show", "spec-42"), TELL, *((verb, ADDRESS) for verb in ("why", "open"))):
        world.verb(words)
    world.verb(("brief", ADDRESS, "--edit"))
    world.library()
    world.settle()
    assert world.breaches.found == []
    assert world.started > 0


@pytest.fixture
def address(tmp_path):
    yield migrated_database_at(tmp_path)
    drop_database_at(tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", FORMS)
def test_no_worker_does(form, hostile_world, address):
    world = hostile_world
    world.lay_out()
    world.upthread("run", "spec-20", SPECIFICATION, "--detach", "--db", address)
    world.become(CLONE)
    world.careless_path = tuple(each.format(clone=world.clone) for each in FORMS[form])
    assert "run ended" in world.work(address, until="run ended")
    world.settle()
    assert world.breaches.found == []
