"""Regular expressions whose time is linear in the text, whatever the expression: RE2.

Rules may come from a repository and text from anybody, so no expression may be able to backtrack.
RE2 also looks for all rules in one pass. Its syntax has no look-around and no back references:
https://github.com/google/re2/wiki/Syntax. Text is bytes, and an expression sees bytes.

It sees colours as well. `grep --color`, highlighters and test runners write `ESC [ 1 m` before,
behind and within what they paint, and JSON and source code write the ESC as an escape: to an
expression that is a part of the word. So rules look at a painted text twice: as it is, and without
its colours.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import re2
from msgspec import Struct

from upthread.errors import ConfigError

SET_CHARACTERS_MAX: Final = 2200
"""Characters of the expressions in one automaton, because their states multiply.

On code, fewer and larger automata take longer; on plain text, more and smaller ones do.
"""

REACH_BYTES: Final = 500
"""How far from the word that it needs a rule may match, whole lines not counted."""

AUTOMATON_BYTES_MAX: Final = 16 * 1024 * 1024
"""What one automaton may hold; RE2 throws its states away and goes on when it is full."""


class Expression:
    """One expression. ConfigError, with what is wrong, for one RE2 does not take."""

    def __init__(self, pattern: str) -> None:
        encoded = pattern.encode("utf-8", "surrogatepass")
        try:
            self._compiled = re2.compile(encoded, options=_options())
        except re2.error as error:
            raise ConfigError(
                f"{pattern!r} is not an expression of RE2: {_words(error)}",
                hint="see https://github.com/google/re2/wiki/Syntax",
            ) from error
        self._groups = range(1, self._compiled.groups + 1)

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield where it matches, left to right: the first group that took part, else the whole.

        The context beside a secret is to stay, so rules have groups, one for each notation.
        """
        for match in self._compiled.finditer(text):
            yield next(
                (span for span in map(match.span, self._groups) if span[0] >= 0), match.span()
            )

    def is_in(self, text: bytes) -> bool:
        """Return whether it matches somewhere in the text."""
        return self._compiled.search(text) is not None

    def is_whole(self, text: bytes) -> bool:
        """Return whether it matches the whole text."""
        return self._compiled.fullmatch(text) is not None


class ExpressionSet:
    """Many expressions, looked for in a few passes. They must be valid."""

    def __init__(self, patterns: Sequence[str], needs: Sequence[str] = ()) -> None:
        """`needs` has an expression for each pattern, without which the pattern matches nowhere."""
        self._needs = {need: Expression(need) for need in ("", *needs)}
        self._sets: list[tuple[str, list[int], Callable[[], re2.Set]]] = []
        for need in self._needs:
            places = [at for at in range(len(patterns)) if (needs[at] if needs else "") == need]
            for some in _split(places, patterns):
                # Compiled at first use: most texts hold what few of the sets need.
                compiled = functools.cache(partial(_set_of, [patterns[at] for at in some]))
                self._sets.append((need, some, compiled))

    def found_in(self, text: bytes) -> list[int]:
        """Return the places, in the sequence given, of the expressions that match somewhere."""
        near = {need: _near(needed, text) if need else text for need, needed in self._needs.items()}
        return sorted(
            places[place]
            for need, places, compiled in self._sets
            if near[need]
            for place in compiled().Match(near[need]) or ()
        )


def _near(needed: Expression, text: bytes) -> bytes:
    """Return the lines of a text with a need, and the lines that a rule may reach from there."""
    lines: list[bytes] = []
    end = 0
    for start, stop in needed.spans(text):
        if stop + REACH_BYTES > end:
            begin = text.rfind(b"\n", 0, max(0, start - REACH_BYTES)) + 1
            lines.append(b"\n" if begin > end else b"")
            begin = max(begin, end)
            end = text.find(b"\n", stop + REACH_BYTES)
            end = end if end >= 0 else len(text)
            lines.append(text[begin:end])
    return b"".join(lines)


def _split(places: Sequence[int], patterns: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places in runs for one automaton each."""
    some: list[int] = []
    for place in places:
        if some and sum(len(patterns[at]) for at in (*some, place)) > SET_CHARACTERS_MAX:
            yield some
            some = []
        some.append(place)
    if some:
        yield some


def _set_of(patterns: Sequence[str]) -> re2.Set:
    expressions = re2.Set.SearchSet(_options())
    for pattern in patterns:
        expressions.Add(pattern.encode("utf-8", "surrogatepass"))
    expressions.Compile()
    return expressions


def _options() -> re2.Options:
    options = re2.Options()
    # A byte is a character: text that is no UTF-8 is redacted as well.
    options.encoding = re2.Options.Encoding.LATIN1
    # It would write the expression to stderr; the error that is raised has it.
    options.log_errors = False
    options.max_mem = AUTOMATON_BYTES_MAX
    return options


def _words(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


# --- a text without what paints it ----------------------------------------------------------------


_ESCAPE: Final = b"\x1b"
_BACKSLASH: Final = b"\\"
_WRITTEN_ESCAPES: Final = (b"u001b", b"u001B", b"x1b", b"x1B", b"033[", b"\\e[")
"""Without an escape, or a backslash before one of these, nothing is painted. Most texts have
neither byte, and are looked through for these two alone: each text that is kept comes here."""

_COLOUR: Final = r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))(?:\[[0-9;:?]{0,32}[A-Za-z]|\(B)"
"""A control sequence: a colour, the end of one, `erase the line`, which grep writes behind each."""


class Unpainted(Struct, frozen=True, kw_only=True):
    """A text without its colours: `text`, and where each piece of it stands there and stood."""

    text: bytes
    starts: tuple[int, ...]
    stood: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the text stood, from its first byte to its last."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, place: int) -> int:
        piece = bisect_right(self.starts, place) - 1
        return self.stood[piece] + place - self.starts[piece]


def unpainted(content: bytes) -> Unpainted | None:
    """Return a text without its colours, None where it has none."""
    if _ESCAPE not in content and not _has_written_escape(content):
        return None
    pieces: list[bytes] = []
    starts: list[int] = []
    stood: list[int] = []
    end = length = 0
    for start, behind in (*_colour().spans(content), (len(content), len(content))):
        if end < start:
            pieces.append(content[end:start])
            starts.append(length)
            stood.append(end)
            length += start - end
        end = behind
    # An escape that paints nothing, as in `\\e[0`: one look is enough.
    if length == len(content):
        return None
    return Unpainted(text=b"".join(pieces), starts=tuple(starts), stood=tuple(stood))


def _has_written_escape(content: bytes) -> bool:
    return _BACKSLASH in content and any(each in content for each in _WRITTEN_ESCAPES)


@functools.cache
def _colour() -> Expression:
    return Expression(_COLOUR)
