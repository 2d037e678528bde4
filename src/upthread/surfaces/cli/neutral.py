"""Neutral text: what an agent or a file said, made harmless for a terminal and for Markdown.

Nothing is removed: a character that could act is shown as its escape. Exact text is in `--json`.
"""

from __future__ import annotations

import re

from upthread.core import markdown

CODE_CHARACTERS_MAX = 300

# Control characters but \n and \t; the marks that turn the direction of text around
# (trojansource.codes); line separators of Unicode; halves of surrogate pairs.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
_BACKTICKS = re.compile("`+")


def neutral(text: str) -> str:
    """Return the text with every character that acts on a terminal shown as its escape."""
    return _ACTING.sub(lambda found: _escape(found[0]), text)


def one_line(text: str, *, characters_max: int = CODE_CHARACTERS_MAX) -> str:
    """Return the text neutral, on one line, and cut."""
    flat = " ".join(neutral(text).split())
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


def code(text: str) -> str:
    """Return the text as an inline code span of Markdown, which it cannot close."""
    flat = one_line(text)
    return markdown.code(flat) if flat else "—"


def fenced(text: str, language: str = "text") -> str:
    """Return the text as a fenced block of Markdown, its fence longer than any in the text."""
    ticks = "`" * max(3, _longest_run(text) + 1)
    body = neutral(text)
    return f"{ticks}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _escape(character: str) -> str:
    number = ord(character)
    if character == "\r":
        return "\\r"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
