"""Where the store of a framework is tried: a repository, a home, a database."""

import os
import subprocess
import sys
from pathlib import Path

from upthread.client.framework_record import FrameworkRecord


class Place:
    """A record that many may open. `open` opens it once more."""

    def __init__(self, directory: Path, database: str) -> None:
        self.directory, self.database = directory, database
        self.repository = directory / "repository"
        home = str(directory / "home")
        self.environment = {"HOME": home, "UPTHREAD_HOME": home, "PATH": os.environ["PATH"]}
        self.repository.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.repository)], check=True)

    def open(self, **variables: str) -> FrameworkRecord:
        return FrameworkRecord(
            self.repository,
            database=self.database,
            environment={**self.environment, **variables},
        )

    def upthread(self, *words: str) -> str:
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

    def tell(self, address: str, text: str) -> str:
        return self.upthread("tell", address, text, "--agent", "rehearsal")
