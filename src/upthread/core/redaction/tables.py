"""Secrets in the columns of a table: CSV, Markdown, and output of `psql` or `mysql`.

For example `NqzWOQtZM_9b` under `name,password`. A column counts when its name ends in a word such
as `password`. The table ends at the first line that has another number of cells.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from upthread.core.redaction.contexts import WORDS
from upthread.core.redaction.expressions import Expression
from upthread.core.redaction.values import is_chosen, is_given

LINE_BYTES_MAX: Final = 4096

_NAME: Final = rf"(?i)[\w. -]*(?:{WORDS['WORD']}|(?:\b|_)(?:pass|pin|pw|psk))"
SECRET_COLUMN: Final = (
    rf"{_NAME}[\"' ]*(?:[,;|\t]|  )|(?:[,;|\t]|  )[\"' ]*{_NAME}[\"' \r|]*(?:\n|$)"
)
"""An expression of RE2 that every text with such a column matches, so other texts are skipped."""

_SECRET_NAME: Final = _NAME.encode()
_HEAD: Final = rb"[ \t|\"']*\w[\w .\"'-]*(?:[,;|\t][\w .\"'-]*)+\r?"
_SEPARATOR: Final = rb"[,;|]"
_GAP: Final = rb"  ( *)"
"""Blanks between two columns, as PowerShell and `kubectl get` align them; read as a tab."""

_QUOTED: Final = rb"\"[^\"]*\""
_RULE: Final = rb"[\s|+:=-]*"
_AROUND: Final = b" \t\r\"'`"


def column_secrets(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of every secret in such a column, left to right."""
    below = 0
    for named, _ in _secret_column().spans(content):
        begin = content.rfind(b"\n", 0, named) + 1
        head = _line(content, begin)
        if begin < below or not re.fullmatch(_HEAD, head):
            continue
        separator = next(iter(re.findall(_SEPARATOR, head)), b"\t")
        names = [name.strip(_AROUND) for name in head.split(separator)]
        secret = [column for column, name in enumerate(names) if re.fullmatch(_SECRET_NAME, name)]
        below = begin + len(head) + 1
        # Code such as `password,` at a line's end is no table, because only one cell has a name.
        is_table = sum(map(bool, names)) > 1 and (names[-1] or separator != b",")
        while secret and is_table and below < len(content):
            line = _line(content, below)
            cells = _cells(line, separator)
            if len(cells) == len(names):
                for start, end in (cells[column] for column in secret):
                    value = line[start:end]
                    if b" " not in value and (is_chosen(value) or is_given(value)):
                        yield below + start, below + end
            elif not re.fullmatch(_RULE, line):
                break
            below += len(line) + 1


@functools.cache
def _secret_column() -> Expression:
    return Expression(SECRET_COLUMN)


def _line(content: bytes, start: int) -> bytes:
    line, _, _ = content[start : start + LINE_BYTES_MAX].partition(b"\n")
    return re.sub(_GAP, rb"\t \1", line)


def _cells(line: bytes, separator: bytes) -> list[tuple[int, int]]:
    """Return start and end of every cell in a line, without blanks and quotes around it."""
    # A separator within quotes does not count.
    masked = re.sub(_QUOTED, lambda quoted: b"." * len(quoted.group()), line)
    cells: list[tuple[int, int]] = []
    start = 0
    for cell in masked.split(separator):
        value = line[start : start + len(cell)]
        begin = start + len(value) - len(value.lstrip(_AROUND))
        cells.append((begin, begin + len(value.strip(_AROUND))))
        start += len(cell) + 1
    return cells
