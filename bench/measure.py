"""How things are measured: sides in turn, the tenth percentile of the wall, the median of the CPU.

The machine is shared, so single figures say little. Within each repetition every side runs once, in
an order that turns round from one repetition to the next; what is compared is what ran side by
side. p10 is what the work costs when nobody disturbs it; p99 would measure the neighbours.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

LOOK_S = 0.01
COUNTED = "counted"
"""The note of a row whose figures are no times."""

Side = Callable[[int], object]
"""One repetition of one side; it is given the repetition's number."""


def installed_program() -> tuple[str, ...]:
    """Return upthread as people and scripts start it, which has nothing to look up first."""
    script = Path(sys.executable).with_name("upthread")
    return (str(script),) if script.exists() else (sys.executable, "-m", "upthread")


def most_kb(pid: int) -> float | None:
    """Return the greatest memory a process has had since its program began, None once it is over.

    Not what `wait4` or `getrusage` says: on Linux that is at least what the process that started
    it had, which after other workloads is more than what is measured.
    """
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("ascii"))
    return float(found[1]) if found else None


@contextlib.contextmanager
def memory_watched(pid: int) -> Iterator[list[float]]:
    """Watch a process's greatest memory until the block ends; the last value is what it came to."""
    seen, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            with contextlib.suppress(OSError):
                seen.append(most_kb(pid) or seen[-1])

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


class Timing(NamedTuple):
    """What one side took, in microseconds for one operation."""

    wall_p10_us: float
    wall_p50_us: float
    cpu_p50_us: float
    repetitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `limit` is a ratio of walls; None is a trend, without a verdict.

    Without `raw` it is of ours itself: errors, megabytes.
    """

    workload: str
    what: str
    raw: float | None
    ours: float
    unit: str = "us"
    limit: float | None = None
    at_least: float | None = None
    cpu_ratio: float | None = None
    note: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ratio(self) -> float | None:
        """Ours in units of raw."""
        return self.ours / self.raw if self.raw else None

    @property
    def is_met(self) -> bool | None:
        """Whether the limit is kept, None without one."""
        found = self.ours if self.ratio is None else self.ratio
        if self.at_least is not None:
            return found >= self.at_least
        return None if self.limit is None else found <= self.limit

    @property
    def is_of_the_machine(self) -> bool:
        """Whether a busy machine may miss the limit: times may, errors and megabytes may not."""
        return self.raw is not None and self.note != COUNTED

    def as_json(self) -> dict[str, Any]:
        """Return the row with what follows from it."""
        return {**asdict(self), "ratio": self.ratio, "is_met": self.is_met}


def interleaved(
    sides: Mapping[str, Side], *, repetitions: int, budget_s: float, operations: int = 1
) -> dict[str, Timing]:
    """Run all sides in turn. One repetition of a side does `operations` operations.

    Stops at the budget, in seconds, once there are five repetitions. The first one warms up.
    """
    walls: dict[str, list[float]] = {name: [] for name in sides}
    cpus: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    gc.collect()
    end_s = time.perf_counter() + budget_s
    for repetition in range(repetitions + 1):
        for name in names if repetition % 2 else reversed(names):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            sides[name](repetition)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            if repetition:
                walls[name].append(wall_s / operations * 1e6)
                cpus[name].append(cpu_s / operations * 1e6)
        if repetition >= 5 and time.perf_counter() > end_s:
            break
    return {name: timing_of(walls[name], cpus[name]) for name in names}


def timing_of(walls_us: Sequence[float], cpus_us: Sequence[float]) -> Timing:
    """Return the percentiles of one side's repetitions."""
    return Timing(
        percentile(walls_us, 0.1),
        percentile(walls_us, 0.5),
        percentile(cpus_us, 0.5),
        len(walls_us),
    )


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def compared(  # noqa: PLR0917  # a row in the order it is read
    workload: str, what: str, raw: Timing, ours: Timing, limit: float | None, note: str = ""
) -> Row:
    """Return the row of two sides that ran interleaved."""
    return Row(
        workload=workload,
        what=what,
        raw=raw.wall_p10_us,
        ours=ours.wall_p10_us,
        limit=limit,
        cpu_ratio=ours.cpu_p50_us / raw.cpu_p50_us,
        note=note,
        counts={"raw": raw._asdict(), "ours": ours._asdict()},
    )


def machine(directory: Path) -> dict[str, Any]:
    """Return what the figures depend on, and nothing that names the machine."""
    return {
        "cores": os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "loop_us": round(_loop_us()),
        "sync_p10_us": round(_sync_us(directory)),
    }


def machine_line(machine: Mapping[str, Any]) -> str:
    """Return the machine in one line."""
    return (
        f"machine: {machine['cores']} shared cores, load {machine['load_1_min']}, "
        f"Python {machine['python']}, SQLite {machine['sqlite']}; "
        f"100,000 additions {machine['loop_us']} us, "
        f"append and sync 4 kB {machine['sync_p10_us']} us"
    )


def _loop_us() -> float:
    def loop() -> float:
        started_s = time.perf_counter()
        total = 0
        for number in range(100_000):
            total += number
        return (time.perf_counter() - started_s) * 1e6

    return min(loop() for _ in range(5))


def _sync_us(directory: Path) -> float:
    path = directory / "sync"
    walls: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            started_s = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            walls.append((time.perf_counter() - started_s) * 1e6)
    path.unlink()
    return percentile(walls, 0.1)
