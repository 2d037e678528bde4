"""`python -m upthread.testing.rehearsal_model --port 0 --log FILE`: serve until stdin ends.

It prints its address as one line. With the end of its stdin it never outlives the process that
started it.
"""

from __future__ import annotations

import argparse
import os
import sys

from upthread.testing.rehearsal_model.server import RehearsalModel

_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(
        description="A scripted model server on 127.0.0.1. It is a rehearsal: there is no model.",
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", help="write one JSON line per request to this file")
    options = parser.parse_args()
    log = os.fdopen(os.open(options.log, _LOG, 0o600), "ab", buffering=0) if options.log else None
    with RehearsalModel(port=options.port, log=log) as model:
        print(model.base_url, flush=True)  # noqa: T201  # who started it reads it
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
