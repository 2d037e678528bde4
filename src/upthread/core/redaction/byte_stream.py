"""A stream of bytes, redacted as it comes: what an agent writes to stderr."""

from __future__ import annotations

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.running_text import settled_length


class RedactedStream:
    """Redacts bytes as they come: `feed` returns what can be written, `finish` the rest.

    Holds no more than HELD_CHARACTERS_MAX bytes and the piece at hand.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes; return what can be written by now, redacted, b"" for nothing.

        Bytes that are no UTF-8 stay as they are.
        """
        # A character for each byte: a piece may end within one of UTF-8, and bytes may be none.
        self._held += piece.decode("latin-1")
        length = settled_length(self._held)
        settled, self._held = self._held[:length], self._held[length:]
        return self._redacted(settled)

    def waiting(self) -> bytes:
        """Return what is held back, redacted as if nothing followed. Changes nothing."""
        return self._redacted(self._held)

    def finish(self) -> bytes:
        """Return what is left. The stream begins anew."""
        left, self._held = self._held, ""
        return self._redacted(left)

    def _redacted(self, text: str) -> bytes:
        return self._redactor.redact_bytes(text.encode("latin-1"))
