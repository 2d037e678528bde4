"""What an agent writes to stderr: redacted on its way into a file, its end kept for errors.

The agent has a pipe and not the file itself, since a secret must not get there for a moment. Of a
line that has no end yet, what may turn into a secret waits.
"""

from __future__ import annotations

from typing import IO, Final

from upthread.core.quotas import STDERR_BYTES_MAX
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import RedactedStream

TAIL_BYTES: Final = 1000
REST_BYTES: Final = 64 * 1024
"""How much of what is not kept is looked at for the tail: more than any secret is long."""

CUT: Final = b"\n[upthread: the agent wrote more than 8 MiB to stderr; the rest is not kept]\n"


class StderrLog:
    """The file of one child's stderr, None for nowhere. Without a redactor all goes through.

    No more than STDERR_BYTES_MAX of it are kept: agents can be told to write without end. What
    comes after is not even looked at, but for its end, which is what a failure is told with.
    """

    def __init__(self, file: IO[bytes] | None, redactor: Redactor | None) -> None:
        self._file = file
        self._redactor = redactor
        self._redacted = RedactedStream(redactor) if redactor else None
        self._tail = b""
        self._written = 0
        self._rest = b""
        self._fault = ""

    def write(self, piece: bytes) -> None:
        """Take the next bytes."""
        if self._written >= STDERR_BYTES_MAX:
            self._rest = (self._rest + piece)[-REST_BYTES:]
            return
        self._written += len(piece)
        self._append(self._redacted.feed(piece) if self._redacted else piece)
        if self._written >= STDERR_BYTES_MAX:
            # What waited goes first: the line that says it was cut is to be the last of the file.
            self._append(self._redacted.finish() if self._redacted else b"")
            self._append(CUT)

    def tail(self) -> str:
        """Return the last that was written, at most TAIL_BYTES of it."""
        # An agent that dies in mid-line has its reason there; waiting it stays, for the file.
        waiting = self._redacted.waiting() if self._redacted else b""
        written = (self._tail + waiting + self._redacted_rest())[-TAIL_BYTES:]
        return (written.decode("utf-8", "replace").strip() + self._fault).strip()

    def _redacted_rest(self) -> bytes:
        """Return the end of what is not kept, from its first whole line, without its secrets."""
        # It begins anywhere: a secret that lost its beginning would not be known for one.
        _, _, lines = self._rest.partition(b"\n")
        return self._redactor.redact_bytes(lines) if self._redactor else lines

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._append(self._redacted.finish() if self._redacted else b"")
        if self._file is not None:
            self._file.close()

    def _append(self, piece: bytes) -> None:
        self._tail = (self._tail + piece)[-TAIL_BYTES:]
        if self._file is None or self._fault:
            return
        try:
            self._file.write(piece)
        except OSError as error:
            # The turn is worth more than its log; whoever reads the end of it is told.
            self._fault = f" (no more of its stderr is kept: {error.strerror})"
