"""A world for each test, and the proof after it that no agent is left."""

from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest
from tests.support.world import World

from upthread.agents._guard import MARK_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start it before any test marks its processes: it belongs to none of them."""
    forkserver.ensure_running()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    built = World(tmp_path)
    monkeypatch.setenv(MARK_VARIABLE, built.mark)
    yield built
    built.close()
