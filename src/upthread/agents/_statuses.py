"""What a provider's HTTP status means, where an agent passes it on. Pure."""

from __future__ import annotations

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


def outcome_of_status(status: int) -> Outcome | None:
    """Return what a status says, None for one that says nothing certain."""
    return Outcome.TRANSIENT if status in _SERVER_ERRORS else _OF_STATUS.get(status)
