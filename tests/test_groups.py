"""Tests that name a group share a worker, so that what they build in common is built once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.sets import SOAK

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = {
    "test_marked.py": """
import pytest

pytestmark = pytest.mark.xdist_group("one")

@pytest.mark.parametrize("n", range(6))
def test_any(n):
    pass
""",
    "test_sharing.py": """
import pytest

@pytest.fixture(scope="module")
def built():
    return object()

@pytest.mark.parametrize("n", range(6))
def test_any(n, built):
    pass
""",
}


@SOAK
def test_tests_of_one_group_run_in_one_worker(tmp_path):
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    options = ["-v", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    ours = ["-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *ours, str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    for name in SOURCES:
        workers = re.findall(rf"^\[(gw\d)\].*PASSED.*{name}", done.stdout, re.MULTILINE)
        assert len(workers) == 6, done.stdout + done.stderr
        assert len(set(workers)) == 1, done.stdout
