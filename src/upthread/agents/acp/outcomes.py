"""What an agent's answer means, in the one vocabulary of outcomes. Pure.

The protocol's codes come first, then the agent's own structured data, then its row in `quirks`.
General words only raise a suspicion (`Refusal.is_certain` False): what is left of it is said by
`outcome_of_suspicion`, and else the outcome is `unknown`, with the agent's words for the person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from upthread.agents._json_lines import member
from upthread.agents._outcomes import (
    DETAIL_CHARACTERS_MAX,
    OF_ERROR_KIND,
    outcome_of_status,
    says_no_credit,
    says_unpaired_call,
)
from upthread.agents._prompt import TurnSeen
from upthread.agents.acp.quirks import GENERAL_ERRORS, Quirk
from upthread.agents.acp.wire import INTERNAL_ERROR
from upthread.agents.base import PromptResult
from upthread.core.quotas import RESET_S_MAX
from upthread.core.runs.stops import REFUSAL
from upthread.core.types import Outcome

CODE_AUTH_REQUIRED: Final = -32000
CODE_NOT_FOUND: Final = -32002
CODE_METHOD_NOT_FOUND: Final = -32601

CONTEXT_NEARLY_FULL: Final = 0.9
"""Of the window: below it a reply that was cut off was only long. Models stop short of the edge, by
what is kept free for their answer."""


_OUTCOME_OF_CODE: Final[Mapping[int, Outcome]] = {
    CODE_NOT_FOUND: Outcome.MISSING,
    CODE_AUTH_REQUIRED: Outcome.AUTH,
}
_OUTCOME_OF_KIND: Final[Mapping[str, Outcome]] = {
    # `data.errorKind` of claude-agent-acp 0.100.0 is Claude Code's own kind.
    **OF_ERROR_KIND,
    # Of other agents, and of the rehearsal agent.
    "auth": Outcome.AUTH,
    "auth_required": Outcome.AUTH,
    "credit_exhausted": Outcome.CREDIT_EXHAUSTED,
    "context_full": Outcome.CONTEXT_FULL,
    "prompt_too_long": Outcome.CONTEXT_FULL,
    # The rehearsal agent alone.
    "session_busy": Outcome.BUSY,
    "session_corrupted": Outcome.CORRUPTED,
    "session_expired": Outcome.EXPIRED,
    # `sessionFailure.category` of codex-acp 2.6.0.
    "limit": Outcome.RATE_LIMITED,
}
ABOUT_THE_SESSION: Final = frozenset({Outcome.MISSING, Outcome.EXPIRED})
"""What words may suggest of a session, to be confirmed by the agent's list of them."""

_SESSION_WORDS: Final = re.compile(
    r"session|thread|conversation|transcript|rollout|\bchat\b", re.IGNORECASE
)
_SIGN_IN_WORDS: Final = re.compile(
    r"(?:sign|log)(?:g?ed|ging)?.?(?:in|on)\b|auth(?!or)|credential|api.?key|token|password",
    re.IGNORECASE,
)

_INVALID_REQUEST: Final = "invalid_request"

_STATUS_MEMBERS: Final = ("status", "statusCode", "httpStatusCode")
"""Where agents put the provider's HTTP status, beside the error's code itself."""

_OF_STOP_REASON: Final[Mapping[str, tuple[Outcome, str]]] = {
    "end_turn": (Outcome.OK, ""),
    "cancelled": (Outcome.CANCELLED, ""),
    "refusal": (Outcome.OK, f"{REFUSAL}it ended the turn"),
    # Cut off in the middle, so not ok; the session itself is well.
    "max_turn_requests": (Outcome.UNKNOWN, "max_turn_requests: the agent's own limit cut it off"),
}

_UNIT_S: Final = (("ms", 0.001), ("milli", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0))
"""How many seconds a unit is, by how its name begins; first wins."""
_RETRY_IN: Final = re.compile(
    r"(?:retry|try again)[ -]?(?:after|in)\W{0,3}(\d+(?:\.\d+)?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)?\b",
    re.IGNORECASE,
)


class Refusal(Struct, frozen=True, kw_only=True):
    """An agent's error, understood. `is_certain` False: a suspicion, from words alone."""

    outcome: Outcome
    detail: str
    is_certain: bool
    reset_after_s: float | None = None


def refusal_in(code: int, message: str, data: object, *, quirk: Quirk) -> Refusal:
    """Say what an error answer means."""
    said = f"{message} {_as_text(data)}".strip()
    detail = said if said and code == INTERNAL_ERROR else f"{said} (code {code})"
    outcome, is_certain = _judge(code, data, said, quirk=quirk)
    return Refusal(
        outcome=outcome,
        detail=detail[:DETAIL_CHARACTERS_MAX],
        is_certain=is_certain,
        reset_after_s=_reset_after_s(data, said) if outcome is Outcome.RATE_LIMITED else None,
    )


def _judge(code: int, data: object, said: str, *, quirk: Quirk) -> tuple[Outcome, bool]:
    certain = _by_code(code, data, said)
    if certain is not None:
        return certain, True
    for meaning in (*quirk.errors, *GENERAL_ERRORS):
        if meaning.outcome is not Outcome.UNKNOWN and meaning.matches(said):
            return meaning.outcome, meaning.is_certain
    return Outcome.UNKNOWN, False


def _by_code(code: int, data: object, said: str) -> Outcome | None:
    """Return what the protocol's code, the agent's kind or the provider's status says."""
    if code in _OUTCOME_OF_CODE and not (code == CODE_AUTH_REQUIRED and _is_of_session(said)):
        return _OUTCOME_OF_CODE[code]
    kind, status = member(data, "errorKind"), _status_of(code, data)
    is_refused = kind == _INVALID_REQUEST or status == HTTPStatus.BAD_REQUEST
    refused = HTTPStatus.BAD_REQUEST if is_refused else status
    if says_unpaired_call(refused, said):
        return Outcome.CORRUPTED
    if says_no_credit(refused, said):
        return Outcome.CREDIT_EXHAUSTED
    of_kind = _OUTCOME_OF_KIND.get(kind) if isinstance(kind, str) else None
    return of_kind or outcome_of_status(status)


def _is_of_session(said: str) -> bool:
    """Return whether an error speaks of its session and not of signing in.

    JSON-RPC gives the code that ACP has for `auth_required` to any error of a server.
    """
    said = said.partition('"authMethods"')[0]
    return bool(_SESSION_WORDS.search(said)) and not _SIGN_IN_WORDS.search(said)


def _status_of(code: int, data: object) -> int:
    """Return the provider's HTTP status that an error passes on, 0 for none."""
    told = (code, *(member(data, name) for name in _STATUS_MEMBERS))
    return next((each for each in told if isinstance(each, int) and 400 <= each < 600), 0)


def outcome_of_suspicion(
    suspected: Outcome, *, is_listed: bool | None, is_named: bool = False
) -> Outcome:
    """Return what is left of an outcome that words alone suggest.

    `is_listed` is whether the agent lists the session, None where it cannot be asked; then words
    that name the session are about it. Words end no session that is listed, and make nobody wait or
    sign in. A passing fault stays one: the agent is read back and asked once more, no more.
    """
    is_gone = is_named if is_listed is None else not is_listed
    if suspected in ABOUT_THE_SESSION and is_gone:
        return suspected
    return suspected if suspected is Outcome.TRANSIENT else Outcome.UNKNOWN


def in_agents_words(detail: str) -> str:
    """Return the detail of a suspicion that was not confirmed, for the person to judge."""
    return f"the agent said: {detail}"[:DETAIL_CHARACTERS_MAX]


def result_of(answer: object, seen: TurnSeen, *, quirk: Quirk) -> PromptResult:
    """Say how a prompt ended that was answered. An unknown stop reason is `unknown`, by name."""
    hidden = _hidden_failure(answer, seen, quirk=quirk)
    outcome, detail = hidden or _of_stop_reason(member(answer, "stopReason"), seen)
    return PromptResult(
        outcome=outcome,
        detail=detail,
        tokens_used=_tokens_of_turn(answer, seen),
        tokens_in=_tokens(answer, "inputTokens", "cachedReadTokens", "cachedWriteTokens"),
        tokens_out=_tokens(answer, "outputTokens"),
    )


def _of_stop_reason(reason: object, seen: TurnSeen) -> tuple[Outcome, str]:
    if reason == "max_tokens":
        return _of_max_tokens(seen)
    if not isinstance(reason, str):
        return Outcome.UNKNOWN, "the agent's answer gave no stopReason"
    unknown = Outcome.UNKNOWN, f"the agent stopped for an unknown reason: {reason[:200]}"
    return _OF_STOP_REASON.get(reason, unknown)


def _of_max_tokens(seen: TurnSeen) -> tuple[Outcome, str]:
    """A full window and a long answer share this word; the usage or a reply tells them apart.

    A full window leaves no room for a reply: the next prompt would end without one.
    """
    used, window = seen.tokens_used, seen.tokens_window
    is_cut_off = bool(seen.last_text.strip())
    if used is not None and window:
        is_cut_off = used < CONTEXT_NEARLY_FULL * window
    if is_cut_off:
        return Outcome.OK, "max_tokens: the reply was cut off by the model's output limit"
    return Outcome.CONTEXT_FULL, "max_tokens"


def _hidden_failure(answer: object, seen: TurnSeen, *, quirk: Quirk) -> tuple[Outcome, str] | None:
    """codex-acp 2.6.0 answers `end_turn` to a failed turn and says so only in `_meta`.

    The `title` there has the provider's words.
    """
    failure = member(answer, "_meta", "jetbrains", "air", "sessionFailure")
    category, title = member(failure, "category"), member(failure, "title")
    if isinstance(category, str):
        said = title if isinstance(title, str) else seen.last_text
        detail = f"sessionFailure {category}: {said}"[:DETAIL_CHARACTERS_MAX]
        return _OUTCOME_OF_KIND.get(category, Outcome.UNKNOWN), detail
    if seen.has_system_error or is_system_error(answer):
        outcome, is_certain = _judge(0, None, seen.last_text, quirk=quirk)
        told = f"systemError: {seen.last_text}"[:DETAIL_CHARACTERS_MAX]
        return (outcome, told) if is_certain else (Outcome.UNKNOWN, in_agents_words(told))
    return None


def is_system_error(holder: object) -> bool:
    """Whether an answer's or update's `_meta` says that the turn failed (codex-acp 2.6.0)."""
    status = member(holder, "_meta", "codex", "threadStatus")
    return status == "systemError" or member(status, "type") == "systemError"


def _tokens(answer: object, *names: str) -> int | None:
    """Return the sum of what the answer's usage says; None for nothing, and zero is no figure."""
    told = (member(answer, "usage", name) for name in names)
    return sum(each for each in told if isinstance(each, int)) or None


def _tokens_of_turn(answer: object, seen: TurnSeen) -> int | None:
    total = member(answer, "usage", "totalTokens")
    # opencode 1.18.33 answers a cancelled turn with zeros: that is not a figure.
    return total if isinstance(total, int) and total > 0 else seen.tokens_used


def _as_text(data: object) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


def _reset_after_s(data: object, said: str) -> float | None:
    for name, scale in (("retryAfterSeconds", 1.0), ("retryAfter", 1.0), ("retryAfterMs", 0.001)):
        value = member(data, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _plausible(value * scale)
    found = _RETRY_IN.search(said)
    if found is None:
        return None
    unit = (found[2] or "s").lower()
    scale = next(seconds for beginning, seconds in _UNIT_S if unit.startswith(beginning))
    return _plausible(float(found[1]) * scale)


def _plausible(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= RESET_S_MAX else None
