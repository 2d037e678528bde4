"""A command as a hint suggests it: to be copied into a shell, whatever its words are."""

from __future__ import annotations

from typing import Final

from upthread.core.text.visible import visible_line

WORD_CHARACTERS_MAX: Final = 1024
"""How long a word of a suggested command may be; a path is rarely longer."""


def command(*words: str) -> str:
    """Return a command to be copied: its words quoted for a shell, and nothing acts in them."""
    import shlex  # noqa: PLC0415  # with what it needs itself it costs whoever suggests nothing

    # Made visible first: a quote that is cut off afterwards would leave the line open.
    return shlex.join(visible_line(word, characters_max=WORD_CHARACTERS_MAX) for word in words)
