"""What an agent writes to stderr: redacted on its way into a file, its end kept for errors.

The agent has a pipe and not the file itself, since a secret must not get there for a moment. Of a
line that has no end yet, what may turn into a secret waits. The file is 0600 in a 0700 directory,
no symlink, nobody else's.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Final

from upthread.core.quotas import STDERR_BYTES_MAX
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import RedactedStream
from upthread.errors import ConfigError

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


def open_private_append(path: str) -> IO[bytes]:
    """Open a file for appending and reading back, made 0600 when new, narrowed when not.

    Its directory is made 0700 when missing. A directory or file that is a symlink, belongs to
    another user, or could be written by one raises ConfigError, and nothing is opened.
    """
    directory = Path(path).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(directory, directory.lstat(), writable_bits=0o022)
    # Of what lies there nothing is trusted: no link is followed, and no pipe waited for.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the file {path} for the agent's stderr cannot be opened: {error.strerror}",
            hint="it must be an ordinary file of yours; remove it and try again",
        ) from error
    try:
        # What was opened is looked at, and not the name, which may be another file's by now.
        _refuse_foreign(Path(path), os.fstat(descriptor), writable_bits=0)
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "ab+", buffering=0)


def _refuse_foreign(path: Path, status: os.stat_result, *, writable_bits: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        problem = "is a symlink"
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        problem = "is no ordinary file"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}"
    elif status.st_mode & writable_bits:
        problem = "can be written by others"
    else:
        return
    raise ConfigError(
        f"{path} {problem}, so no session output is written there",
        hint="use a directory of your own with mode 0700",
    )
