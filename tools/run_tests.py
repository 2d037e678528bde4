"""Run one set of tests: `python -m tools.run_tests test|rest|soak|live`.

`test` is the first set, `rest` is what `make test-all` has beyond it, without the frameworks, and
`soak` is everything. Each set has two parts, because the real agents run enclosed: loopback only,
a watched HOME, a /tmp of their own (`tools/enclosed.py`).

Both parts run even after a failure. The run ends with the slowest tests, the time, the processor
minutes, and a repetition of the failures, so that a log of which only the end is kept names them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tools.machine_speed import SlownessSampler
from tools.size_cap import excess_of_minutes

REPOSITORY = Path(__file__).resolve().parents[1]
PROCESSES = "2"
SLOWEST_SHOWN = 20
LINES_REPEATED_MAX = 40

PYTEST = ("-m", "pytest", "-n", PROCESSES, "--dist", "loadgroup", "-q")
ENCLOSED = ("tools/enclosed.py", sys.executable, *PYTEST)
ELSEWHERE = ("--ignore=tests/live", "--ignore=tests/integrations")
"""The real agents are the second part; the frameworks have an environment of their own."""

EXPRESSIONS = {
    "test": "not extended and not soak",
    "rest": "extended and not soak",
    "live": "not soak",
    "soak": "",
}
"""For each set, the marker expression that selects its tests."""

LIMITED = ("test",)
"""The sets whose processor minutes `tools/size_cap.toml` limits."""

VARIABLES = {"rest": {"UPTHREAD_THOROUGH": "1"}, "soak": {"UPTHREAD_SOAK": "1"}}
"""How much each random test tries: see `tests/support/thoroughness.py`."""

FAILURE_STARTS = ("FAILED ", "ERROR ", "E   ", "INTERNALERROR", "--- ", "flaky: ")
"""How the lines begin that name a failure; `--- ` is `enclosed.py`, about opened or left files."""

DURATION = re.compile(r"^ *(?P<seconds>\d+\.\d\d)s (?:call|setup|teardown) +(?P<test>.+)$")


class Part(NamedTuple):
    """The result of one pytest run. `durations` are (seconds, test) of its slowest tests."""

    name: str
    exit_code: int
    wall_s: float
    failures: list[str]
    durations: list[tuple[float, str]]


def parts_of(target: str) -> dict[str, tuple[str, ...]]:
    """Return the arguments for the Python interpreter of each part, by the part's name."""
    expression = EXPRESSIONS[target]
    chosen = (*(("-m", expression) if expression else ()), f"--durations={SLOWEST_SHOWN}")
    if target == "soak":  # its tests may run longer than what ends a run that hangs
        chosen = (*chosen, "-o", "faulthandler_timeout=0")
    own = {"everything but the real agents": (*PYTEST, *chosen, *ELSEWHERE, "tests")}
    agents = {"the real agents": (*ENCLOSED, *chosen, "tests/live")}
    return agents if target == "live" else own | agents


def main(target: str) -> int:
    """Run the parts of a target in order; returns the first exit code that is not 0."""
    started_s, cpu_before_s = time.monotonic(), _children_cpu_s()
    sampler = SlownessSampler().start()
    environment = {**os.environ, **VARIABLES.get(target, {})}
    # Without compiled files each process would read every source and every test anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    parts = [_run(name, words, environment) for name, words in parts_of(target).items()]
    _print_slowest(parts)
    for part in parts:
        print(f"--- {part.name}: {part.wall_s:.0f} s")
    cpu_minutes = (_children_cpu_s() - cpu_before_s) / 60
    wall_s = time.monotonic() - started_s
    slowness = sampler.slowness()
    print(
        f"--- {target}: {wall_s:.0f} s, {cpu_minutes:.1f} processor minutes"
        f" on a machine {slowness:.2f} times as slow as the limits' own"
    )
    failed = [part for part in parts if part.exit_code != 0]
    for part in failed:
        print(f"--- failed: {part.name} (exit code {part.exit_code})")
        print(*part.failures[-LINES_REPEATED_MAX:], sep="\n", flush=True)
    excess = excess_of_minutes(target, cpu_minutes, slowness) if target in LIMITED else ""
    if excess:
        print(f"--- {excess}")
    return failed[0].exit_code if failed else int(bool(excess))


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _print_slowest(parts: list[Part]) -> None:
    slowest = sorted((each for part in parts for each in part.durations), reverse=True)
    print(f"--- the {SLOWEST_SHOWN} slowest")
    for seconds, test in slowest[:SLOWEST_SHOWN]:
        print(f"{seconds:8.2f} s  {test}")


def _run(name: str, words: tuple[str, ...], environment: dict[str, str]) -> Part:
    """Run one part and pass its output on as it comes."""
    started_s = time.monotonic()
    failures: list[str] = []
    durations: list[tuple[float, str]] = []
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            if match := DURATION.match(line):
                durations.append((float(match["seconds"]), match["test"].strip()))
                continue
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.startswith(FAILURE_STARTS):
                failures.append(line.rstrip("\n"))
    return Part(name, process.returncode, time.monotonic() - started_s, failures, durations)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run one set of tests.")
    parser.add_argument("target", choices=EXPRESSIONS)
    sys.exit(main(parser.parse_args().target))
