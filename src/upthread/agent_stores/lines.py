"""Lines of JSON: a whole file one at a time, or those at both ends. A damaged line is never fatal.

Memory is bounded by the longest line that is read. A line that is longer, nested too deeply, cut,
not UTF-8 or not an object comes back with what is wrong with it. At the ends a line is decoded only
where a reader asks. The last line of the head and the first of the tail may be the pieces of longer
ones: they are left out.

A file may be Zstandard: it is read piece by piece, with no more memory than a window, however far
it expands. The library is the standard one of Python 3.14 and its backport before (ADR 30), loaded
when the first such file is met.
"""

import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from upthread.agent_stores.base import BEGINNING_CHARACTERS_MAX, Unreadable, epoch_ms
from upthread.boundary.directories import FileEnds
from upthread.boundary.files import streamed, through_links
from upthread.core.codec import (
    encode_json,
    is_nested_deeper,
    object_at,
    objects_at,
    read_json,
    text_at,
)
from upthread.core.types import JsonObject
from upthread.errors import StoreError

SUFFIX = ".zst"
WHOLE = ".json"
"""A session in one object, as Codex wrote it at first: its header and its items become lines."""

BYTES_MAX = 512 * 1024 * 1024
"""What one file may expand to; a few kilobytes can be made to expand for ever."""

WINDOW_LOG_MAX = 23
"""8 MiB. What Codex writes needs 2 MiB; a file may ask for 2 GiB, and is refused."""

_PIECE_BYTES = 256 * 1024


class CompressedError(OSError):
    """A file is not what its name says, or expands too far."""


class _Expanded(io.RawIOBase):
    """What a compressed file holds, of all its frames. Raises CompressedError."""

    def __init__(self, file: BinaryIO) -> None:
        self._library = _library()
        options = {self._library.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
        self._file = self._library.ZstdFile(file, options=options)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as RawIOBase has it."""
        try:
            taken: int = self._file.readinto(buffer)
        except EOFError as error:
            raise CompressedError("it ends before its end") from error
        except self._library.ZstdError as error:
            raise CompressedError(f"it is not Zstandard: {error}") from error
        self._size += taken
        if self._size > BYTES_MAX:
            raise CompressedError(f"it expands to more than {BYTES_MAX} bytes")
        return taken


def is_plain(name: str) -> bool:
    """Return whether a file of a name is lines as it lies there."""
    return not name.endswith((SUFFIX, WHOLE))


def lines_in(file: BinaryIO, name: str) -> BinaryIO:
    """Return what a file holds as a stream with lines."""
    if name.endswith(SUFFIX):
        return io.BufferedReader(_Expanded(file), _PIECE_BYTES)
    if is_plain(name):
        return file
    raw = file.read(LINE_BYTES_MAX)
    value, _ = read_object(raw)
    parts = [object_at(value, "session"), *objects_at(value, "items")]
    return io.BytesIO(b"\n".join(map(encode_json, parts)) if value else raw)


def ends_in(
    file: BinaryIO, name: str, *, head_bytes: int, tail_bytes: int
) -> tuple[bytes, bytes, bool]:
    """Return both ends of what a file holds that is not plain, and whether they are all of it."""
    stream = lines_in(file, name)
    head, tail = stream.read(head_bytes), bytearray()
    size = len(head)
    while piece := stream.read(_PIECE_BYTES):
        size += len(piece)
        tail += piece
        del tail[: max(0, len(tail) - tail_bytes)]
    return head, bytes(tail), size == len(head) + len(tail)


def _library() -> Any:
    # By its name when it is needed: most look at no compressed file.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


# --- lines ----------------------------------------------------------------------------------------


LINE_BYTES_MAX = 32 * 1024 * 1024
DEPTH_MAX = 500
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1024 * 1024


class Line(Struct, frozen=True, kw_only=True):
    """One line. Either `value` is an object or `why` says what is wrong; `raw` ends without LF."""

    number: int
    value: JsonObject
    why: str
    raw: bytes

    @property
    def place(self) -> str:
        """`line 41`."""
        return f"line {self.number}"

    @property
    def text(self) -> bytes:
        """The line without a byte order mark."""
        return self.raw.removeprefix(BYTE_ORDER_MARK)

    @property
    def unreadable(self) -> Unreadable:
        """The line as a report."""
        beginning = self.raw[:BEGINNING_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
        return Unreadable(place=self.place, why=self.why, beginning=beginning)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank, of a compressed one those that it holds.

    StoreError when it cannot be opened, and when it is not what its name says.
    """
    try:
        with streamed(str(path)) as file:
            yield from _lines(lines_in(file, path.name))
    except CompressedError as error:
        raise StoreError(
            f"{path} cannot be read: {error}",
            hint="it was cut off or damaged; what it held is gone, unless there is a copy",
        ) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror or error}", hint="check who may read it"
        ) from error


def marked_objects(path: Path, mark: str) -> Iterator[JsonObject]:
    """Yield the objects of the lines that hold a mark; no other line is decoded. Raises OSError."""
    wanted = mark.encode()
    with streamed(str(path)) as file:
        while raw := file.readline(LINE_BYTES_MAX):
            if wanted in raw:
                yield read_object(raw)[0]


def lines_from_end(path: Path, bytes_max: int) -> Iterator[bytes]:
    """Yield the last lines of a file, the last first, as they are. Raises OSError.

    The last one that is yielded may be the rest of a longer line.
    """
    with os.fdopen(through_links(str(path)), "rb") as file:
        if not is_plain(path.name):
            tail = ends_in(file, path.name, head_bytes=0, tail_bytes=bytes_max)[1]
        else:
            file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            tail = file.read(bytes_max)
    yield from filter(None, reversed(tail.split(b"\n")))


def last_time_ms(backward: Iterable[bytes]) -> int | None:
    """Return the time of the last entry that has one. `backward` has the last line first.

    A copied or restored store has new times of files.
    """
    timed = (decoded(line) for line in backward if b'"timestamp"' in line)
    return next(filter(None, (epoch_ms(text_at(value, "timestamp")) for value in timed)), None)


def _lines(file: BinaryIO) -> Iterator[Line]:
    number = 0
    # One byte more than is taken shows that there is more.
    while raw := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > LINE_BYTES_MAX and not raw.endswith(b"\n"):
            # Gone past in pieces: the rest of it may be larger than memory.
            size = len(raw) + _skip(file)
            why = f"the line of {size:,} bytes is longer than {LINE_BYTES_MAX:,}"
            yield Line(number=number, value={}, why=why, raw=raw[:_CHUNK_BYTES])
        elif raw.strip():
            value, why = read_object(raw)
            yield Line(number=number, value=value, why=why, raw=raw.rstrip(b"\n"))


def _skip(file: BinaryIO) -> int:
    """Go to the end of the line, and return how many bytes that was."""
    skipped = 0
    while raw := file.readline(_CHUNK_BYTES):
        skipped += len(raw)
        if raw.endswith(b"\n"):
            break
    return skipped


def read_object(raw: bytes) -> tuple[JsonObject, str]:
    """Return the object that JSON bytes hold, or an empty one and what is wrong."""
    try:
        value = read_json(raw.removeprefix(BYTE_ORDER_MARK))
    except StoreError as error:
        return {}, f"it is no JSON: {error.message.rpartition(': ')[2]}"
    # What is nested deeper still meets the decoder's own limit, before ours is asked.
    except RecursionError:
        return {}, "it is nested too deeply"
    if not isinstance(value, Mapping):
        return {}, "it is no object"
    # Most have fewer brackets than that, and need no look at their values.
    brackets = raw.count(b"{") + raw.count(b"[")
    if brackets > DEPTH_MAX and is_nested_deeper(value, DEPTH_MAX):
        return {}, f"it is nested deeper than {DEPTH_MAX}"
    return value, ""


# --- both ends of a file --------------------------------------------------------------------------


BINARY = "binary"
EMPTY = "empty"
CUT = "cut off in the middle of a line"
NO_LINES = "not lines of JSON"

GROWING_MS = 60_000
"""What was written so recently may be under way, and end in the middle of a line."""

_PROBED_BYTES = 4096
_DECODER = msgspec.json.Decoder(dict[str, Any])


def lines_forward(ends: FileEnds) -> Iterator[bytes]:
    """Yield the lines of the head, first to last."""
    head = ends.head + ends.tail if ends.is_whole else ends.head
    lines = head.split(b"\n")
    if not ends.is_whole:
        lines.pop()
    yield from filter(None, lines)


def lines_backward(ends: FileEnds) -> Iterator[bytes]:
    """Yield the lines of the tail, last to first; of a file that the ends hold whole, of it all."""
    tail = ends.head + ends.tail if ends.is_whole else ends.tail
    lines = tail.split(b"\n")
    if not ends.is_whole:
        lines.pop(0)
    yield from filter(None, reversed(lines))


def used_at_ms(ends: FileEnds) -> int:
    """Return the time of the last entry in the ends that has one, otherwise the file's."""
    backward = (*lines_backward(ends), *reversed([*lines_forward(ends)]))
    return last_time_ms(backward) or ends.written_at_ms


def decoded(line: bytes) -> dict[str, Any]:
    """Return the object of a line, an empty one where it holds none."""
    try:
        return _DECODER.decode(line.removeprefix(BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value, _ = read_object(line)  # takes what msgspec does not: halves of characters
        return dict(value)


def damage_of(ends: FileEnds) -> str:
    """Return why a file holds no lines of JSON, as its beginning shows; empty if it holds some."""
    lines = [line for line in ends.head.split(b"\n") if line.strip()]
    # A line that is longer than the head cannot be decoded.
    is_piece = len(lines) == 1 and lines[0].removeprefix(BYTE_ORDER_MARK).startswith(b"{")
    if any(map(decoded, lines)) or (is_piece and not ends.is_whole):
        return ""
    if not lines:
        return EMPTY
    if b"\0" in ends.head[:_PROBED_BYTES]:
        return BINARY
    return CUT if is_piece else NO_LINES


def is_cut(ends: FileEnds) -> bool:
    """Return whether a file ends in the middle of a line, or in NUL bytes, and nobody writes it."""
    last = (ends.tail or ends.head).rpartition(b"\n")[2]
    is_growing = ends.written_at_ms > time.time_ns() // 1_000_000 - GROWING_MS
    return bool(last.strip()) and not decoded(last) and not is_growing
