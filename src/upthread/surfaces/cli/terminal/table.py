"""Tables: aligned columns of plain text, wide characters counted as the terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.states import State
from upthread.core.text import visible_ends
from upthread.surfaces.cli.terminal.line_wrap import width as _width
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import one_line

GAP: Final = "  "
CELL_CHARACTERS_MAX: Final = 60

LAST_COLUMNS_MIN: Final = 20
"""How many columns there must be for a last one that is longer, for a table to be one."""

_STATE_STYLES: Final[Mapping[str, str]] = {
    State.RUNNING: "cyan",
    State.APPROVED: "green",
    State.WAITING: "yellow",
    State.PARKED: "yellow",
    State.INTERRUPTED: "yellow",
    State.UNSETTLED: "yellow",
    State.OUTDATED: "yellow",
    State.HALFWAY: "cyan",
    State.BLOCKED: "red",
    State.FAILED: "red",
}


def write_table(
    output: Output,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    last_characters_max: int = CELL_CHARACTERS_MAX,
) -> None:
    """Write a table; a cell that is the word of a state has that state's colour.

    The last column may be wider than the others: what does not fit beside them is wrapped. On a
    terminal too narrow for that, each row is written as a record, a line for each of its cells.
    """
    cells = [
        [
            *(one_line(cell, characters_max=CELL_CHARACTERS_MAX) for cell in row[:-1]),
            # Both ends, since of a command the last word may be the one that matters.
            visible_ends(row[-1], characters_max=last_characters_max),
        ]
        for row in rows
    ]
    widths = [max(_width(row[column]) for row in (head, *cells)) for column in range(len(head))]
    beside = sum(widths[:-1]) + len(GAP) * (len(head) - 1)
    if output.columns is not None and beside + min(widths[-1], LAST_COLUMNS_MIN) > output.columns:
        for row in cells:
            _write_record(output, head, row)
        return
    _write_row(output, head, widths, style="dim")
    for row in cells:
        _write_row(output, row, widths)


def _write_record(output: Output, head: Sequence[str], row: Sequence[str]) -> None:
    """Write a row under its first cell; a cell with nothing in it says nothing."""
    output.line(row[0], "bold")
    label_width = max(map(_width, head))
    for label, cell in zip(head[1:], row[1:], strict=True):
        if cell:
            name = f"  {label.lower()}{' ' * (label_width - _width(label))}{GAP}"
            output.row((name, "dim"), (cell, _STATE_STYLES.get(cell, "")))


def _write_row(output: Output, row: Sequence[str], widths: Sequence[int], style: str = "") -> None:
    pieces: list[tuple[str, str]] = []
    last = len(row) - 1
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        pieces.append((cell, style or _STATE_STYLES.get(cell, "")))
        if column != last:
            pieces.append((" " * (width - _width(cell)) + GAP, ""))
    output.row(*pieces)
