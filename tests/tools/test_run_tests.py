"""No test of the real agents falls between the targets of `make`."""

from __future__ import annotations

from pathlib import Path

from tools.run_tests import EVERY_DAY, PARTS, REPOSITORY


def test_what_is_run_every_day_is_there_and_is_all_that_the_rest_leaves_out():
    ((_, words),) = PARTS["live-rest"]
    left_out = {word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")}
    assert left_out == set(EVERY_DAY)
    assert all((REPOSITORY / Path(file)).is_file() for file in EVERY_DAY)


def test_ci_runs_both():
    lines = (REPOSITORY / ".ci/run").read_text().splitlines()
    (targets,) = [line for line in lines if line.startswith("for what in")]
    assert {"check", "test", "frameworks", "live-rest"} <= set(targets.replace(";", "").split())
