"""Run the tests of the core and fail below 100 % branch coverage, printing what is not covered.

`python tools/check_core_coverage.py [PYTEST ARGUMENT…]`: one process, no other tests, no files left
behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COVERED_PERCENT_MIN = 100


def main(arguments: list[str]) -> int:
    """Return 0 when the tests pass and every branch of `upthread.core` was taken."""
    with tempfile.TemporaryDirectory() as folder:
        # Over the project's own settings, which are for many processes and the whole package.
        settings = Path(folder, "coveragerc")
        settings.write_text(
            "[run]\nbranch = true\nsource = upthread.core\n"
            "[report]\nshow_missing = true\nskip_covered = true\n"
            "exclude_also =\n    if TYPE_CHECKING:\n    assert_never\\(\n",
            encoding="utf-8",
        )
        environment = {
            **os.environ,
            "COVERAGE_FILE": str(Path(folder, "coverage")),
            "COVERAGE_RCFILE": str(settings),
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        run = ["run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core", *arguments]
        report = ["report", f"--fail-under={COVERED_PERCENT_MIN}"]
        return _coverage(run, environment) or _coverage(report, environment)


def _coverage(arguments: list[str], environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
