"""One world for each worker; a test enters it with the clone it is about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile.world import World


@pytest.fixture(scope="session")
def hostile_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("hostile"))
    yield world
    world.driver.close()
