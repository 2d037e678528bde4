"""PostgreSQL does what the model does: the machine of SQLite, on another store."""

from __future__ import annotations

import pytest
from tests.store.test_sqlite_against_model import SqliteAgainstModel, at_length
from tests.support.postgres_server import drop_database_at
from tests.support.sets import EXTENDED, SOAK
from tests.support.shipped_stores import open_postgres


class PostgresAgainstModel(SqliteAgainstModel):
    """Both stores, side by side."""

    def open(self):
        return open_postgres(self.directory)

    def teardown(self):
        super().teardown()
        drop_database_at(self.directory)


@EXTENDED
@pytest.mark.timeout(600)
class TestPostgresAgainstModel(PostgresAgainstModel.TestCase):
    """The short version."""

    settings = at_length(6, 30)


@SOAK
class TestPostgresAgainstModelForLong(PostgresAgainstModel.TestCase):
    """Fifty thousand steps and more."""

    settings = at_length(1_000, 60)
