"""`python -m upthread.testing.rehearsal_model --port 0 --log FILE`: serve until told to stop.

It prints its address as one line and stops on SIGTERM, SIGINT or the end of its stdin, so that it
never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import threading
from types import FrameType

from upthread.testing.rehearsal_model.server import POLL_S, RehearsalModel

_STDIN = 0
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def main(arguments: list[str] | None = None) -> int:
    """Serve; return the exit code."""
    options = _parser().parse_args(arguments)
    is_told_to_stop = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        is_told_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    strict = not options.lenient
    log = os.fdopen(os.open(options.log, _LOG, 0o600), "ab", buffering=0) if options.log else None
    with RehearsalModel(port=options.port, strict=strict, log=log) as model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        while not is_told_to_stop.is_set() and not _stdin_has_ended():
            pass
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m upthread.testing.rehearsal_model",
        description="A scripted model server on 127.0.0.1. It is a rehearsal: there is no model.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--log", help="write one JSON line per request to this file")
    parser.add_argument(
        "--lenient", action="store_true", help="answer histories that the provider would refuse"
    )
    return parser


def _stdin_has_ended() -> bool:
    """Wait a moment for stdin; its end is the end of who started us, its bytes mean nothing."""
    readable, _writable, _failed = select.select([_STDIN], [], [], POLL_S)
    return bool(readable) and not os.read(_STDIN, 65536)


if __name__ == "__main__":
    sys.exit(main())
