"""Regular expressions whose time is linear in the text, whatever the expression: RE2.

Rules may come from a repository and text from anybody, so no expression may be able to backtrack.
RE2 also looks for all rules in one pass. Its syntax has no look-around and no back references:
https://github.com/google/re2/wiki/Syntax. Text is bytes, and an expression sees bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import re2

from upthread.errors import ConfigError

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
        # The first group where there is one: the context beside a secret is to stay.
        self._group = min(self._compiled.groups, 1)

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield where it matches, left to right: its first group where it has one."""
        for match in self._compiled.finditer(text):
            span = match.span(self._group)
            # A group that took no part in the match is at -1.
            yield span if span[0] >= 0 else match.span()

    def is_whole(self, text: bytes) -> bool:
        """Return whether it matches the whole text."""
        return self._compiled.fullmatch(text) is not None


class ExpressionSet:
    """Many expressions, looked for in one pass. They must be valid."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._set = re2.Set.SearchSet(_options())
        for pattern in patterns:
            self._set.Add(pattern.encode("utf-8", "surrogatepass"))
        self._set.Compile()

    def found_in(self, text: bytes) -> list[int]:
        """Return the places, in the sequence given, of the expressions that match somewhere."""
        return self._set.Match(text) or []


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
