"""W5: what people and scripts look at most, each a process of its own: its processor time.

Raw: an interpreter that does nothing, in turn with them. Bytecode is compiled before, as an
installed package has it. The limit is absolute: 200 ms. W16 has the hooks.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from measure import Row, installed_program, percentile
from scratch import scratch

ROUNDS = 15
ROUNDS_QUICK = 6
NOTHING = "python -I -S -c pass"
LOOKS: Mapping[str, tuple[str, ...]] = {
    "upthread id": ("id", "spec-42/planner"),
    "upthread ls": ("ls",),
    "upthread show": ("show", "spec-42"),
    "upthread why": ("why", "spec-42/planner"),
    "upthread status": ("status",),
    "upthread --help": ("--help",),
}
PROCESSOR_US_MAX = 200_000.0


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each command."""
    with scratch() as directory:
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment |= {"UPTHREAD_HOME": str(directory)}
        commands: dict[str, tuple[str, ...]] = {
            NOTHING: (str(Path(sys.executable).resolve()), "-I", "-S", "-c", "pass")
        }
        commands |= {name: (*installed_program(), *words) for name, words in LOOKS.items()}
        with contextlib.chdir(_told(directory, environment)):
            spent_us = _spent_us(commands, environment, ROUNDS_QUICK if is_quick else ROUNDS)
    nothing_us = spent_us.pop(NOTHING)
    return [
        Row(
            workload="W5",
            what=what,
            raw=nothing_us,
            ours=ours_us,
            limit=round(PROCESSOR_US_MAX / nothing_us, 1),
        )
        for what, ours_us in spent_us.items()
    ]


def _told(directory: Path, environment: Mapping[str, str]) -> Path:
    """Return a project in which one role has been told something; nothing is under way in it."""
    project = directory / "told"
    project.mkdir()
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    tell = ("tell", "spec-42/planner", "Say hello.", "--agent", "rehearsal")
    for words in (
        ("git", "init", "-q"),
        ("git", *person, "commit", "-q", "--allow-empty", "-m", "The first one."),
        (sys.executable, "-m", "upthread", *tell),
    ):
        subprocess.run(words, cwd=project, env=environment, check=True, capture_output=True)
    return project


def _spent_us(
    commands: Mapping[str, tuple[str, ...]], environment: Mapping[str, str], rounds: int
) -> dict[str, float]:
    """Return the median processor time of each command, in microseconds."""
    spent_us: dict[str, list[float]] = {name: [] for name in commands}
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    for number in range(rounds + 1):  # the first one compiles
        for name, command in commands.items():
            pid = os.posix_spawn(command[0], command, environment, file_actions=silence)
            _, status, usage = os.wait4(pid, 0)
            exit_code = os.waitstatus_to_exitcode(status)
            assert exit_code in {0, 3}, f"{command} ended with {exit_code}"
            if number:
                spent_us[name].append((usage.ru_utime + usage.ru_stime) * 1e6)
    return {name: percentile(each, 0.5) for name, each in spent_us.items()}
