"""Databases to measure on: beside each other on the disk of the repository, removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@contextmanager
def scratch() -> Generator[Path]:
    """Return an empty private directory; in memory a sync would cost nothing, so not in /tmp."""
    RESULTS.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="scratch-", dir=RESULTS))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
