"""`upthread` run as a person runs it, killed as a crash kills it, and the processes that remain."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import trusting

ADDRESS = "spec-42/planner"
PATIENCE_S = 90.0
"""How long a condition may take: a real agent starts in a minute where the machine is shared."""


class Shell:
    """Runs `upthread` in the project, each call in a process of its own."""

    patience_s = 240.0

    def __init__(
        self, project: Path, environment: Mapping[str, str], *, home: Path | None = None
    ) -> None:
        self.project = project
        self.environment = dict(environment)
        self.home = home or Path(environment["HOME"])

    @property
    def own(self) -> Path:
        """The person's UPTHREAD_HOME."""
        return Path(self.environment["UPTHREAD_HOME"])

    def with_own(self, name: str) -> Shell:
        """Return upthread in the same project with an UPTHREAD_HOME that knows nothing."""
        own = str(self.own.with_name(name))
        return Shell(self.project, {**self.environment, "UPTHREAD_HOME": own}, home=self.home)

    def configure(self, text: str) -> None:
        """Write the project's configuration; its person agrees to it."""
        trusting.configure(self.project, self.own, text)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "upthread", *words]

    def lines(self, *words: str, exit_code: int | None = 0) -> list[dict[str, Any]]:
        """Run a verb; returns the JSON objects it prints. None allows any exit code."""
        done = subprocess.run(
            [*self.command(*words), "--json"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=self.patience_s,
            check=False,
        )
        ended = (done.returncode, done.stdout, done.stderr)
        assert exit_code in {None, done.returncode}, ended
        return [json.loads(line) for line in done.stdout.splitlines()]

    def one(self, *words: str) -> dict[str, Any]:
        """Run a verb that prints one JSON object; returns the object."""
        (line,) = self.lines(*words)
        return line

    def session(self) -> dict[str, Any]:
        """Return what the overview says of the one session that there is."""
        (session,) = self.one()["sessions"]
        return session

    def tell(
        self, prompt: str, *options: str, address: str = ADDRESS, exit_code: int | None = 0
    ) -> dict[str, Any]:
        """Send a prompt, or `--continue`; returns how its turn started and ended, as one object."""
        lines = self.lines("tell", address, prompt, *options, exit_code=exit_code)
        return {**only(lines, "turn_started"), **only(lines, "turn_ended")}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command(*words), "--json"],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start_call(self, prompt: str, *options: str, calls: int = 1) -> subprocess.Popen[str]:
        """Send a prompt; return once so many tool calls of its turn are on record."""
        running = self.start("tell", ADDRESS, prompt, *options)
        assert running.stdout is not None
        for line in running.stdout:
            calls -= json.loads(line).get("kind") == "tool_call"
            if not calls:
                return running
        raise AssertionError("the turn ended without a tool call")

    def run(self, *words: str) -> str:
        """Run another program in the project, for example the agent's own; returns its output."""
        done = subprocess.run(
            words,
            executable=shutil.which(words[0], path=self.environment["PATH"]),
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


def only(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the one line of a type. That an agent is waited for depends on the machine."""
    told = [line for line in lines if line.get("kind") != "waiting_for_agent"]
    found = [line for line in told if line.get("type") == kind]
    assert len(found) == 1, lines
    return found[0]


def wait_until(
    holds: Callable[[], Any],
    what: str | Callable[[], str],
    *,
    within_s: float = PATIENCE_S,
    every_s: float = 0.05,
) -> Any:
    """Wait until a condition holds; returns its value, and fails with `what` did not come."""
    until_s = time.monotonic() + within_s
    while not (value := holds()):
        is_late = time.monotonic() > until_s
        assert not is_late, f"no {what() if callable(what) else what} within {within_s:g} s"
        time.sleep(every_s)
    return value


# --- processes -----------------------------------------------------------------------------------


def processes_with(text: str) -> dict[int, str]:
    """Return the living processes with a text in their environment: the command line by its id."""
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes()
            if text.encode() in environment and is_alive(int(process.name)):
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
    return found


def agents_left(directory: Path, *, within_s: float = 30.0) -> list[str]:
    """Return the processes that still have this test's home after a while."""
    with suppress(AssertionError):
        wait_until(lambda: not processes_with(f"{directory / 'home'}"), "end", within_s=within_s)
    return list(processes_with(f"{directory / 'home'}").values())


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a dead process that its parent did not read is gone."""
    with suppress(OSError):
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    return False


def tree_of(pid: int) -> set[int]:
    """Return a process and all processes below it."""
    below = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = zip(below[::2], below[1::2], strict=True)
    parents = {int(child): int(parent) for child, parent in pairs}
    tree = {pid}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree


def kill_all(pids: set[int]) -> None:
    """SIGKILL processes; a process that has ended by itself is no error."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL a process and all below it at once, so that none of them can tidy up."""
    assert process.stdout is not None
    kill_all(tree_of(process.pid))
    process.stdout.close()
    process.wait()
