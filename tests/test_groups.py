"""Tests that name a group share a worker, so that what they build in common is built once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
GROUPED = """
import pytest

pytestmark = pytest.mark.xdist_group("one")

@pytest.mark.parametrize("n", range(6))
def test_any(n):
    pass
"""
SHARING = """
import pytest

@pytest.fixture(scope="module")
def built():
    return object()

@pytest.mark.parametrize("n", range(6))
def test_any(n, built):
    pass
"""


@pytest.mark.parametrize("source", [GROUPED, SHARING], ids=["marked", "sharing a fixture"])
def test_tests_of_one_group_run_in_one_worker(tmp_path, source):
    (tmp_path / "test_grouped.py").write_text(source)
    options = ["-v", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    ours = ["-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *ours, str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    workers = re.findall(r"^\[(gw\d)\].*PASSED", done.stdout, re.MULTILINE)
    assert len(workers) == 6, done.stdout + done.stderr
    assert len(set(workers)) == 1, done.stdout
