"""A damaged database page by page: what each page that can be read still holds.

Theory of operation. The engine refuses a file as soon as a page on its way is damaged; here each
page is read for itself, whatever led to it. All pages are taken at once, the log's newest versions
among them and decrypted, from a copy of the file; where the first page is what is damaged, that of
an empty database stands in for it. Only what is whole is given of a page: a row whose lengths are
all right, and whose overflow pages lead to its end. Nothing here knows what a row means.

The format: https://sqlite.org/fileformat2.html, sections 1.6 and 2.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

import apsw

from upthread.errors import StoreError
from upthread.store.sqlite.encryption import unlock
from upthread.store.sqlite.presence import HEADER_BYTES, LOG_SUFFIX, size_of

Value: TypeAlias = "int | str | bytes | None"
Values: TypeAlias = tuple[Value, ...]

PAGE_BYTES: Final = 4096
"""The size of our pages: database.py."""

_LEAF_TABLE: Final = 13
_LEAF_INDEX: Final = 10
_INNER_INDEX: Final = 2
_LEAF_HEADER_BYTES: Final = 8
_INNER_HEADER_BYTES: Final = 12
_POINTER_BYTES: Final = 4
_VARINT_BYTES_MAX: Final = 9
_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CONSTANTS: Final[dict[int, Value]] = {0: None, 8: 0, 9: 1}
_FIRST_BLOB: Final = 12


class TableRow(NamedTuple):
    """A row of some table: where it stands, and its columns."""

    page: int
    row_id: int
    values: Values


class IndexRow(NamedTuple):
    """An entry of some index; `cell` is its place in the page.

    Between two entries of a page that is no leaf lies all of another page.
    """

    page: int
    cell: int
    is_leaf: bool
    values: Values


class _Connection(Protocol):
    """What we use of apsw.Connection, typed."""

    def pragma(self, name: str, value: str | None = None, /) -> object: ...
    def execute(self, statement: str, bindings: tuple[str, ...], /) -> object: ...
    def serialize(self, name: str, /) -> bytes | None: ...
    def close(self) -> None: ...


class _UnreadableError(Exception):
    """A cell is not what the format says."""


class Pages:
    """The pages of a database, as many as there are, all in memory."""

    def __init__(self, image: bytes) -> None:
        self._image = image
        self._usable_bytes = PAGE_BYTES - image[20]  # what encryption keeps for itself

    @property
    def count(self) -> int:
        """How many pages there are."""
        return len(self._image) // PAGE_BYTES

    def table_rows(self) -> Iterator[TableRow]:
        """Yield the rows of all tables that can be read, page by page."""
        for number in range(1, self.count + 1):
            for _, offset in self._cells(number, _LEAF_TABLE):
                try:
                    length, after = self._varint(number, offset)
                    row_id, after = self._varint(number, after)
                    # The format's limit: of a longer row a leaf keeps only the beginning.
                    payload = self._payload(number, after, length, self._usable_bytes - 35)
                    values = _decoded(payload)
                except _UnreadableError:
                    continue
                yield TableRow(number, _signed(row_id), values)

    def index_rows(self) -> Iterator[IndexRow]:
        """Yield the entries of all indexes that can be read, page by page."""
        # The format's limit for indexes, lower than that of tables.
        most = (self._usable_bytes - 12) * 64 // 255 - 23
        for number in range(1, self.count + 1):
            # Inner pages of an index have entries, each behind a pointer; those of a table none.
            for kind, skipped in ((_LEAF_INDEX, 0), (_INNER_INDEX, _POINTER_BYTES)):
                for cell, offset in self._cells(number, kind):
                    try:
                        length, after = self._varint(number, offset + skipped)
                        values = _decoded(self._payload(number, after, length, most))
                    except _UnreadableError:
                        continue
                    yield IndexRow(number, cell, kind == _LEAF_INDEX, values)

    def _page(self, number: int) -> bytes:
        return self._image[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]

    def _cells(self, number: int, kind: int) -> Iterator[tuple[int, int]]:
        """Yield the place of each cell of a page of a kind: its number and its offset."""
        page = self._page(number)
        start = HEADER_BYTES if number == 1 else 0
        if page[start] != kind:
            return
        first = start + (_INNER_HEADER_BYTES if kind == _INNER_INDEX else _LEAF_HEADER_BYTES)
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        if first + 2 * cells > self._usable_bytes:
            return
        for cell in range(cells):
            offset = int.from_bytes(page[first + 2 * cell : first + 2 * cell + 2], "big")
            # One pointer that leads nowhere says nothing against the others of its page.
            if first + 2 * cells <= offset < self._usable_bytes:
                yield cell, offset

    def _varint(self, number: int, offset: int) -> tuple[int, int]:
        return _varint(self._page(number)[: self._usable_bytes], offset)

    def _payload(self, number: int, offset: int, length: int, most: int) -> bytes:
        """Return a cell's content, what has overflown to other pages with it."""
        usable = self._usable_bytes
        # No row is longer than the file: this also ends the loop where pages lead in a ring.
        if length > len(self._image):
            raise _UnreadableError
        local = length
        if length > most:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            local = local if local <= most else least
        end = offset + local
        if end + (_POINTER_BYTES if local < length else 0) > usable:
            raise _UnreadableError
        page = self._page(number)
        pieces = [page[offset:end]]
        following = page[end : end + _POINTER_BYTES] if local < length else bytes(_POINTER_BYTES)
        while local < length:
            next_page = int.from_bytes(following, "big")
            if not 1 < next_page <= self.count:
                raise _UnreadableError
            page = self._page(next_page)
            following = page[:_POINTER_BYTES]
            piece = page[_POINTER_BYTES : _POINTER_BYTES + min(usable - 4, length - local)]
            pieces.append(piece)
            local += len(piece)
        if any(following):  # the last page of a row leads nowhere
            raise _UnreadableError
        return b"".join(pieces)


def read_pages(path: Path, scratch: Path, *, key: bytes | None) -> Pages:
    """Return the pages of a damaged database and its log; both are only read.

    `scratch` is a directory for a copy. StoreError when nothing can be made of the file, encrypted
    under another key perhaps.
    """
    # A copy: whoever opens the file itself writes its log into it, and then removes the log.
    copy = scratch / "damaged.db"
    shutil.copyfile(path, copy)
    log = path.with_name(path.name + LOG_SUFFIX)
    if size_of(log):
        shutil.copyfile(log, copy.with_name(copy.name + LOG_SUFFIX))
    _fill_up(copy)
    image = _image(copy, key)
    if image is None:
        first_page = bytearray(_first_page_of_none(scratch / "empty.db", key))
        # So it no longer says how many pages there are: as many as the file has. Of one that is
        # encrypted it is the same bit, by a cipher that adds a stream.
        first_page[92] ^= 0xFF
        with copy.open("r+b") as file:
            file.write(first_page)
        image = _image(copy, key)
    if image is None:
        raise StoreError(
            f"nothing can be read of {path}", hint="is it a database, and under this key?"
        )
    return Pages(image)


def _fill_up(copy: Path) -> None:
    """Have whole pages, and one at least: beside an empty file the engine removes the log."""
    size = copy.stat().st_size
    pages = max(1, -(-size // PAGE_BYTES))
    with copy.open("r+b") as file:
        file.truncate(pages * PAGE_BYTES)


def _first_page_of_none(path: Path, key: bytes | None) -> bytes:
    """Return the first page of a database that holds nothing, so that it leads to no other page."""
    # Made by the engine and not by hand, so that under a key it is encrypted as ours are.
    connection = cast("_Connection", apsw.Connection(str(path)))
    try:
        if key is not None:
            unlock(connection, key)
        connection.pragma("page_size", str(PAGE_BYTES))
        connection.pragma("journal_mode", "wal")
        connection.execute("VACUUM", ())
    finally:
        connection.close()
    return path.read_bytes()[:PAGE_BYTES]


def _image(copy: Path, key: bytes | None) -> bytes | None:
    connection = cast("_Connection", apsw.Connection(str(copy)))
    try:
        if key is not None:
            # A page whose seal is broken is read all the same: what is in it is looked at here. It
            # would else be the last one that this connection reads.
            connection.pragma("hmac_check", "0")
            unlock(connection, key)
        return connection.serialize("main") or None
    except apsw.Error:
        return None
    finally:
        connection.close()


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for count in range(1, _VARINT_BYTES_MAX + 1):
        if offset >= len(content):
            raise _UnreadableError
        byte = content[offset]
        offset += 1
        if count == _VARINT_BYTES_MAX:
            return value << 8 | byte, offset
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, offset


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _decoded(payload: bytes) -> Values:
    """Return the columns of a record; what is too short or too long for its header is none."""
    header_bytes, offset = _varint(payload, 0)
    if not offset <= header_bytes <= len(payload):
        raise _UnreadableError
    kinds: list[int] = []
    while offset < header_bytes:
        kind, offset = _varint(payload[:header_bytes], offset)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, offset = _value(payload, offset, kind)
        values.append(value)
    if offset != len(payload):
        raise _UnreadableError
    return tuple(values)


def _value(payload: bytes, offset: int, kind: int) -> tuple[Value, int]:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], offset
    if kind < _FIRST_BLOB and kind not in _INTEGER_BYTES:
        raise _UnreadableError  # we store no floats, and the rest is reserved
    size = _INTEGER_BYTES.get(kind, (kind - _FIRST_BLOB) // 2)
    end = offset + size
    if end > len(payload):
        raise _UnreadableError
    content = payload[offset:end]
    if kind in _INTEGER_BYTES:
        return int.from_bytes(content, "big", signed=True), end
    if kind % 2 == 0:
        return content, end
    try:
        return content.decode(), end
    except UnicodeDecodeError as error:
        raise _UnreadableError from error
