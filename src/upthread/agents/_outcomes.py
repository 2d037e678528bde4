"""What an agent's figures mean, whichever passes them on: a provider's status, an exit code. Pure.

What an agent's own words and kinds mean, its folder says, by what is said here.
"""

import json
import re

from upthread.agents.base import PromptResult
from upthread.core.names import rows_by_name
from upthread.core.types import Outcome
from upthread.errors import UpstreamError

DETAIL_CHARACTERS_MAX = 2000
"""How much of what an agent said of a failure is kept with it."""


def words_of_error(message: str, data: object) -> str:
    """Return what a JSON-RPC error says: an agent may have its own words in `data` alone."""
    if data is None:
        return message
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return f"{message} {text}".strip()


_SERVER_ERRORS = range(500, 600)
_OF_STATUS = {
    401: Outcome.AUTH,
    402: Outcome.CREDIT_EXHAUSTED,
    403: Outcome.AUTH,
    413: Outcome.CONTEXT_FULL,
    429: Outcome.RATE_LIMITED,
}
# Words refine one of these and say nothing alone: a file may be called that (ADR 67).
_REFUSALS = frozenset({400, 403})
_NO_CREDIT = re.compile(
    r"credit balance is too low|used all available credits|insufficient (credits?|balance|funds)",
    re.IGNORECASE,
)
"""What providers say of an empty account though their status has another name for it."""

NO_CREDIT_OF_LIMIT = (
    r"insufficient.{0,20}(credit|quota|balance|funds)|exceeded your (current )?quota"
    r"|billing|payment required"
)
"""The same, where the status says that there were too many requests: OpenAI answers 429 for an
empty account as well, which no waiting fills. Wider, since what it refines is no fault of words."""

UNPAIRED_CALL = (
    r"`?tool_(result|use|call)[^.]{0,160}(unexpected|without|none match|must be followed)"
    r"|No tool (output|call) found for function call\b"
)
"""What providers say of a history with a call that has no result, or a result without a call. Only
with their word that the request was invalid (status 400) do these words mean that: a file that an
agent reads may hold them (ADR 67)."""

_OF_LIMIT = re.compile(NO_CREDIT_OF_LIMIT, re.IGNORECASE)
_UNPAIRED = re.compile(UNPAIRED_CALL, re.IGNORECASE)
_INVALID_REQUEST = 400
_TOO_MANY_REQUESTS = 429

OF_ERROR_KIND = rows_by_name(
    ("rate_limit", Outcome.RATE_LIMITED),
    ("billing_error", Outcome.CREDIT_EXHAUSTED),
    ("overloaded server_error", Outcome.TRANSIENT),
    ("authentication_failed oauth_org_not_allowed account_on_hold", Outcome.AUTH),
    ("verification_required cloud_credential_error", Outcome.AUTH),
)
"""What Claude Code calls an error (2.1.330), natively and over ACP."""

ENDED_ITSELF_MAX = 128
"""A shell gives a greater one for a command that a signal ended; an agent a negative one, or none,
for one that it did not run."""

_EXIT_CODE = re.compile(r"\s*Exit code (\d{1,3})\b")
"""How Claude Code 2.1 begins what a failed command came to."""


def ended_with(outcome: Outcome, detail: str, *, reset_at_ms: int | None = None) -> PromptResult:
    """Return how a prompt ended, with what is kept of the detail. Only a rate limit has an end."""
    return PromptResult(
        outcome=outcome,
        detail=detail[:DETAIL_CHARACTERS_MAX],
        reset_at_ms=reset_at_ms if outcome is Outcome.RATE_LIMITED else None,
    )


def failed(error: UpstreamError) -> PromptResult:
    """Return the result of a prompt that ended with an error."""
    outcome = Outcome(error.outcome)
    return PromptResult(outcome=outcome, detail=str(error), reset_at_ms=error.reset_at_ms)


def says_no_credit(status: int | None, said: str) -> bool:
    """Whether a provider refused a request, with this status and words, for want of credit."""
    if status == _TOO_MANY_REQUESTS:
        return says_no_credit_of_limit(said)
    return status in _REFUSALS and _NO_CREDIT.search(said) is not None


def says_no_credit_of_limit(said: str) -> bool:
    """Whether what is told as a limit of requests is one that no waiting lifts."""
    return _OF_LIMIT.search(said) is not None


def says_unpaired_call(status: int | None, said: str, *, is_all_it_says: bool = False) -> bool:
    """Whether a provider refused a history in which a call and its result do not belong together.

    The session cannot be gone on with as it is: another one takes its place. `is_all_it_says`:
    `said` begins with the provider's words, and the status is only inferred, so they must be these.
    """
    found = _UNPAIRED.match(said) if is_all_it_says else _UNPAIRED.search(said)
    return status == _INVALID_REQUEST and found is not None


def outcome_of_status(status: int) -> Outcome | None:
    """Return what a status says, None for one that says nothing certain."""
    # 404 and the like are left open: they may be about a model or a path, and not about a session.
    return Outcome.TRANSIENT if status in _SERVER_ERRORS else _OF_STATUS.get(status)


def outcome_of_refusal(status: int, said: str) -> Outcome:
    """Return what a provider's status and words say together: the words only refine the status."""
    if says_no_credit(status, said):
        return Outcome.CREDIT_EXHAUSTED
    if says_unpaired_call(status, said):
        return Outcome.CORRUPTED
    return outcome_of_status(status) or Outcome.UNKNOWN


def did_run(exit_code: object) -> bool:
    """Return whether a command ran and failed by itself: from 1 to ENDED_ITSELF_MAX."""
    # By its very type: JSON's `true` would pass for the exit code 1.
    return type(exit_code) is int and 0 < exit_code <= ENDED_ITSELF_MAX


def exit_code_in(text: str) -> int | None:
    """Return the exit code that a failed command's text begins with, None where it has none."""
    found = _EXIT_CODE.match(text)
    return int(found[1]) if found else None
