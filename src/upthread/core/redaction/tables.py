"""Secrets in a table: what stands below `password` in CSV, in Markdown, in what `psql` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from upthread.core.lazy_regex import regex
from upthread.core.redaction.contexts import WORD, is_assigned, looks_random

_NAME: Final = rf"(?i)[\w. -]*(?:{WORD}|pass|pin)"
HEAD: Final = rf"{_NAME}[\"' ]*[,;|\t]|[,;|\t][\"' ]*{_NAME}[\"' \r|]*(?:\n|$)"
"""Where a text has a column of that name, as an expression of RE2; else it has no such table."""

LINE_BYTES_MAX: Final = 4096

_NAMED: Final = regex(_NAME.encode())
_HEAD: Final = regex(rb"(?m)^[\s|\"']*\w[\w .\"'-]*(?:[,;|\t][\w .\"'-]*)+$")
_SEPARATOR: Final = regex(rb"[,;|\t]")
_QUOTED: Final = regex(rb"\"[^\"]*\"")
_BETWEEN: Final = regex(rb"[\s|+:=-]*")
_AROUND: Final = b" \t\r\"'`"


def columns(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand below such a name, left to right."""
    below = 0
    while (head := _HEAD.search(content, below)) is not None:
        (separator, *_) = _SEPARATOR.findall(head.group())
        names = [name.strip(_AROUND) for name in head.group().split(separator)]
        wanted = [at for at, name in enumerate(names) if _NAMED.fullmatch(name)]
        below = head.end() + 1
        while wanted and sum(map(bool, names)) > 1 and below < len(content):
            line, _, _ = content[below : below + LINE_BYTES_MAX].partition(b"\n")
            cells = _cells(line, separator)
            if len(cells) != len(names) and not _BETWEEN.fullmatch(line):
                break
            for start, end in (cells[at] for at in wanted if len(cells) == len(names)):
                value = line[start:end]
                if b" " not in value and (is_assigned(value) or looks_random(value)):
                    yield below + start, below + end
            below += len(line) + 1


def _cells(line: bytes, separator: bytes) -> list[tuple[int, int]]:
    """Return where the cells of a line are, without what is around them."""
    # What is within quotes does not separate.
    seen = _QUOTED.sub(lambda quoted: b"." * len(quoted.group()), line)
    ends = [place for place, byte in enumerate(seen) if byte == separator[0]]
    cells: list[tuple[int, int]] = []
    for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(line)], strict=True):
        cell = line[start:end]
        begin = start + len(cell) - len(cell.lstrip(_AROUND))
        cells.append((begin, begin + len(cell.strip(_AROUND))))
    return cells
