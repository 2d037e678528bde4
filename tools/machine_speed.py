"""Measure how slow this machine is, so that a limit of processor minutes means the same on each.

`python -m tools.machine_speed FILE` measures until it is ended, and keeps the result in FILE.

A processor minute differs by a factor of three between machines, and on one machine between hours.
So a fixed piece of work is timed every few seconds while the tests run, under the same load. The
slowness is its mean processor time divided by `REFERENCE_S`; a limit is multiplied by it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from pathlib import Path

REFERENCE_S = 0.040
"""The processor seconds of `_work` on the machine that the limits were measured on, under load."""

INTERVAL_S = 5.0


class SlownessSampler:
    """Times the work every `INTERVAL_S` in a thread of its own, from `start()` on."""

    def __init__(self) -> None:
        self._seconds = [_work()]
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def start(self) -> SlownessSampler:
        self._thread.start()
        return self

    def slowness(self) -> float:
        """Return the mean so far: 2.0 means that the same work takes twice the processor time."""
        return sum(self._seconds) / len(self._seconds) / REFERENCE_S

    def _measure(self) -> None:
        while True:
            time.sleep(INTERVAL_S)
            self._seconds.append(_work())


def _work() -> float:
    """Do the fixed work, of the kinds that the tests do; returns its processor seconds."""
    started_s = time.thread_time()
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE entry (position INTEGER PRIMARY KEY, body TEXT)")
        for position in range(2_000):
            body = json.dumps({"position": position, "words": ["one", "two"] * 5, "text": "x" * 90})
            database.execute("INSERT INTO entry VALUES (?, ?)", (position, body))
        rows = database.execute("SELECT body FROM entry ORDER BY body").fetchall()
    counts: dict[str, int] = {}
    for (body,) in rows:
        for word in json.loads(body)["words"]:
            counts[word] = counts.get(word, 0) + 1
    database.close()
    return time.thread_time() - started_s


def main(path: Path) -> None:
    """Keep the slowness so far in `path` until this process is ended."""
    sampler = SlownessSampler().start()
    while True:
        path.write_text(f"{sampler.slowness():.3f}\n", encoding="utf-8")
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
