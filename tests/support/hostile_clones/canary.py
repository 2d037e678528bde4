"""A canary: a real program, script and module that leaves a trace when anybody runs or imports it.

The trace is a file outside of the clone, its path baked in: name, arguments, directory and the
command lines of the process and all its parents. So it can be judged afterwards who ran it: what an
agent loads of a repository by itself is a question of its own trust, what we run is a breach.
"""

import ast
import json
import re
import shlex
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARENTS_MAX = 32
SECRET = "hostile-clones-must-not-see-5f1e9c"  # what a leak is found by
"""Stands in a file of the person's and in the environment; nothing of ours may show or send it."""

# Only what is built into the interpreter: a canary is run where every module may be a decoy.
_SING = f"""\
def _sing(name, words, trace):
    import posix

    def read(path):
        try:
            descriptor = posix.open(path, posix.O_RDONLY)
        except OSError:
            return b""
        try:
            return posix.read(descriptor, 65536)
        finally:
            posix.close(descriptor)

    parents, pid = [], posix.getpid()
    while pid > 0 and len(parents) < {PARENTS_MAX}:
        line = read("/proc/%d/cmdline" % pid).replace(b"\\0", b" ").strip()
        parents.append(line.decode("utf-8", "backslashreplace"))
        status = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
        pid = int(status[1]) if len(status) > 1 else 0
    try:
        place = posix.getcwd()
    except OSError:
        place = ""
    line = repr((name, words, posix.getpid(), place, parents)) + chr(10)
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT
    descriptor = posix.open(trace, flags, 0o600)
    posix.write(descriptor, line.encode("utf-8", "backslashreplace"))
    posix.close(descriptor)

"""

_OURS = re.compile(
    r"\s-m upthread(?:[.\s]|$)|/upthread/(?:surfaces|boundary|agents|runtime|client)/"
    r"|/bin/upthread(?:\s|$)|\bupthread\.(?:surfaces|boundary|agents|runtime|client)\b"
)
"""What stands in the command line of each process that is a program of ours."""

AGENTS = frozenset({"codex", "claude", "opencode"})
"""How the programs of real agents are called; a script stands behind its interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRun:
    """One time a canary was run or imported. `processes` are command lines, its own one first."""

    name: str
    arguments: tuple[str, ...]
    pid: int
    directory: str
    processes: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """Return whether upthread caused it: the nearest process that is ours or an agent's says.

        So it is upthread's where an agent has run a hook of ours, and the agent's where we have run
        the agent.
        """
        for line in self.processes:
            if _OURS.search(line):
                return True
            if AGENTS.intersection(Path(word).name for word in line.split(" ")[:2]):
                return False
        return False


class Canary:
    """Makes canaries in all forms, and knows which were run. `directory` is outside of a clone.

    `secret_file` is a file of the person's, `victim` a directory of the person's: both outside, for
    links that lead there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trace = directory / "trace"
        self.secret_file = directory / "person" / "secret.txt"
        self.victim = directory / "person" / "notes"
        self.victim.mkdir(parents=True, exist_ok=True)
        (self.victim / "diary.md").write_text(f"Dear diary, {SECRET}.\n")
        self.secret_file.write_text(f"{SECRET}\n")
        self._program = directory / "canary.py"
        called = f"import sys\n_sing(sys.argv[1], sys.argv[2:], {str(self.trace)!r})\n"
        self._program.write_text(_SING + called)

    def runs(self) -> tuple[CanaryRun, ...]:
        """Return every run so far, the first one first."""
        if not self.trace.exists():
            return ()
        lines = self.trace.read_text(encoding="utf-8").splitlines()
        return tuple(_run(ast.literal_eval(line)) for line in lines)

    def forget(self) -> None:
        """Forget every run so far."""
        self.trace.unlink(missing_ok=True)

    # --- its forms -----------------------------------------------------------------------------

    def script(self, name: str) -> str:
        """Return the text of an executable file."""
        words = [sys.executable, "-I", "-S", str(self._program), name]
        return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'

    def command(self, name: str) -> str:
        """Return the absolute path of an executable of that name, for a setting to point at."""
        path = self.directory / "programs" / name
        self.put(path, name)
        return str(path)

    def put(self, path: Path, name: str) -> None:
        """Put an executable somewhere, its folders with it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.script(name))
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def module(self, name: str) -> str:
        """Return the source of a Python module."""
        return f"{_SING}_sing({name!r}, [], {str(self.trace)!r})\n"

    def javascript(self, name: str, *, is_module: bool = False) -> str:
        """Return the source of a script for Node or Bun."""
        asked = json.dumps(["-I", "-S", str(self._program), name])
        run = f"execFileSync({json.dumps(sys.executable)}, {asked})\n"
        if is_module:
            return f'import {{ execFileSync }} from "node:child_process"\n{run}'
        return f'const {{ execFileSync }} = require("node:child_process")\n{run}'


def runs_of_ours(runs: Sequence[CanaryRun]) -> tuple[CanaryRun, ...]:
    """Return those that a process of upthread's caused, among runs beside a real agent."""
    return tuple(run for run in runs if run.is_ours)


def _run(told: tuple[str, list[str], int, str, list[str]]) -> CanaryRun:
    name, words, pid, directory, processes = told
    return CanaryRun(
        name=name,
        arguments=tuple(words),
        pid=pid,
        directory=directory,
        processes=tuple(processes),
    )
