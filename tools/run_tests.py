"""What `make test` runs: the core with its coverage, all but the real agents, then these.

All parts run, also after one that failed; it ends with the first failing part's exit code. Nothing
is skipped silently: pytest says why.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", "not soak", "--durations=40")
PARTS = (
    ("core, with its branch coverage", ("tools/check_core_coverage.py",)),
    ("all but the real agents", (*PYTEST, "--ignore=tests/core", "--ignore=tests/live")),
    # With loopback only, a HOME that is watched and a /tmp of their own, where the machine allows.
    ("the real agents", ("tools/enclosed.py", sys.executable, *PYTEST, "tests/live")),
)


def main() -> int:
    """Run the parts in order; returns the first exit code that is not 0."""
    failed: list[int] = []
    for name, words in PARTS:
        started_s = time.monotonic()
        done = subprocess.run([sys.executable, *words], cwd=REPOSITORY, check=False)
        print(f"--- {name}: {time.monotonic() - started_s:.0f} s", flush=True)
        if done.returncode != 0:
            failed.append(done.returncode)
    return failed[0] if failed else 0


if __name__ == "__main__":
    sys.exit(main())
