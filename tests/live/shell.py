"""`upthread` run as a person would run it, killed as a crash would, and what is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.support import trusting


class Shell:
    """Runs `upthread` in the project as a person would, each call a process of its own."""

    patience_s = 240.0

    def __init__(self, project: Path, environment: Mapping[str, str]) -> None:
        self.project = project
        self.environment = environment

    def configure(self, text: str) -> None:
        """Write the project's configuration; its person agrees to it."""
        trusting.configure(self.project, Path(self.environment["UPTHREAD_HOME"]), text)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "upthread", *words]

    def lines(self, *words: str, exit_code: int | None = 0) -> list[dict]:
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

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command(*words), "--json"],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def agents_left(tmp_path: Path) -> list[str]:
    """Processes that still have this test's directory in their environment."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                is_dead = b") Z " in (process / "stat").read_bytes()
            except OSError:
                continue
            if str(tmp_path / "home").encode() in environment and not is_dead:
                left.append((process / "cmdline").read_text().replace("\0", " "))
        if not left:
            return []
        time.sleep(0.1)
    return left


def only(lines: list[dict], kind: str) -> dict:
    found = [line for line in lines if line.get("type") == kind]
    assert len(found) == 1, lines
    return found[0]


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL a process and all below it at once: nothing of them can tidy up."""
    assert process.stdout is not None
    for member in tree_of(process.pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.stdout.close()
    process.wait()


def tree_of(pid: int) -> set[int]:
    """A process and all below it."""
    below = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = zip(below[::2], below[1::2], strict=True)
    parents = {int(child): int(parent) for child, parent in pairs}
    tree = {pid}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree
