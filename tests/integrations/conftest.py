"""A record for each test, on both databases. `make frameworks` installs the frameworks."""

from __future__ import annotations

import pytest
from tests.support.framework_place import Place
from tests.support.postgres_server import drop_database_at, migrated_database_at


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
def record(place):
    with place.open() as opened:
        yield opened
