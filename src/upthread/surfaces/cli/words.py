"""Words: what happened, in the words a person reads. Text in, text out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from upthread.core import decision_words
from upthread.core.decision_rules import TOKENS_MAX
from upthread.core.price import Tokens
from upthread.core.turn import HELD_BACK, UNDECIDABLE
from upthread.core.types import Conversation, Outcome
from upthread.surfaces.cli.neutral import command, one_line

_OUTCOMES: Final[Mapping[Outcome, tuple[str, str]]] = {
    Outcome.MISSING: ("the agent lost the session during the turn", "tell it again"),
    Outcome.EXPIRED: ("the session has expired", "tell it again"),
    Outcome.BUSY: ("the agent says the session is in use elsewhere", "close it there"),
    Outcome.RATE_LIMITED: ("the agent is rate limited", "wait, or go on with another --agent"),
    Outcome.CREDIT_EXHAUSTED: ("the agent's credit is used up", "add credit, or another --agent"),
    Outcome.CONTEXT_FULL: ("the session's context is full", "start fresh with --fresh"),
    Outcome.AUTH: ("the agent is not signed in", "sign in with the agent's own command"),
    Outcome.CORRUPTED: ("the agent cannot read the session", "tell it again"),
    Outcome.PROCESS_DIED: ("the agent died", "its words are in agent-stderr; tell it again"),
    Outcome.POISONED: ("the session repeats itself", "start fresh with --fresh"),
    Outcome.TIMED_OUT: ("the agent did not answer in time", "raise prompt_timeout_s, or go on"),
    Outcome.CANCELLED: ("the turn was cancelled", "tell it again when you are ready"),
    Outcome.WORKSPACE_CHANGED: ("the working directory has changed", "go back to it"),
    Outcome.TRANSIENT: ("the agent failed for a moment", "tell it again"),
    Outcome.UNKNOWN: ("the agent failed", "its own words are above or in the detail"),
}


_PARKED: Final[Mapping[str, tuple[str, str]]] = {
    "cannot_run": ("a worker could not carry it out", "mend what is said here, then go on"),
    "permission": (
        "it needs a permission",
        'allow it at the terminal, or with KIND = "allow" under [permissions] in upthread.toml',
    ),
    HELD_BACK: (
        "it was about to do again what was done already, or may have been",
        "look whether it was done; whoever lets it go on allows it once more",
    ),
    TOKENS_MAX: (
        "the tokens that were allowed are used up, or the next turn would pass them",
        "allow more with --tokens-max, or go on without it",
    ),
    UNDECIDABLE: (
        "it cannot be told whether the prompt arrived",
        "look at the session with upthread open; going on sends one continuation",
    ),
}


def conversation_name(conversation: Conversation) -> str:
    """`spec-42/planner (Kael-planner)`."""
    return decision_words.conversation_name(conversation.key.address, conversation.instance_name)


def outcome_in_words(outcome: Outcome, *, detail: str, reset_at_ms: int | None) -> tuple[str, str]:
    """Return what went wrong and what to do next."""
    said, hint = _OUTCOMES.get(outcome, (str(outcome), ""))
    if outcome is Outcome.RATE_LIMITED:
        said += f" until {moment(reset_at_ms)}" if reset_at_ms else ", until when it did not say"
    return (f"{said}: {one_line(detail)}" if detail else said), hint


def parked_in_words(reason: str, *, detail: str, reset_at_ms: int | None) -> tuple[str, str]:
    """Return why a turn or a run waits, and what a person can do beside letting it go on."""
    said, hint = _PARKED.get(reason, (reason.replace("_", " "), ""))
    if reason not in set(Outcome):
        return (f"{one_line(said)}: {one_line(detail)}" if detail else one_line(said)), hint
    return outcome_in_words(Outcome(reason), detail=detail, reset_at_ms=reset_at_ms)


def going_on(address: str) -> str:
    """Return what goes on with a turn that is parked."""
    return f"go on with it: {command('upthread', 'tell', address)} --continue"


def spent_line(what: str, total: Tokens, tokens_max: int) -> str:
    """`spec-42: ~41k of at most 50000 tokens`."""
    return f"{what}: {total.in_words} of at most {tokens_max} tokens"


def moment(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def counted(number: int, noun: str) -> str:
    """`1 turn`, `3 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
