"""PostgreSQL does what the model does: the machine of SQLite, on another store."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from tests.store.test_sqlite_against_memory import SqliteAgainstMemory
from tests.support.postgres_server import drop_database_at
from tests.support.shipped_stores import open_postgres


class PostgresAgainstMemory(SqliteAgainstMemory):
    """Both stores, side by side."""

    def open(self):
        return open_postgres(self.directory)

    def teardown(self):
        super().teardown()
        drop_database_at(self.directory)


class TestPostgresAgainstMemory(PostgresAgainstMemory.TestCase):
    """The short version."""

    settings = settings(
        max_examples=12,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.soak
class TestPostgresAgainstMemoryForLong(PostgresAgainstMemory.TestCase):
    """Fifty thousand steps and more."""

    settings = settings(
        max_examples=1_000,
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
