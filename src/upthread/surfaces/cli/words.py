"""Words: what happened, in the words a person reads. Text in, text out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from upthread.core.handshake import (
    FIRST,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    in_words,
)
from upthread.core.price import Price, Tokens
from upthread.core.states import Standing, go_on_command
from upthread.core.stops import shortfall, stop_in_words
from upthread.core.types import Conversation, Outcome
from upthread.runtime.delegation import TurnStarted
from upthread.surfaces.cli.neutral import one_line
from upthread.surfaces.cli.times import until

_DONE: Final[Mapping[str, str]] = {
    FIRST: "STARTED {session}",
    RESUME: "RESUMED {session}",
    RESUME_WITH_UPDATE: "RESUMED {session} with an update",
    RESUME_WITH_REPLAY: "ROLLED OVER to {session} with replay",
    START_FRESH: "STARTED FRESH {session} with a briefing",
    REFUSE: "REFUSED",
}

_RECOGNISED: Final[Mapping[str, str]] = {
    "complete": "the turn was cut off; its reply was complete and is taken over",
    "incomplete": "the turn was cut off; it goes on from there",
    "absent": "the turn was cut off before its prompt arrived; it is sent again",
    "undecidable": "the turn was cut off; what became of its prompt cannot be told",
}

TOLD_FROM_TOKENS: Final = 2_000
"""A session that holds less is cheap either way, and the line stays short."""

_FOLLOWING: Final = frozenset({"unchanged", "no_session"})
"""Reasons that say nothing more once another one stands before them."""


def conversation_name(conversation: Conversation) -> str:
    """`spec-42/planner (Kael-planner)`."""
    return f"{conversation.key.address} ({conversation.instance_name})"


def started_line(started: TurnStarted) -> str:
    """The one line that says which decision was taken, and why when it is not the plain one."""
    decision = RESUME if started.recognition else started.decision
    done = decision_in_words(decision, started.upstream_session_id)
    number = f" · {ordinal(started.turn_number)} turn" if started.turn_number > 1 else ""
    why = _RECOGNISED.get(started.recognition) or _why(decision, started.reasons)
    because = f": {why}" if why else ""
    price = price_in_words(started.price) if _is_worth_telling(started.price) else ""
    cost = f" ({price})" if price else ""
    return f"{conversation_name(started.conversation)}: {done}{number}{because}{cost}"


def price_in_words(price: Price) -> str:
    """`41k tokens to resume, cache cold; ~2k to brief`; empty where nothing is known."""
    if price.resume is None or price.briefing is None:
        return ""
    cache = "" if price.cache == "unknown" else f", cache {price.cache}"
    return f"{price.resume.in_words} tokens to resume{cache}; {price.briefing.in_words} to brief"


def _is_worth_telling(price: Price) -> bool:
    return price.resume is not None and price.resume.count >= TOLD_FROM_TOKENS


def _why(decision: str, reasons: tuple[str, ...]) -> str:
    if decision == FIRST or (decision == RESUME and reasons == ("unchanged",)):
        return ""
    return reasons_in_words(reasons)


def reasons_in_words(reasons: tuple[str, ...]) -> str:
    """Return reason codes as sentences, the deciding one first."""
    telling = [reason for reason in reasons[1:] if reason not in _FOLLOWING]
    return "; ".join(one_line(in_words(reason)) for reason in (*reasons[:1], *telling))


def decision_in_words(decision: str, session: str | None) -> str:
    """`RESUMED ses_…`; without a session where there is none."""
    known = _DONE.get(decision)
    if known is None:
        return one_line(decision)
    return " ".join(known.format(session=one_line(session or "")).split())


def intention_in_words(decision: str, session: str | None) -> str:
    """What would be done now: `resume ses_…`."""
    session = one_line(session or "")
    return {
        FIRST: "start a first session",
        RESUME: f"resume {session}",
        RESUME_WITH_UPDATE: f"resume {session} with an update",
        RESUME_WITH_REPLAY: "roll over to a new session with replay",
        START_FRESH: "start a fresh session with a briefing",
        REFUSE: "refuse",
    }.get(decision, decision)


def outcome_in_words(outcome: Outcome, *, detail: str, reset_at_ms: int | None) -> tuple[str, str]:
    """Return what went wrong and what to do next."""
    missing = shortfall(outcome, detail)
    if missing is not None:
        said, detail, hint = missing
        return _why_in_words(said, detail=detail, until_ms=None), hint
    return parked_in_words(outcome, detail=detail, reset_at_ms=reset_at_ms)


def parked_in_words(reason: str, *, detail: str, reset_at_ms: int | None) -> tuple[str, str]:
    """Return why a turn or a run waits, and what a person can do beside letting it go on."""
    said, hint = stop_in_words(reason)
    if reason == Outcome.RATE_LIMITED and reset_at_ms is None:
        said += ", until when it did not say"
    return _why_in_words(said, detail=detail, until_ms=reset_at_ms), hint


def standing_in_words(standing: Standing) -> str:
    """Return why something stands as it does, and until when."""
    return _why_in_words(standing.reason, detail=standing.detail, until_ms=standing.until_ms)


def _why_in_words(said: str, *, detail: str, until_ms: int | None) -> str:
    limit = f" {until(until_ms)}" if until_ms is not None else ""
    return f"{one_line(said)}{limit}" + (f": {one_line(detail)}" if detail else "")


def going_on(address: str) -> str:
    """Return what goes on with a turn that is parked."""
    return f"go on with it: {go_on_command(address)}"


def spent_line(what: str, total: Tokens, tokens_max: int) -> str:
    """`spec-42: ~41k of at most 50000 tokens`."""
    return f"{what}: {total.in_words} of at most {tokens_max} tokens"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def moment(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def counted(number: int, noun: str) -> str:
    """`1 turn`, `3 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
