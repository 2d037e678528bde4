"""One world for each worker; a test enters it with the clone it is about."""

from multiprocessing import forkserver

import pytest
from tests.hostile.world import World


@pytest.fixture(scope="session")
def hostile_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    forkserver.ensure_running()  # before any environment names the world: it belongs to none
    return World(tmp_path_factory.mktemp("hostile"))
