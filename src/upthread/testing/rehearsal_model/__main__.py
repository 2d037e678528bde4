"""`python -m upthread.testing.rehearsal_model --port 0 --log FILE`: serve until told to stop.

It prints its address as one line and stops on SIGTERM, SIGINT or the end of its stdin, so that it
never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from upthread.testing.rehearsal_model.server import RehearsalModel


def main(arguments: list[str] | None = None) -> int:
    """Serve; return the exit code."""
    options = _parser().parse_args(arguments)
    log_path: Path | None = options.log
    is_told_to_stop = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        is_told_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    strict = not options.lenient
    with RehearsalModel(port=options.port, strict=strict, log_path=log_path) as model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        threading.Thread(target=_wait_for_end, args=(is_told_to_stop,), daemon=True).start()
        is_told_to_stop.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m upthread.testing.rehearsal_model",
        description="A scripted model server on 127.0.0.1. It is a rehearsal: there is no model.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--log", type=Path, help="write one JSON line per request to this file")
    parser.add_argument(
        "--lenient", action="store_true", help="answer histories that the provider would refuse"
    )
    return parser


def _wait_for_end(is_told_to_stop: threading.Event) -> None:
    """Read stdin away; its end is the end of who started us."""
    for _line in sys.stdin.buffer:
        pass
    is_told_to_stop.set()


if __name__ == "__main__":
    sys.exit(main())
