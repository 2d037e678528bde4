"""Markdown from strangers: what an agent wrote, made fit to stand inside a section of ours.

A prompt is put together from sections under `#` and `##` headings. Text of others keeps its words
and loses what could end its section or begin another: headings sink below ours, underlined headings
lose their line, code fences left open are closed. The store keeps what was said, unchanged.
"""

from __future__ import annotations

import re
from typing import Final

LEVELS_TAKEN: Final = 2
"""`#` and `##` are ours; a heading in somebody's text begins at `###`."""

CUT: Final = "\n[… cut]\n"

_HEADING: Final = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>#{1,6})(?=[ \t]|$)")
_UNDERLINE: Final = re.compile(r"^[ \t]*(?P<mark>=+|-+)[ \t]*$")
_HTML_HEADING: Final = re.compile(r"<(?=/?h[1-6]\b)", re.IGNORECASE)
_BACKTICKS: Final = re.compile(r"`+")
_FENCE: Final = re.compile(r"^ {0,3}(?P<marks>`{3,}|~{3,})(?P<rest>.*)$")


def neutral(text: str) -> str:
    """Return text that cannot pass for a section of ours, without white space at its end.

    Lines inside code fences are treated like all others: which fence is one is not for sure, and a
    comment that sinks from `#` to `###` is still a comment.
    """
    lines = text.rstrip().splitlines()
    told = [
        _lowered(line, after=lines[index - 1] if index else "") for index, line in enumerate(lines)
    ]
    open_fence = _open_fence(told)
    return "\n".join([*told, open_fence] if open_fence else told)


def item(text: str) -> str:
    """Return one list item; its further lines are indented, so that they stay inside it."""
    return "- " + neutral(text.strip()).replace("\n", "\n  ")


def one_line(text: str) -> str:
    """Return text on one line, white space folded."""
    return " ".join(text.split())


def shortened(text: str, characters_max: int) -> str:
    """Return text within so many characters: its beginning and its end, cut between them.

    What is asked stands at the one or at the other, whatever was put between.
    """
    if len(text) <= characters_max:
        return text
    room = max(characters_max - len(CUT), 0)
    end = room // 3
    return text[: room - end] + CUT + text[len(text) - end :]


def code(text: str) -> str:
    """Return text on one line as inline code, whatever backticks it holds (CommonMark 6.1)."""
    line = one_line(text)
    longest = max(map(len, _BACKTICKS.findall(line)), default=0)
    marks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{pad}{line}{pad}{marks}"


def _lowered(line: str, *, after: str) -> str:
    heading = _HEADING.match(line)
    if heading and len(heading["marks"]) <= LEVELS_TAKEN:
        return f"{heading['indent']}{'#' * LEVELS_TAKEN}{line[len(heading['indent']) :]}"
    underline = _UNDERLINE.match(line)
    if underline and after.strip():
        return line.replace(underline["mark"], "\\" + underline["mark"], 1)
    return _HTML_HEADING.sub("&lt;", line)


def _open_fence(lines: list[str]) -> str:
    """Return the fence that closes what was left open, empty when nothing was."""
    opened = ""
    for line in lines:
        found = _FENCE.match(line)
        if found is None:
            continue
        marks = found["marks"]
        if not opened:
            # A backtick in its info string makes it inline code (CommonMark 4.5).
            opened = marks if "~" in marks or "`" not in found["rest"] else ""
        elif marks.startswith(opened) and not found["rest"].strip():
            opened = ""
    return opened
