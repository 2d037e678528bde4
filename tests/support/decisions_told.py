"""Which decisions a text tells, by the words of `core.decision.words` and no others.

Whoever tests that a role was resumed asks for the decision, and not for today's word for it.
"""

import re
from collections.abc import Iterator

from upthread.core.decision.words import (
    FIRST,
    NOT_RESUMED,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    done_in_words,
)

_DECISIONS = (
    FIRST,
    RESUME,
    RESUME_WITH_UPDATE,
    RESUME_WITH_REPLAY,
    START_FRESH,
    REFUSE,
)
_SESSION = "SESSION"
_NONE = ""
"""What stands for words that have those of a decision in them, and tell none."""


def _forms() -> Iterator[tuple[str, str]]:
    """Yield each wording of a decision, as a pattern, with the decision."""
    for decision in _DECISIONS:
        yield re.escape(done_in_words(decision, None)), decision
        named = re.escape(done_in_words(decision, _SESSION))
        yield named.replace(_SESSION, r"\S+"), decision
    for words in (NOT_RESUMED,):
        yield re.escape(words.partition("{")[0].strip()), _NONE


# The longest first: the words of one decision begin with those of another.
_BY_FORM = sorted(_forms(), key=lambda each: len(each[0]), reverse=True)
_ANY = re.compile("|".join(rf"\b({form})(?!\w)" for form, _ in _BY_FORM))


def decisions_told(text: str | bytes) -> list[str]:
    """Return the decisions that a text tells, in its order; of whatever session."""
    plain = text.decode() if isinstance(text, bytes) else text
    found = (_BY_FORM[(each.lastindex or 1) - 1][1] for each in _ANY.finditer(plain))
    return [decision for decision in found if decision != _NONE]
