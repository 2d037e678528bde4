"""`python -m upthread.testing.rehearsal_model --port 0 --log FILE`: serve until stdin ends.

It is a scripted model server on 127.0.0.1. It prints its address as one line, and writes a line of
JSON for each request to FILE. As it ends with its stdin, it never outlives its parent.
"""

import argparse
import os
import sys

from upthread.testing.rehearsal_model.server import RehearsalModel

_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    options = parser.parse_args()
    log = os.fdopen(os.open(options.log, _LOG, 0o600), "ab", buffering=0) if options.log else None
    with RehearsalModel(port=options.port, log=log) as model:
        print(model.base_url, flush=True)  # noqa: T201  # who started it reads it
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
