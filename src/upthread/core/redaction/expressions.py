r"""Regular expressions whose time is linear in the text, whatever the expression: RE2.

Rules may come from a repository and text from anybody, so no expression may be able to backtrack.
RE2 also looks for all rules in one pass. Its syntax has no look-around and no back references:
https://github.com/google/re2/wiki/Syntax. Text is bytes, and an expression sees bytes.

It sees colours and escapes as well. `grep --color`, highlighters and test runners write `ESC [ 1 m`
before, behind and within what they paint. PHP writes a slash in JSON as `\/`, Go an ampersand as
`\u0026`, HTML as `&amp;`, a URL as `%26`. To an expression that is a part of the word. So rules
look at such a text twice: as it is, and as it is read.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate

import re2
from msgspec import Struct

from upthread.errors import ConfigError

SET_CHARACTERS_MAX = 4000
"""Characters of the expressions in one automaton, because their states multiply.

On code, fewer and larger automata take longer; on plain text, more and smaller ones do.
"""

REACH_BYTES = 500
"""How far from the word that it needs a rule may match, whole lines not counted."""

AUTOMATON_BYTES_MAX = 16 * 1024 * 1024
"""What one automaton may hold; RE2 throws its states away and goes on when it is full."""

HEXADECIMAL_DIGITS = 2

_MANY = re.compile(r"\{\d\d+,?\d*\}")
_RANGE = re.compile(r"\{(\d),\d+\}")
"""Repetitions of which a rough expression counts fewer, because RE2 compiles each of them."""


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
        self._needs = {need: Expression(need) for need in dict.fromkeys(("", *needs))}
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
    """Return the lines of a text with a need, and the lines that a rule may reach from there.

    A text with many needs is returned whole.
    """
    lines: list[bytes] = []
    end = 0
    for number, (start, stop) in enumerate(needed.spans(text)):
        if number > len(text) // REACH_BYTES:
            return text
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


def roughly(pattern: str) -> str:
    """Return an expression that matches wherever a pattern does, and compiles in half the time.

    For example `[a-f]{10,}` for `[a-f]{32}`. No class of the pattern may hold a number in braces.
    """
    return _RANGE.sub(r"{\1,}", _MANY.sub("{10,}", pattern))


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


# --- what a text means, to who reads it -----------------------------------------------------------


_MARKS = (b"\\", b"\x1b", b"%", b"&")
"""Without one of these bytes nothing is escaped. Most texts have none: each one that is kept comes
here."""

_COLOUR = r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))(?:\[[0-9;:?]{0,32}[A-Za-z]|\(B)"
"""A control sequence: a colour, the end of one, `erase the line`, which grep writes behind each."""

_OTHER = (
    r"\\{1,8}(?:u00|x)[2-7][0-9a-fA-F]",  # JSON of Go and Gson, and strings of programs
    r"\\{1,8}[/_*.+=!#~:@$&-]",  # JSON of PHP, Markdown, .properties
    r"&(?:amp|quot|apos|lt|gt|#[3-9][0-9]|#1[01][0-9]|#[xX][2-7][0-9a-fA-F]);",
    "%[2-7][0-9a-fA-F]",
)
_ENTITIES = {b"amp": b"&", b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">"}


class AsRead(Struct, frozen=True, kw_only=True):
    r"""A text as it is read, for example `a=b` for `a\u003db`, and where its pieces stood.

    Piece n begins at `starts[n]` in the text and stood at `stood[n]`. It is one escape, which ended
    at `ends[n]`, or for an end of 0 a piece without any.
    """

    text: bytes
    starts: tuple[int, ...]
    stood: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the text stood, from its first byte to its last."""
        first, last = self._piece(start), self._piece(end - 1)
        into, ends = 0 if self.ends[first] else start - self.starts[first], self.ends[last]
        return self.stood[first] + into, ends or self.stood[last] + end - self.starts[last]

    def _piece(self, place: int) -> int:
        return bisect_right(self.starts, place) - 1


def as_read(content: bytes) -> AsRead | None:
    """Return a text without colours, each escape as what it means; None where it has none."""
    if not any(mark in content for mark in _MARKS):
        return None
    pieces: list[tuple[bytes, int, int]] = []
    end = 0
    for start, behind in _escape().spans(content):
        pieces += ((content[end:start], end, 0), (_meaning(content[start:behind]), start, behind))
        end = behind
    if not pieces:
        return None
    pieces.append((content[end:], end, 0))
    kept = [piece for piece in pieces if piece[0]]
    starts = accumulate((len(text) for text, _, _ in kept), initial=0)
    return AsRead(
        text=b"".join(text for text, _, _ in kept),
        starts=tuple(starts)[: len(kept)],
        stood=tuple(stood for _, stood, _ in kept),
        ends=tuple(ends for _, _, ends in kept),
    )


def _meaning(escape: bytes) -> bytes:
    """Return the byte that an escape stands for, nothing for a colour."""
    if escape.startswith(b"%"):
        return bytes.fromhex(escape[1:].decode())
    if escape.startswith(b"&"):
        name = escape[1:-1]
        number = name.removeprefix(b"#")
        if name == number:
            return _ENTITIES[name]
        return bytes([int(number[1:], 16) if number[:1] in b"xX" else int(number)])
    bare = escape.lstrip(b"\\")
    digits = bare.removeprefix(b"u00") if bare.startswith(b"u") else bare.removeprefix(b"x")
    if digits != bare:
        # The others are a written ESC, with the rest of a colour.
        return bytes.fromhex(digits.decode()) if len(digits) == HEXADECIMAL_DIGITS else b""
    return bare if len(bare) == 1 else b""


@functools.cache
def _escape() -> Expression:
    return Expression("|".join((_COLOUR, *_OTHER)))
