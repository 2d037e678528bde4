"""Line wrap: where lines end on a terminal, so that none of them begins with somebody else's words.

A terminal that wraps by itself puts the rest at its left edge, where it looks like a line of ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from upthread.core.text import MARKS_MAX, escaped, is_mark

INDENT: Final = "    "
"""What the rest of a line that is too long begins with."""

COLUMNS_MIN: Final = 20
"""A terminal that is narrower wraps as it likes: nothing can be read there anyway."""

TAB: Final = "    "
"""A tabulator's width depends on where it stands; this does not."""


def width(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(map(width_of, text))


def width_of(character: str) -> int:
    """Return how many columns a character takes."""
    if is_mark(character) or character in "\u200c\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def breaks(text: str, columns: int) -> Iterator[int]:
    """Yield where a line is broken, as indexes into it; after a space where one is near."""
    used, space = 0, 0
    begun = 0
    for index, character in enumerate(text):
        used += width_of(character)
        if used > columns:
            # A word longer than the line is cut: left whole,
            # the terminal would cut it, without our indent.
            place = space if space > begun else index
            # A character wider than all that is left must not be broken before for ever.
            if place > begun:
                yield place
                begun = place
                used = len(INDENT) + width(text[place : index + 1])
        if character == " " and text[begun:index].strip():
            space = index + 1


class Gutter:
    """A reply as it comes, each line of it behind a mark that is ours.

    `columns` None: the lines are as long as they are, where no terminal would wrap them.
    """

    def __init__(self, mark: str, columns: int | None) -> None:
        self._mark = mark
        self._columns = None if columns is None else max(columns - width(mark), COLUMNS_MIN)
        self._used = 0
        self._marks = 0
        self._is_at_start = True
        self._word = ""

    def feed(self, text: str) -> str:
        """Return what is to be written for a piece; its last word may wait for its end."""
        if self._columns is None:
            return "".join(map(self._put, text))
        told: list[str] = []
        for character in text.replace("\t", TAB):
            if character in " \n":
                told.append(self._flushed() + self._put(character))
            else:
                self._word += character
                # Written before it ends: a word without end
                # would be kept in memory and never be seen.
                if width(self._word) >= self._columns:
                    told.append(self._flushed())
        return "".join(told)

    def end(self) -> str:
        """Return what ends the line that is open; empty when none is."""
        last = self._flushed()
        return last + ("" if self._is_at_start else self._put("\n"))

    def _flushed(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        is_too_long = self._columns is not None and self._used + width(word) > self._columns
        head = self._put("\n") if is_too_long and self._used else ""
        return head + "".join(map(self._put, word))

    def _put(self, character: str) -> str:
        if character == "\n":
            head = self._mark.rstrip() if self._is_at_start else ""
            self._used, self._marks, self._is_at_start = 0, 0, True
            return head + "\n"
        self._marks = self._marks + 1 if is_mark(character) else 0
        # Marks take no column of their own: piled up they would cover the lines around.
        shown = character if self._marks <= MARKS_MAX else escaped(character)
        head = ""
        if self._columns is not None and self._used + width(shown) > self._columns:
            head = self._put("\n")
        if self._is_at_start:
            head += self._mark
            self._is_at_start = False
        self._used += width(shown)
        return head + shown
