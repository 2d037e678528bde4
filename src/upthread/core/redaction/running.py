"""Running text: how much of what has come so far can be written down before the rest has come.

A secret may come in pieces. What may yet turn out to be one is held back: the last word, what
follows a word that announces a secret on the last line, a key block that has no end yet. Redacting
the pieces one by one then gives what redacting them whole would have.
"""

from __future__ import annotations

import re
from typing import Final

HELD_CHARACTERS_MAX: Final = 16 * 1024
"""What is held back at most; a longer secret may be cut in two."""

_BEGIN: Final = "-----BEGIN"
_END: Final = re.compile(r"-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----\s")
_ANNOUNCING: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|key|bearer|authorization|curl|login",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(r"\s")


def settled_length(text: str) -> int:
    """Return how many characters of a running text can be written down now, 0 for none.

    Always all but HELD_CHARACTERS_MAX, so that what waits is bounded.
    """
    from_here = max(0, len(text) - HELD_CHARACTERS_MAX)
    end = _open_block(text, from_here)
    line = max(from_here, text.rfind("\n", from_here, end) + 1)
    announced = _ANNOUNCING.search(text, line, end)
    return _back_to_blank(text, announced.start() if announced else end, line)


def _open_block(text: str, from_here: int) -> int:
    """Return where a key block begins that has no end yet, the end of the text without one."""
    begin = text.find(_BEGIN, from_here)
    while begin >= 0:
        closed = _END.search(text, begin)
        if closed is None:
            return begin
        begin = text.find(_BEGIN, closed.end())
    return len(text)


def _back_to_blank(text: str, end: int, from_here: int) -> int:
    """Return where the word begins that goes on at `end`."""
    while end > from_here and not _BLANK.match(text, end - 1):
        end -= 1
    return end
