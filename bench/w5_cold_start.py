"""W5: cold start, each a process of its own, beside an interpreter that does nothing.

Beside the CLI are the parts that it starts from. Bytecode is compiled before, as an installed
package has it. W16 has the hooks.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from measure import Row, Timing, compared, installed_program, timing_of
from scratch import scratch
from tests.support.default_turn import open_place

from upthread.store.sqlite import SqliteStore

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
"""What people and scripts look at most. A look may take 200 ms of processor time."""


ALONE = "upthread, in an empty home"
ALONE_LIMIT = 10.0


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each command."""
    with scratch() as directory:
        database = directory / "upthread.db"
        store = SqliteStore(database)
        open_place(store, "spec-42")
        store.close()
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment |= {"UPTHREAD_HOME": str(directory), "UPTHREAD_DB": str(database)}
        commands = _commands()
        program = installed_program()
        commands |= {name: (*program, *words) for name, words in LOOKS.items()}
        empty = directory / "empty"
        empty.mkdir()
        at = (f"HOME={empty}", f"UPTHREAD_HOME={empty}/upthread", f"UPTHREAD_DB={empty}/none.db")
        commands[ALONE] = ("/usr/bin/env", *at, *program)
        with contextlib.chdir(_told(directory, environment)):
            for name, words in LOOKS.items():
                commands |= _loading(name, words, environment)
            timings = _timings(commands, environment, ROUNDS_QUICK if is_quick else ROUNDS)
    nothing = timings.pop(NOTHING)
    return [
        compared("W5", what, nothing, timing, ALONE_LIMIT if what == ALONE else None)
        for what, timing in timings.items()
    ]


def _loading(
    name: str, words: tuple[str, ...], environment: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return commands that load what a look loads and do nothing with it.

    What others wrote, alone, is what no program on the same libraries can do without.
    """
    listing = (sys.executable, "-X", "importtime", "-m", "upthread", *words)
    for _ in range(2):  # the second time it remembers what the first one has looked up
        told = subprocess.run(listing, env=environment, capture_output=True, check=True, text=True)
    lines = (line.rpartition("|")[2].strip() for line in told.stderr.splitlines())
    loaded = [
        each for each in lines if each and not each.startswith(("imported", "_frozen", "site"))
    ]
    theirs = [each for each in loaded if each.partition(".")[0] != "upthread"]
    return {
        f"{name}, {what}": (sys.executable, "-c", _LOAD, *modules)
        for what, modules in (("its libraries alone", theirs), ("all its modules", loaded))
    }


_LOAD = """
import importlib, sys
sys.argv, names = sys.argv[:1], sys.argv[1:]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # some are looked for and are of another platform
"""


def _commands() -> dict[str, tuple[str, ...]]:
    base, python = str(Path(sys.executable).resolve()), sys.executable
    commands: dict[str, tuple[str, ...]] = {
        NOTHING: (base, "-I", "-S", "-c", "pass"),
        "python -c pass": (python, "-c", "pass"),
        "import upthread.core.decision.handshake": (
            python,
            "-c",
            "import upthread.core.decision.handshake",
        ),
        "open the store, resolve, close": (python, "-c", _RESOLVE),
    }
    if _has_cli():
        cli = (python, "-m", "upthread")
        commands["upthread --version"] = (*cli, "--version")
        commands["upthread id, no such address"] = (*cli, "id", "spec-42/planner")
    return commands


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


_RESOLVE = """
import os
from pathlib import Path
from upthread.core.types import ConversationKey
from upthread.store.sqlite import SqliteStore
store = SqliteStore(Path(os.environ["UPTHREAD_DB"]))
key = ConversationKey(project_id="prj_measured", workstream="spec-42", role="planner")
assert store.resolve(key)
store.close()
"""


def _has_cli() -> bool:
    try:
        return find_spec("upthread.surfaces.cli.program") is not None
    except ModuleNotFoundError:
        return False


def _timings(
    commands: Mapping[str, tuple[str, ...]], environment: Mapping[str, str], rounds: int
) -> dict[str, Timing]:
    walls: dict[str, list[float]] = {name: [] for name in commands}
    cpus: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):  # the first one compiles
        for name, command in commands.items():
            wall_us, cpu_us = _started(command, environment)
            if number:
                walls[name].append(wall_us)
                cpus[name].append(cpu_us)
    return {name: timing_of(walls[name], cpus[name]) for name in commands}


def _started(command: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end and return its wall and CPU, in microseconds."""
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    started_s = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    wall_us = (time.perf_counter() - started_s) * 1e6
    exit_code = os.waitstatus_to_exitcode(status)
    assert exit_code in {0, 3}, f"{command} ended with {exit_code}"
    return wall_us, (usage.ru_utime + usage.ru_stime) * 1e6
