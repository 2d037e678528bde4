"""Zstandard files, read piece by piece: no more memory than a window, however far one expands.

The library is the standard one of Python 3.14 and its backport before (ADR 107), loaded when the
first such file is met.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, Final

SUFFIX: Final = ".zst"
BYTES_MAX: Final = 512 * 1024 * 1024
"""What one file may expand to; a few kilobytes can be made to expand for ever."""

WINDOW_LOG_MAX: Final = 23
"""8 MiB. What Codex writes needs 2 MiB; a file may ask for 2 GiB, and is refused."""

_PIECE_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 64 * 1024


class CompressedError(OSError):
    """A file is not what its name says, or expands too far."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield what a compressed file holds, in pieces: all its frames. Raises CompressedError."""
    library = _library()
    options = {library.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
    expander = library.ZstdDecompressor(options=options)
    expanded = 0
    try:
        while True:
            if expander.eof:  # a file that was added to has a frame for each time
                raw = expander.unused_data or file.read(_READ_BYTES)
                if not raw:
                    return
                expander = library.ZstdDecompressor(options=options)
            elif expander.needs_input:
                raw = file.read(_READ_BYTES)
                if not raw:
                    raise CompressedError("it ends before its end")
            else:
                raw = b""
            piece = expander.decompress(raw, max_length=_PIECE_BYTES)
            expanded += len(piece)
            if expanded > BYTES_MAX:
                raise CompressedError(f"it expands to more than {BYTES_MAX} bytes")
            if piece:
                yield piece
    except library.ZstdError as error:
        raise CompressedError(f"it is not Zstandard: {error}") from error


def expanded_ends(file: BinaryIO, *, head_bytes: int, tail_bytes: int) -> tuple[bytes, bytes, bool]:
    """Return both ends of what a compressed file holds, and whether they are all of it."""
    head, tail = bytearray(), bytearray()
    size = 0
    for piece in pieces(file):
        size += len(piece)
        taken = head_bytes - len(head)
        head += piece[:taken] if taken > 0 else b""
        tail += piece[max(0, taken) :]
        del tail[: max(0, len(tail) - tail_bytes)]
    return bytes(head), bytes(tail), size == len(head) + len(tail)


class ExpandedStream(io.RawIOBase):
    """A compressed file as a stream of what it holds; wrapped in a buffer it has lines."""

    def __init__(self, file: BinaryIO) -> None:
        self._pieces = pieces(file)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as RawIOBase has it."""
        if not self._left:
            self._left = next(self._pieces, b"")
        taken = min(len(buffer), len(self._left))
        buffer[:taken] = self._left[:taken]
        self._left = self._left[taken:]
        return taken


def expanded(file: BinaryIO) -> BinaryIO:
    """Return what a compressed file holds as a stream with lines."""
    return io.BufferedReader(ExpandedStream(file))


def _library() -> Any:
    # By its name when it is needed: most look at no compressed file.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
