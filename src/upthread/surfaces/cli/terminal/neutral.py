"""Neutral text: what an agent or a file said, made harmless for a terminal and for Markdown.

What is shown of a character is decided in `core/text.py`; here is what a place asks for beside
it: a code span, a fence, a command that can be copied.
"""

from __future__ import annotations

import re

from upthread.core import text as texts

_BACKTICKS = re.compile("`+")

neutral = texts.visible_text
one_line = texts.visible_line
command = texts.command


def code(text: str) -> str:
    """Return the text as an inline code span of Markdown, which it cannot close."""
    flat = one_line(text)
    return texts.code(flat) if flat else "—"


def fenced(text: str, language: str = "text") -> str:
    """Return the text as a fenced block of Markdown, its fence longer than any in the text."""
    ticks = "`" * max(3, _longest_run(text) + 1)
    body = neutral(text)
    return f"{ticks}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
