"""Markdown, as far as the rehearsal reads it: lines, code fences, headings, lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+-]*)")
_HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_ITEM: Final = re.compile(r"^\s*(?:[-*]|\d+\.)\s+(.*)$")
_CODE: Final = re.compile(r"`([^`\n]+)`")


class Line(NamedTuple):
    """A line and whether it belongs to a code fence, the fence's own two lines included."""

    text: str
    is_code: bool
    is_fence: bool


def lines_of(text: str) -> Iterator[Line]:
    """Return the lines of a text, told apart by the fences around them."""
    opened = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        fence = found[1] if found else ""
        if opened:
            closes = fence.startswith(opened) and not line.strip().strip(fence[:1])
            yield Line(line, is_code=True, is_fence=closes)
            opened = "" if closes else opened
        else:
            opened = fence
            yield Line(line, is_code=bool(fence), is_fence=bool(fence))


def heading_of(line: Line) -> tuple[int, str]:
    """Return level and words of a heading; level 0 for any other line."""
    found = None if line.is_code else _HEADING.match(line.text)
    return (len(found[1]), found[2]) if found else (0, "")


def item_of(line: Line) -> str:
    """Return the words of a list item; empty for any other line."""
    found = None if line.is_code else _ITEM.match(line.text)
    return found[1].strip() if found else ""


def items_of(text: str) -> list[str]:
    """Return the words of all list items in a text."""
    return [item for line in lines_of(text) if (item := item_of(line))]


def code_words(text: str) -> list[str]:
    """Return what stands in backticks outside of code fences, in order, each once."""
    prose = "\n".join(line.text for line in lines_of(text) if not line.is_code)
    return list(dict.fromkeys(_CODE.findall(prose)))


def section_of(text: str, heading: str, *, level: int) -> str:
    """Return what stands under a heading, up to the next of its level or above; empty if none."""
    body: list[str] = []
    is_inside = False
    for line in lines_of(text):
        found_level, words = heading_of(line)
        if found_level and found_level <= level:
            is_inside = found_level == level and words.lower() == heading.lower()
        elif is_inside:
            body.append(line.text)
    return "\n".join(body)


def dedented(lines: Sequence[str]) -> str:
    """Return lines without the indentation they share."""
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins, default=0)
    return "\n".join(line[margin:].rstrip() for line in lines)
