"""Tables: aligned columns of plain text, wide characters counted as the terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.states import State
from upthread.core.text import visible_ends
from upthread.surfaces.cli.terminal.line_wrap import width as _width
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output

GAP: Final = "  "
CELL_CHARACTERS_MAX: Final = 60

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

    The last column may be wider than the others: what does not fit beside them is wrapped.
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
    _write_row(output, head, widths, style="dim")
    for row in cells:
        _write_row(output, row, widths)


def _write_row(output: Output, row: Sequence[str], widths: Sequence[int], style: str = "") -> None:
    pieces: list[tuple[str, str]] = []
    last = len(row) - 1
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        pieces.append((cell, style or _STATE_STYLES.get(cell, "")))
        if column != last:
            pieces.append((" " * (width - _width(cell)) + GAP, ""))
    output.row(*pieces)
