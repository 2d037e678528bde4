"""The notation of the rules in contexts.py and configuration.py: words and expressions, as text.

A rule stands on a line of its own, below the family of its secret and the check of the value:

    url-password, is_real:
        # PostgreSQL's, for example `postgres://app:VALUE@db`
        {SCHEME}:([^/]+)@
            {HOST}

A deeper line continues the one above it. `{NAME}` is a word of the table, which a line such as
`NAME = expression` defines. A blank outside of brackets is a blank or a tab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

Check: TypeAlias = Callable[[bytes], bool]
"""Whether a value can be a secret."""

RULE_INDENT: Final = 4

_WORD: Final = re.compile(r"\{([A-Z_]+)\}")
_LABELLED: Final = re.compile(r"(?:^|[^|])\{(?:WORD|STRONG|PASSWORD|FLAG|ENVIRONMENT)\}(?:[^|]|$)")
"""A rule that no text without such a word can match; other rules have it as an alternative."""

_BLANK: Final = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|( )")
"""A blank, or what a blank would be within: an escape or a bracket."""


class Context(NamedTuple):
    """A rule of a table. The first group of the expression that matches is the secret.

    `needs` is an expression that every text with such a secret matches, "" where there is none.
    """

    family: str
    pattern: str
    check: Check
    needs: str


class Table(NamedTuple):
    """What a table of rules defines: its words, by name, and its rules."""

    words: dict[str, str]
    contexts: tuple[Context, ...]


def read_table(text: str, checks: Mapping[str, Check]) -> Table:
    """Return the words and the rules of a table."""
    words = {"NEED": ""}
    contexts: list[Context] = []
    family = check = ""
    for line in _whole_lines(text):
        if line.startswith(" "):
            pattern = _expanded(line.strip(), words)
            needs = words["LABEL" if _LABELLED.search(line) else "NEED"]
            contexts.append(Context(family, pattern, checks[check], needs))
        elif line.endswith(":"):
            family, _, check = line[:-1].partition(", ")
        else:
            name, _, expression = line.partition(" = ")
            words[name] = _expanded(expression, words)
    return Table(words, tuple(contexts))


def read_forms(text: str) -> tuple[tuple[str, str], ...]:
    """Return family and expression of each line, for example `npm-token npm_[a-z]{36}`."""
    forms = (line.strip().partition(" ") for line in _whole_lines(text))
    return tuple((family, pattern) for family, _, pattern in forms)


def _whole_lines(text: str) -> list[str]:
    """Return the lines without comments, each with the deeper lines that continue it."""
    lines: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if len(line) - len(bare) > RULE_INDENT:
            lines[-1] += bare
        else:
            lines.append(line)
    return lines


def _expanded(expression: str, words: Mapping[str, str]) -> str:
    with_blanks = _BLANK.sub(lambda found: found[1] or r"[ \t]", expression)
    return _WORD.sub(lambda found: words[found[1]], with_blanks)
