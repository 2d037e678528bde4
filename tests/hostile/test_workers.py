"""A worker in a hostile clone: it carries the run out, or says why not, and runs nothing of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile.entries import SPECIFICATION
from tests.hostile.test_path_lookup import CLONE, FORMS
from tests.hostile.world import World
from tests.support.hostile_clones import CLONES
from tests.support.postgres_server import drop_database_at, migrated_database_at
from tests.support.sets import EXTENDED, SOAK, spread

pytestmark = [pytest.mark.xdist_group("hostile world"), pytest.mark.timeout(300)]

SELECTED = ("python_module", "clean_filter", "ssh_command", "agents_commands", "waiting_role")


@pytest.fixture
def world(hostile_world: World, tmp_path: Path) -> Iterator[World]:
    """A world with a run that waits for a worker; `address` is its database's."""
    hostile_world.lay_out()
    hostile_world.address = migrated_database_at(tmp_path)
    words = ("spec-20", SPECIFICATION, "--detach", "--db", hostile_world.address)
    hostile_world.upthread("run", *words)
    yield hostile_world
    drop_database_at(tmp_path)


@EXTENDED
@pytest.mark.parametrize("name", spread(SELECTED, extended=1))
def test_a_worker_runs_nothing_of_it(name: str, world: World) -> None:
    world.become(CLONES[name])
    world.work(until="spec-20")
    world.settle()
    assert world.breaches == []


@SOAK
@pytest.mark.parametrize(
    "form", [pytest.param("relative", marks=EXTENDED), pytest.param("absolute", marks=SOAK)]
)
def test_no_worker_starts_what_path_finds_in_the_clone(form: str, world: World) -> None:
    world.become(CLONE)
    world.careless_path = tuple(each.format(clone=world.clone) for each in FORMS[form])
    assert "run ended" in world.work(until="run ended")
    world.settle()
    assert world.breaches == []
