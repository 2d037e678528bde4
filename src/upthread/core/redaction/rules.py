"""The families of secrets that are known, as data: what each looks like, and what is none.

Three tables make them. `forms` knows secrets by what they are: a vendor's own prefix. `contexts`
knows them by what stands beside them, and then the value itself has to look like one. `key_blocks`
knows private keys, which are the only ones that go over many lines. Expressions are RE2's (see
linear.py); the first group, where there is one, is the secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from upthread.core.redaction.contexts import CONTEXTS, STRONG_WORD, WORD
from upthread.core.redaction.forms import FORMS
from upthread.core.redaction.key_blocks import KEY_BLOCK, KEY_BODY, key_blocks, key_middles
from upthread.core.redaction.values import anything, is_no_example
from upthread.errors import ConfigError

Check: TypeAlias = Callable[[bytes], bool]
Find: TypeAlias = Callable[[bytes], Iterator[tuple[int, int]]]

_FAMILY: Final = re.compile(r"[a-z0-9-]{1,40}")

_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\((?!\?)")
"""A group that is counted, looked for: to compile all expressions for it takes too long."""


class Rule(Struct, frozen=True, kw_only=True):
    """One form of one family. `family` is what the placeholder says: `[a-z0-9-]+`.

    With a `find`, `pattern` only says where it is worth looking, and `find` where they stand.
    """

    family: str
    pattern: str
    check: Check
    find: Find | None = None


def painted(pattern: str) -> str:
    """Return an expression that begins at a word's beginning, also behind a colour or an escape.

    Programs paint what they found by `ESC [ 32 m`, and JSON ends a line by a backslash and an `n`:
    to an expression that letter is part of the word.
    """
    flags, begins, rest = pattern.partition(r"\b")
    if not begins or flags not in {"", "(?i)"}:
        return pattern
    # What is put in front is context: without a group it would be redacted with the secret.
    secret = rest if _GROUP.search(rest) else f"({rest})"
    return rf"{flags}(?:\b|\\[nrt]|\[[0-9;]{{1,12}}m){secret}"


RULES: Final[tuple[Rule, ...]] = (
    *(Rule(family=family, pattern=painted(form), check=is_no_example) for family, form in FORMS),
    Rule(family="private-key", pattern=KEY_BLOCK, check=anything, find=key_blocks),
    Rule(family="private-key", pattern=KEY_BODY, check=anything, find=key_middles),
    *(Rule(family=family, pattern=painted(form), check=check) for family, form, check in CONTEXTS),
)
"""All rules that ship. Where two match at one place, the one that begins first names the family."""


def rules_of(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return rules of the user's own, from the family each finds to its expression.

    ConfigError for a family that no placeholder could name.
    """
    for family in patterns:
        if not _FAMILY.fullmatch(family):
            raise ConfigError(
                f"{family!r} cannot name a family of secrets",
                hint="use 1 to 40 of a-z, 0-9 and - in [redaction.rules]",
            )
    return tuple(
        Rule(family=family, pattern=pattern, check=anything) for family, pattern in patterns.items()
    )


SECRET_NAME: Final = rf"(?i)(?:^|.*[^a-z]|.*[a-z]){WORD}$"
"""A member's name in JSON whose value is a secret when it looks random."""

STRONG_NAME: Final = rf"(?i)(?:^|.*[_.-]){STRONG_WORD}$"
"""A member's name in JSON whose value is a secret unless it is a template or a dummy."""
