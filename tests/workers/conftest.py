"""A database for each test, and an anyio that runs on asyncio, as the queue does."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest
from tests.support.laboratory.sharing import Observer, Passage, Workers
from tests.support.postgres_server import drop_database_at, migrated_database_at
from tests.support.world import World


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start it before any test marks its processes: it belongs to none of them."""
    forkserver.ensure_running()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    yield migrated_database_at(tmp_path)
    drop_database_at(tmp_path)


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
