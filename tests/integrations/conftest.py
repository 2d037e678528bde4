"""A record for each test, on both databases. `make frameworks` installs the frameworks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.support.postgres_server import drop_database_at, migrated_database_at

from upthread.client.framework_record import FrameworkRecord


class Place:
    """Where a record is: a repository, a home, a database. `open` opens it once more."""

    def __init__(self, directory, database):
        self.directory, self.database = directory, database
        self.repository = directory / "repository"
        home = str(directory / "home")
        self.environment = {"HOME": home, "UPTHREAD_HOME": home, "PATH": os.environ["PATH"]}
        self.repository.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.repository)], check=True)

    def open(self):
        return FrameworkRecord(
            self.repository, database=self.database, environment=self.environment
        )

    def upthread(self, *words):
        """Run the program here, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "upthread", *words, "--db", self.database],
            cwd=self.repository,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tell(self, address, text):
        return self.upthread("tell", address, text, "--agent", "rehearsal")


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
