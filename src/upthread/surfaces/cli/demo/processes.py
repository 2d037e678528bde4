"""Processes: one child per step, its JSON lines as they come, and the kill in mid-turn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from upthread.boundary import programs
from upthread.errors import UpthreadError

STEP_TIMEOUT_S = 120.0


class Finished(Struct, frozen=True, kw_only=True):
    """How a child ended: its JSON lines in order, and whether we killed it."""

    pid: int
    lines: tuple[Mapping[str, Any], ...]
    exit_code: int
    was_killed: bool

    def last(self, kind: str) -> Mapping[str, Any] | None:
        """Return the last line of a type, None when there was none."""
        found = [line for line in self.lines if line.get("type") == kind]
        return found[-1] if found else None


def run_child(
    arguments: Sequence[str],
    *,
    directory: str,
    environment: Mapping[str, str],
    stdin: str = "",
    kill_when: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> Finished:
    """Run one Python child to its end, or kill it with SIGKILL when a line says so."""
    lines: list[Mapping[str, Any]] = []
    was_killed = False
    with _started(arguments, directory=directory, environment=environment) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(stdin)
        child.stdin.close()
        for line in _json_lines(child.stdout):
            lines.append(line)
            # Read on after the kill: what was in the pipe by then is part of what happened.
            if not was_killed and kill_when(line):
                os.kill(child.pid, signal.SIGKILL)
                was_killed = True
        exit_code = child.wait(timeout=STEP_TIMEOUT_S)
    return Finished(pid=child.pid, lines=tuple(lines), exit_code=exit_code, was_killed=was_killed)


@contextmanager
def _started(
    arguments: Sequence[str], *, directory: str, environment: Mapping[str, str]
) -> Generator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        programs.own_module(*arguments),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield child
    finally:
        # Ours alone: a step that hangs must not outlive the demo.
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def _json_lines(stream: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for line in stream:
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise UpthreadError(f"a step printed something that is not JSON: {line!r}") from error
