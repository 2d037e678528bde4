"""Run the steps of `make check`, as many at once as there are processors: `python -m tools.check`.

`python -m tools.check ruff mypy` runs these steps alone. The output of a step is printed in one
piece when the step ends. The output of every failed step is printed again at the end, so that a
reader need not search for a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTHON = sys.executable
PROCESSES_MIN = 2
LINES_SHOWN_AGAIN_MAX = 60

STEPS: Mapping[str, tuple[str, ...]] = {
    "coverage": (PYTHON, "tools/check_core_coverage.py"),
    "pyright": (str(BIN / "pyright"),),
    "mypy": (str(BIN / "mypy"),),
    "docs": (PYTHON, "-m", "tools.generate_docs", "--check"),
    "figures": (PYTHON, "-m", "tools.figures"),
    "words": (PYTHON, "-m", "tools.words"),
    "shape": (PYTHON, "tools/size_budget.py", "src"),
    "cap": (PYTHON, "-m", "tools.size_cap"),
    "ruff": (str(BIN / "ruff"), "check", "."),
    "format": (str(BIN / "ruff"), "format", "--check", "."),
    "imports": (str(BIN / "lint-imports"),),
}
"""The longest step first, so that no processor is idle at the end."""


class Result(NamedTuple):
    """How a step ended."""

    name: str
    code: int
    output: str
    duration_s: float


def run_step(name: str, command: tuple[str, ...]) -> Result:
    """Run one step to its end, and keep its output."""
    started_s = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Result(name, done.returncode, done.stdout.rstrip("\n"), time.monotonic() - started_s)


def run_steps(steps: Mapping[str, tuple[str, ...]]) -> int:
    """Run steps at once; return 1 when a step failed."""
    failed: list[Result] = []
    with ThreadPoolExecutor(max(PROCESSES_MIN, os.cpu_count() or 1)) as pool:
        for future in as_completed(pool.submit(run_step, *step) for step in steps.items()):
            result = future.result()
            print(f"--- {result.name}: {result.duration_s:.0f} s", result.output, sep="\n")
            sys.stdout.flush()
            if result.code != 0:
                failed.append(result)
    for result in failed:
        lines = result.output.splitlines()[-LINES_SHOWN_AGAIN_MAX:]
        print(f"--- FAILED: {result.name} (exit code {result.code})", *lines, sep="\n")
    if failed:
        again = " ".join(
            [os.path.relpath(PYTHON, ROOT), "-m tools.check", *(each.name for each in failed)]
        )
        print(f"--- Run the failed steps again: {again}")
    return 1 if failed else 0


def main(names: list[str]) -> int:
    """Run the named steps, or every step; return 2 for an unknown name."""
    if unknown := [name for name in names if name not in STEPS]:
        print(f"There is no step {', '.join(unknown)}. Steps: {', '.join(STEPS)}.")
        return 2
    return run_steps({name: STEPS[name] for name in names or STEPS})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
