"""W14: first contact: `upthread` alone and `search`, in homes with months of three agents in them.

Each is a process of its own, as a person starts it. Raw is what it may take: a second for 1,450
sessions with 300 sub-agents (190 MB), five for 20,000, and a search through 1 GB with its first hit
within a second. Beside the wall stand the processor time, which the neighbours do not change, and
the most memory that it had.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from measure import Row, memory_watched, percentile
from scratch import scratch
from tests.support.agent_homes import MONTHS, Months, make_home

ROUNDS = 7
ROUNDS_QUICK = 2
SECOND_US = 1e6
MANY = Months(claude_code=11_000, codex=3_400, opencode=5_000, sub_agents=600, session_bytes=30_000)
GIGABYTE = Months(
    claude_code=3_200, codex=1_200, opencode=2_600, sub_agents=300, session_bytes=150_000
)
MEMORY_KB_MAX = 60 * 1024
WORD = "zebra"


class Took(NamedTuple):
    """One run: until its first bytes and in all, in microseconds of the wall; processor; memory."""

    first_us: float
    wall_us: float
    cpu_us: float
    memory_kb: float


def measure(*, is_quick: bool) -> list[Row]:
    """Return the rows: a home of months, and unless it is to be quick one of years, and 1 GB."""
    rounds = ROUNDS_QUICK if is_quick else ROUNDS
    rows = _overview("1,450 sessions, 190 MB", MONTHS, rounds, seconds_max=1)
    if not is_quick:
        rows += _overview("20,000 sessions", MANY, 3, seconds_max=5)
        rows += _search()
    return rows


def _overview(what: str, months: Months, rounds: int, *, seconds_max: float) -> list[Row]:
    with scratch() as directory:
        home = make_home(directory / "home", months)
        took = [_run(home, ()) for _ in range(rounds + 1)][1:]  # the first one compiles
        whole = [_run(home, ("doctor",)) for _ in range(2)][1:]
    return [
        Row(
            workload="W14",
            what=f"upthread, {what}, beside `doctor`, which reads all",
            raw=percentile([each.wall_us for each in whole], 0.1),
            ours=percentile([each.wall_us for each in took], 0.1),
        ),
        _row(f"upthread, {what}", [each.wall_us for each in took], seconds_max, took),
        _row(f"upthread, {what}, its first line", [each.first_us for each in took], 1, took),
        Row(
            workload="W14",
            what=f"upthread, {what}, the most memory",
            raw=MEMORY_KB_MAX,
            ours=max(each.memory_kb for each in took),
            unit="kB",
            limit=1,
        ),
    ]


def _search() -> list[Row]:
    with scratch() as directory:
        home = make_home(directory / "home", GIGABYTE)
        nothing = [_run(home, ("search", WORD)) for _ in range(2)][1:]
        hit = [_run(home, ("search", "invoice", "parser")) for _ in range(2)][1:]
    return [
        _row(
            "search through 1 GB, nothing is found", [each.wall_us for each in nothing], 15, nothing
        ),
        _row("search through 1 GB, its first hit", [each.first_us for each in hit], 1, hit),
        Row(
            workload="W14",
            what="search through 1 GB, the most memory",
            raw=MEMORY_KB_MAX,
            ours=nothing[0].memory_kb,
            unit="kB",
            limit=1,
        ),
    ]


def _row(what: str, walls: list[float], seconds_max: float, took: list[Took]) -> Row:
    cpu_s = percentile([each.cpu_us for each in took], 0.5) / SECOND_US
    return Row(
        workload="W14",
        what=what,
        raw=seconds_max * SECOND_US,
        ours=percentile(walls, 0.1),
        limit=1,
        note=f"{cpu_s:.2f} s of processor time in all",
    )


def _run(home: Path, words: tuple[str, ...]) -> Took:
    environment: Mapping[str, str] = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "UPTHREAD_HOME": str(home / "upthread"),
    }
    began_s = time.perf_counter()
    child = subprocess.Popen(
        (sys.executable, "-m", "upthread", "-C", "/", *words),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    with memory_watched(child.pid) as memory_kb:
        child.stdout.read(1)
        first_us = (time.perf_counter() - began_s) * SECOND_US
        child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_us = (time.perf_counter() - began_s) * SECOND_US
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    cpu_us = (usage.ru_utime + usage.ru_stime) * SECOND_US
    return Took(first_us, wall_us, cpu_us, memory_kb[-1])
