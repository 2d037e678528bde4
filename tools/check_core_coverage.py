"""Run the tests of the core and fail below 100 % branch coverage, printing what is not covered.

`python tools/check_core_coverage.py [PYTEST ARGUMENT…]`: the files of tests/core shared out among
as many processes as there are processors, no other tests, no files left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COVERED_PERCENT_MIN = 100
TIMEOUT_S = "900"
"""A shorter one may expire while coverage holds its lock, and would then wait for ever."""

PROCESSES_MAX = 4
SETTINGS = """\
[run]
branch = true
parallel = true
source = upthread.core
[report]
show_missing = true
skip_covered = true
exclude_also =
    if TYPE_CHECKING:
    assert_never\\(
"""
"""In place of the project's own settings, which are for the whole package."""
FIRST_SET = (
    *("-q", "-p", "no:cacheprovider", "--timeout", TIMEOUT_S),
    *("-m", "not soak and not extended", "--hypothesis-seed=0"),
)
"""The tests of `make test`; the seed makes two measurements of one tree equal."""


def main(arguments: list[str]) -> int:
    """Return 0 when the tests pass and every branch of `upthread.core` was taken."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "coveragerc")
        settings.write_text(SETTINGS, encoding="utf-8")
        environment = {
            **os.environ,
            "COVERAGE_FILE": str(Path(folder, "coverage")),
            "COVERAGE_RCFILE": str(settings),
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        pytest = ("run", "-m", "pytest", *FIRST_SET, *arguments)
        runs = [_coverage([*pytest, *share], environment) for share in _shares()]
        codes = [run.wait() for run in runs]
        report = ["report", f"--fail-under={COVERED_PERCENT_MIN}"]
        codes += [
            _coverage(words, environment).wait() for words in (["combine", "--quiet"], report)
        ]
    return next(filter(None, codes), 0)


def _shares() -> list[list[str]]:
    """Return the test files, dealt out in the order of their names to each process in turn."""
    files = sorted(str(each) for each in (ROOT / "tests" / "core").rglob("test_*.py"))
    count = min(os.cpu_count() or 1, PROCESSES_MAX)
    return [files[first::count] for first in range(count)]


def _coverage(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
