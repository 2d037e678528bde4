"""A worker in a hostile clone: it carries the run out, or says why not, and runs nothing of it."""

from __future__ import annotations

import pytest
from tests.hostile.entries import SPECIFICATION
from tests.support.hostile_clones import CLONES
from tests.support.postgres_server import drop_database_at, migrated_database_at

SELECTED = ("python_module", "clean_filter", "ssh_command", "agents_commands", "waiting_role")


@pytest.fixture
def address(tmp_path):
    yield migrated_database_at(tmp_path)
    drop_database_at(tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SELECTED)
def test_a_worker_runs_nothing_of_it(name, hostile_world, address):
    world = hostile_world
    world.lay_out()
    world.upthread("run", "spec-20", SPECIFICATION, "--detach", "--db", address)
    world.become(CLONES[name])
    world.work(address, until="spec-20")
    world.settle()
    assert world.breaches.found == []
