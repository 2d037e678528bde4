"""Stops: why a turn or a run does not go on by itself, and what a person can do, in plain words.

One table for outcomes of agents, one for what upthread parks for. No time is in these words: when a
limit ends is dressed where the reader's clock is known (surfaces/cli/times.py). What an agent said
of it is not in them either: that is somebody else's text, and is shown as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from upthread.core.decision_rules import TOKENS_MAX
from upthread.core.turn import HELD_BACK, UNDECIDABLE
from upthread.core.types import Outcome

NOTHING_SAID: Final = "the agent answered nothing"
"""The detail of a turn that ended well, as its agent says, without a word and without a call."""

NO_WORDS: Final = "the agent worked, and answered nothing"
"""The detail of one that has calls and no word: legal, and told."""

REFUSAL: Final = "refusal: "
"""How the detail of a turn begins whose agent, or its model, declined to go on."""

LIMITS: Final = frozenset({Outcome.RATE_LIMITED, Outcome.CREDIT_EXHAUSTED})
"""Outcomes that pass with time: the session is well, and the agent answers again after them."""

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

_NO_ANSWER: Final = "ask in other words, or another --agent"


def stop_in_words(reason: str) -> tuple[str, str]:
    """Return why it stopped and what a person can do; an unknown reason stands for itself."""
    if reason in _PARKED:
        return _PARKED[reason]
    if reason in set(Outcome):
        return _OUTCOMES.get(Outcome(reason), (reason, ""))
    return reason.replace("_", " "), ""


def shortfall(outcome: Outcome, detail: str) -> tuple[str, str, str] | None:
    """Return why a turn that ended well has no answer, the agent's words and a cure, else None."""
    if outcome is not Outcome.OK:
        return None
    if detail == NOTHING_SAID:
        return NOTHING_SAID, "", _NO_ANSWER
    if detail.startswith(REFUSAL):
        return "the agent declined to go on", detail.removeprefix(REFUSAL), _NO_ANSWER
    return None
