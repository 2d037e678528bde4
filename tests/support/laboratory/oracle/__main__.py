"""The oracle: a process of its own that is told what happened outside, and judges by that alone.

    python -I -S oracle JOURNAL

It has the standard library and nothing else: no code of the program under test, none of its
storage. What it knows stands in the journal, one JSON object a line, in the order it happened: what
the agents write there themselves (prompts received, replies given) and what it is told on a
loopback socket. What it is told is on the disk before it answers, so an effect that somebody
learned of is in the journal, and one that is in the journal has happened.

It prints its port, answers one line of JSON with another, and ends when its standard input does.
"""

import json
import os
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

from judging import judge

HOST = "127.0.0.1"
TOLD = frozenset({"effect", "acknowledged", "go_on"})

Json = dict[str, Any]


class Journal:
    """What happened, appended to by several processes: a line is one write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch(mode=0o600)

    def append(self, entry: Json) -> None:
        """Write an entry through to the disk."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, json.dumps(entry).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> list[Json]:
        """Return all entries, oldest first."""
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]


class Server(socketserver.ThreadingTCPServer):
    """Listens on loopback, on any free port."""

    daemon_threads = True

    def __init__(self, journal: Journal) -> None:
        super().__init__((HOST, 0), Handler)
        self.journal = journal


class Handler(socketserver.StreamRequestHandler):
    """One connection: a line in, a line out, as often as the other side likes."""

    server: Server

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(json.dumps(self._answer(json.loads(line))).encode() + b"\n")

    def _answer(self, asked: Json) -> Json:
        journal = self.server.journal
        if asked["event"] in TOLD:
            journal.append(asked)
            return {}
        assert asked["event"] == "judge", asked
        return judge(journal.read(), asked["evidence"])


def main() -> None:
    with Server(Journal(Path(sys.argv[1]))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
