"""What a provider's HTTP status means, where an agent passes it on. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from upthread.core.types import Outcome

_SERVER_ERRORS: Final = range(500, 600)
_OF_STATUS: Final[Mapping[int, Outcome]] = {
    401: Outcome.AUTH,
    402: Outcome.CREDIT_EXHAUSTED,
    403: Outcome.AUTH,
    413: Outcome.CONTEXT_FULL,
    429: Outcome.RATE_LIMITED,
}
# Words refine one of these and say nothing alone: a file may be called that (ADR 67).
_REFUSALS: Final = frozenset({400, 403})
_NO_CREDIT: Final = re.compile(
    r"credit balance is too low|used all available credits|insufficient (credits?|balance|funds)",
    re.IGNORECASE,
)
"""What providers say of an empty account though their status has another name for it."""


def says_no_credit(status: int | None, said: str) -> bool:
    """Whether a provider refused a request, with this status and words, for want of credit."""
    return status in _REFUSALS and _NO_CREDIT.search(said) is not None


def outcome_of_status(status: int) -> Outcome | None:
    """Return what a status says, None for one that says nothing certain."""
    # 404 and the like are left open: they may be about a model or a path, and not about a session.
    return Outcome.TRANSIENT if status in _SERVER_ERRORS else _OF_STATUS.get(status)
