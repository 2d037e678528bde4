"""A world on a database for each test, and the workers there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.conftest import fork_server
from tests.support.laboratory.sharing import Observer, Passage, Workers
from tests.support.world import World

__all__ = ["fork_server"]


@pytest.fixture
def observer(address: str) -> Iterator[Observer]:
    observer = Observer(address)
    yield observer
    observer.close()


@pytest.fixture
def passage(tmp_path: Path, address: str) -> Iterator[Passage]:
    made = Passage(tmp_path / "passage", address)
    yield made
    made.close()


@pytest.fixture
def workers(tmp_path: Path, passage: Passage) -> Iterator[Workers]:
    with Workers(tmp_path, passage.world.environment, [passage.world.project]) as started:
        yield started


@pytest.fixture
def world(tmp_path: Path, address: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world on the database, with the CONFIGURATION of the test's module."""
    made = World(tmp_path / "world", content=str(tmp_path))
    made.environment["UPTHREAD_DB"] = address
    made.configure(request.module.CONFIGURATION)
    yield made
    made.close()
