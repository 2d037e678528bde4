"""A record for each test, on both databases. `make frameworks` installs the frameworks."""

from pathlib import Path

import pytest
from tests.support.framework_place import Place
from tests.support.postgres_server import drop_database_at, migrated_database_at
from tests.support.sets import EXTENDED


def pytest_collection_modifyitems(items):
    """All tests of the frameworks are in the extended set: they need an environment of their own."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(EXTENDED)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        yield Place(tmp_path, str(tmp_path / "record.db"))
        return
    address = migrated_database_at(tmp_path)
    yield Place(tmp_path, address)
    drop_database_at(tmp_path)


@pytest.fixture
def sqlite_place(tmp_path):
    return Place(tmp_path, str(tmp_path / "record.db"))


@pytest.fixture
def home(sqlite_place, monkeypatch):
    """A place that the process's own environment names."""
    for name, value in sqlite_place.environment.items():
        monkeypatch.setenv(name, value)
    return sqlite_place


@pytest.fixture
def record(place):
    with place.open() as opened:
        yield opened
