"""`upthread …` as a process forked from a server that has everything imported.

It is the program itself, in its own process, with its own directory, environment, input and output:
only the second that Python takes to import it is saved. A test of what a start costs, imports or
reads has to start it as a person does.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing import process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support import upthread_process
from tests.support.upthread_process import CONTEXT

import upthread.__main__
from upthread.client import stores
from upthread.runtime.lease import LeaseTimes

CONTEXT.set_forkserver_preload([upthread_process.__name__, "tests.support.warm_imports"])


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What to run and where. `output` is the file of its lines; its errors go beside it.

    `input` is the file of its standard input; `lease_times` replace those of a shared database.
    """

    words: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    output: str
    input: str = os.devnull
    lease_times: LeaseTimes | None = None

    @property
    def errors(self) -> str:
        return f"{self.output}.stderr"


class Warm:
    """One invocation, running or ended."""

    def __init__(self, invocation: Invocation) -> None:
        for path in (invocation.output, invocation.errors):
            Path(path).touch()
        self._process: process.BaseProcess = CONTEXT.Process(target=_play, args=(invocation,))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def exit_code(self, within_s: float) -> int | None:
        """Return how it ended, negative for a signal; None where it still runs by then."""
        self._process.join(within_s)
        return self._process.exitcode


def _play(invocation: Invocation) -> None:
    """Become the program: its directory, its environment, its output, its arguments."""
    os.environ.clear()
    os.environ.update(invocation.environment)
    os.chdir(invocation.directory)
    appended = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    opened = ((invocation.input, os.O_RDONLY), (invocation.output, appended))
    for number, (path, flags) in enumerate((*opened, (invocation.errors, appended))):
        descriptor = os.open(path, flags, 0o600)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)  # multiprocessing took it away
    sys.argv = [upthread.__main__.__file__, *invocation.words]
    if invocation.lease_times is not None:
        stores.SHARED_LEASE_TIMES = invocation.lease_times  # type: ignore[misc]
    sys.exit(upthread.__main__.main())


@dataclass(frozen=True)
class Done:
    """How a process ended."""

    out: str
    err: str
    code: int

    @property
    def json(self) -> Any:
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def stream(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def done(
    *words: str,
    directory: Path,
    environment: dict[str, str],
    stdin: bytes = b"",
    within_s: float = 60.0,
) -> Done:
    """Run upthread to its end. Raises TimeoutError, and kills it, where that takes too long."""
    with TemporaryDirectory(prefix="upthread-warm-") as place:
        given = Path(place, "in")
        given.write_bytes(stdin)
        invocation = Invocation(
            words=words,
            directory=str(directory),
            environment=environment,
            output=str(Path(place, "out")),
            input=str(given),
        )
        started = Warm(invocation)
        code = started.exit_code(within_s)
        if code is None:
            os.kill(started.pid, signal.SIGKILL)
            raise TimeoutError(f"{words} does not end")
        out, errors = (Path(each).read_text() for each in (invocation.output, invocation.errors))
        return Done(out, errors, code)
