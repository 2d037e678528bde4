"""The oracle seen from the laboratory: started, told, asked for its judgement, ended."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

PROGRAM = Path(__file__).parent / "oracle"
ANSWER_TIMEOUT_S = 30.0

Json = dict[str, Any]


class Oracle:
    """One oracle with a journal of its own. `port` is on loopback."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        # Without site packages and path entries: it could not import what it judges.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), str(journal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={},
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def acknowledge(self, what: str, line: Json) -> None:
        """Say what somebody was told."""
        self._ask({"event": "acknowledged", "what": what, "line": line})

    def note_go_on(self) -> None:
        """Note that the person says to go on."""
        self._ask({"event": "go_on"})

    def judge(self, **evidence: Any) -> Json:
        """Return the faults and the figures."""
        return self._ask({"event": "judge", "evidence": evidence})

    def entries(self) -> list[Json]:
        """The journal so far."""
        return [json.loads(line) for line in self.journal.read_bytes().splitlines()]

    def _ask(self, asked: Json) -> Json:
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, timeout=ANSWER_TIMEOUT_S) as connection:
            connection.sendall(json.dumps(asked).encode() + b"\n")
            answer: Json = json.loads(connection.makefile("rb").readline())
            return answer
