"""What `make test` runs: the core, all but the real agents, then a part of the real agents' tests.

`make live` is all of theirs, and `make live-rest` what `make test` leaves out; the core's coverage
is `make check`. CI runs `make test`, the rest and the check.

All parts run, also after one that failed; it ends with the first failing part's exit code, and with
what failed said once more: a log of which only the end is kept still names it. Nothing is skipped
silently: pytest says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", "not soak", "--durations=40")
EVERY_DAY = (
    *(f"tests/live/test_{agent}_conformance.py" for agent in ("claude_code", "codex", "opencode")),
    *(f"tests/live/test_{agent}_continuity.py" for agent in ("claude_code", "codex")),
)
"""What of the real agents' tests `make test` runs: that a session is opened, gone on with, lost.
OpenCode's continuity, whole pipelines in new processes, takes minutes: it is in `make live`."""

OTHERS = tuple(f"--ignore=tests/{part}" for part in ("core", "live", "integrations"))
"""Other parts have these; the rest of the real agents is `make live`, the frameworks their own."""

ENCLOSED = ("tools/enclosed.py", sys.executable, *PYTEST)
"""With loopback only, a HOME that is watched and a /tmp of their own, where the machine allows."""

PARTS = {
    "test": (
        ("the core", (*PYTEST, "tests/core")),
        ("all but the real agents", (*PYTEST, *OTHERS)),
        ("the real agents", (*ENCLOSED, *EVERY_DAY)),
    ),
    "live": (("all of the real agents", (*ENCLOSED, "tests/live")),),
    "live-rest": (
        (
            "the rest of the real agents",
            (*ENCLOSED, "tests/live", *(f"--ignore={file}" for file in EVERY_DAY)),
        ),
    ),
}
"""By the target of `make`: what is run, in order."""

TELLS_A_FAILURE = ("FAILED ", "ERROR ", "E   ", "Coverage failure", "INTERNALERROR", "--- ")
"""How lines begin that say what failed; the last is `enclosed.py`, of what was opened or left."""

LINES_SAID_AGAIN_MAX = 40


def main(target: str) -> int:
    """Run the parts of a target in order; returns the first exit code that is not 0."""
    failed: list[tuple[str, int, list[str]]] = []
    for name, words in PARTS[target]:
        started_s = time.monotonic()
        code, told = _run(words)
        print(f"--- {name}: {time.monotonic() - started_s:.0f} s", flush=True)
        if code != 0:
            failed.append((name, code, told))
    for name, code, told in failed:
        print(f"--- failed: {name} (exit code {code})", *told[-LINES_SAID_AGAIN_MAX:], sep="\n")
    return failed[0][1] if failed else 0


def _run(words: tuple[str, ...]) -> tuple[int, list[str]]:
    """Run one part, its output passed on as it comes; returns its exit code and what failed."""
    told: list[str] = []
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as part:
        for line in part.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.startswith(TELLS_A_FAILURE):
                told.append(line.rstrip("\n"))
    return part.returncode, told


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="Run the tests of a target of `make`.")
    asked.add_argument("target", choices=PARTS)
    sys.exit(main(asked.parse_args().target))
