"""`upthread …` inside the test's own process: it starts, forks and imports nothing.

Descriptors 0 to 2 point at files while the verb runs, so that the output of child processes is
captured too. Afterwards the directory, the environment and the signal handlers are as they were. A
test about the process itself (signals, a terminal, two at once) starts a real process instead.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support.warm_process import Done

import upthread.__main__

REPLACES_ITS_PROCESS = "open"
"""The verb that becomes another program; inside the test's process it would end the tests."""

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def done(*words: str, directory: Path, environment: Mapping[str, str], stdin: bytes = b"") -> Done:
    """Run upthread to its end, and return its output and exit code."""
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        with _world(directory, environment), _streams(given, out, err):
            sys.argv = [upthread.__main__.__file__, *words]
            code = _exit_code()
        return Done(_text(out), _text(err), code)


def _exit_code() -> int:
    try:
        return upthread.__main__.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def _world(directory: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Give this process another directory and environment, and put everything back."""
    before = Path.cwd()
    variables = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in HANDLED}
    words, path, threshold = sys.argv, list(sys.path), gc.get_threshold()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    umask = os.umask(0o022)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        os.umask(umask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.argv, sys.path[:] = words, path
        gc.set_threshold(*threshold)
        gc.unfreeze()


@contextmanager
def _streams(given: IO[bytes], out: IO[bytes], err: IO[bytes]) -> Generator[None]:
    """Point the descriptors 0 to 2, and the interpreter's streams, at files."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in range(3)]
    before = sys.stdin, sys.stdout, sys.stderr
    for number, file in enumerate((given, out, err)):
        os.dup2(file.fileno(), number)
    ours = [
        os.fdopen(number, mode, encoding="utf-8", closefd=False)
        for number, mode in enumerate("rww")
    ]
    sys.stdin, sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        for stream in ours:
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
