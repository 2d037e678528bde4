"""Help: the page of the program, and of one verb. Plain text, as wide as there is room.

Not argparse's own: its form differs between versions of Python, and it knows no verbs in groups.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from upthread.surfaces.cli.arguments.parameters import Option, Parameter

COLUMNS: Final = 80
COLUMNS_MIN: Final = 40
COLUMNS_MAX: Final = 100
"""Lines that are longer than a hand's breadth are hard to read, whatever room there is."""

NAMES_COLUMNS_MAX: Final = 26
"""What is explained stands left of its text where it is no wider than this, else above it."""

Rows = Sequence[tuple[str, str]]


def program_page(
    about: str,
    options: Sequence[Parameter],
    named: Mapping[str, Rows],
    columns: int | None,
) -> str:
    """Return the page of the program; `named` are names with what they are for, by their group."""
    sections = {"Options": [_row(each) for each in options], **named}
    return _page("upthread [OPTIONS] VERB …", about, sections, columns)


def verb_page(name: str, about: str, parameters: Sequence[Parameter], columns: int | None) -> str:
    """Return the page of one verb, the options that every verb takes among its parameters."""
    arguments = [each for each in parameters if not each.names]
    options = [each for each in parameters if each.names]
    words = ["upthread", name, "[OPTIONS]"]
    words += [_argument(each) for each in arguments]
    words += [_option(each) for each in options if each.is_required]
    sections = {
        "Arguments": [_row(each) for each in arguments],
        "Options": [_row(each) for each in options],
    }
    return _page(" ".join(words), about, sections, columns)


def summary(documented: object) -> str:
    """Return what a verb does: the first line of its docstring."""
    return (documented.__doc__ or "").partition("\n")[0]


def _page(usage: str, about: str, sections: Mapping[str, Rows], columns: int | None) -> str:
    room = max(COLUMNS_MIN, min(columns or COLUMNS, COLUMNS_MAX))
    lines = [*_wrapped(f"Usage: {usage}", room, "       "), "", *_wrapped(about, room)]
    for title, rows in sections.items():
        if rows:
            left = max((len(name) for name, _ in rows if len(name) <= NAMES_COLUMNS_MAX), default=0)
            lines += ["", f"{title}:"]
            lines += (line for row in rows for line in _lines(row, left, room))
    return "\n".join(lines) + "\n"


def _lines(row: tuple[str, str], left: int, room: int) -> Iterable[str]:
    name, text = row
    indent = " " * (left + 4)
    if len(name) > left:
        yield f"  {name}"
        yield from _wrapped(f"{indent}{text}", room, indent)
    else:
        yield from _wrapped(f"  {name:<{left}}  {text}", room, indent)


def _wrapped(text: str, room: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _row(parameter: Parameter) -> tuple[str, str]:
    name = _option(parameter) if parameter.names else parameter.metavar
    return name, " ".join(filter(None, (parameter.declared.help, _bounds(parameter))))


def _option(parameter: Parameter) -> str:
    names = ", ".join(parameter.names)
    if parameter.kind is bool:
        return f"{names}, --no-{names.removeprefix('--')}" if parameter.is_undecided else names
    return f"{names} {parameter.metavar}"


def _argument(parameter: Parameter) -> str:
    # Some say by their name that they may be left out.
    if parameter.is_required or parameter.metavar.startswith("["):
        return parameter.metavar
    return f"[{parameter.metavar}]"


def _bounds(parameter: Parameter) -> str:
    option = parameter.declared
    if not isinstance(option, Option) or option.minimum is None:
        return "(required)" if parameter.names and parameter.is_required else ""
    if option.maximum is None:
        return f"({option.minimum} or more)"
    return f"({option.minimum} to {option.maximum})"
