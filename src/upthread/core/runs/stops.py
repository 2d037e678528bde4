"""Stops and endings: why a turn or a run does not go on by itself, and how a turn has finished.

One table for what agents' turns come to and for what upthread parks for: in plain words, with what
a person can do. No time is in these words: when a limit ends is dressed where the reader's clock is
known (surfaces/cli/terminal/phrases.py). Nor is what an agent said of it: that is somebody else's
text, and is shown as such. A state says what somebody has to do; an ending says what became of the
last prompt, whatever came after it.
"""

import re

import msgspec
from msgspec import Struct

from upthread.core.decision.rollover import is_in_use
from upthread.core.decision.words import OTHER_PROFILE, TOKENS_MAX
from upthread.core.events import TurnEnded
from upthread.core.roles.reports import Report
from upthread.core.turns.turn import HELD_BACK, SENDS_MAX, UNDECIDABLE, Recognition, TurnView
from upthread.core.types import Outcome, ready

NOTHING_SAID = "the agent answered nothing"
"""The detail of a turn that ended well, as its agent says, without a word and without a call."""

NO_WORDS = "the agent worked, and answered nothing"
"""The detail of one that has calls and no word: legal, and told."""

ASKED_NOBODY = "it asked a question that nobody was there to answer: "
"""Begins the detail of a turn that ended well, as its agent says, in place of a reply."""

REFUSAL = "refusal: "
"""How the detail of a turn begins whose agent, or its model, declined to go on."""

LIMITS = frozenset({Outcome.RATE_LIMITED, Outcome.CREDIT_EXHAUSTED})
"""Outcomes that pass with time: the session is well, and the agent answers again after them."""


NOT_ANSWERED = "did not answer"
"""What is said of an agent that was waited for in vain while it started or opened a session."""

CUT_OFF = f"{SENDS_MAX} attempts were cut off before there was a reply"
"""The detail of a turn of a durable step whose attempts did not all send a prompt."""

NO_ANSWER_WITHIN = "no answer within"
"""How the detail of a prompt begins that was waited for in vain."""


class Stop(Struct, frozen=True, kw_only=True):
    """Why something does not go on by itself, and what a person can do.

    `said` is ours, `detail` somebody else's words as they are; `cure` is empty where nothing helps.
    """

    said: str
    detail: str = ""
    cure: str = ""


class Source(Struct, frozen=True, kw_only=True):
    """Who started the agent of a turn: what helps depends on it.

    `is_persons_own` is an agent that a person started themselves, in which hooks saw the turn.
    `last_words` is the file that has what an agent of ours wrote to stderr, empty for none.
    """

    is_persons_own: bool = False
    last_words: str = ""


OURS = Source()
"""An agent that upthread started, and that wrote nothing to stderr."""

NEW_REFUSED = "; a new session was refused, too: "
"""What stands between an agent's words of its session and of the new one that was asked for."""

_CURE_OF_USE = (
    "if something else uses the session, close it there; else tell it with --fresh, which begins a "
    "new session"
)
_UNALLOWED = re.compile(r" \(([a-z_]+)\): nobody was there to allow it$")
NOT_OFFERED = "of the answers that its agent offers none allows it once: "
"""What stands before the kinds of the answers. `allow_always` is one that a rule never gives."""
_CURE_OF_NOT_OFFERED = "allow it in the agent's own settings"
_ELSE = "if it goes on so, try --fresh or another --agent"
_ELSE_OF_TEXT = (
    f"{_ELSE}; if a text in the conversation is what is refused, upthread reset begins without it"
)

_STOPS = {
    Outcome.OK: ("it ended well", ""),
    Outcome.MISSING: ("the agent lost the session during the turn", "tell it again"),
    Outcome.EXPIRED: ("the session has expired", "tell it again"),
    Outcome.BUSY: ("the agent says the session is in use elsewhere", _CURE_OF_USE),
    Outcome.RATE_LIMITED: ("the agent is rate limited", "wait, or go on with another --agent"),
    Outcome.CREDIT_EXHAUSTED: ("the agent's credit is used up", "add credit, or another --agent"),
    Outcome.CONTEXT_FULL: ("the session's context is full", "start fresh with --fresh"),
    Outcome.AUTH: ("the agent is not signed in", "sign in with the agent's own command"),
    Outcome.CORRUPTED: ("the agent cannot read the session", "tell it again"),
    Outcome.PROCESS_DIED: ("the agent died", f"tell it again; {_ELSE}"),
    Outcome.POISONED: ("the session repeats itself", "start fresh with --fresh"),
    Outcome.TIMED_OUT: (
        "the agent did not answer in time",
        f"raise prompt_timeout_s, or go on; {_ELSE}",
    ),
    Outcome.CANCELLED: ("the turn was cancelled", "tell it again when you are ready"),
    Outcome.WORKSPACE_CHANGED: ("the working directory has changed", "go back to it"),
    Outcome.TRANSIENT: ("the agent failed for a moment", f"tell it again; {_ELSE}"),
    Outcome.UNKNOWN: (
        "the agent failed",
        f"mend what it says, if it says why, and tell it again; {_ELSE_OF_TEXT}",
    ),
    "blocked": ("it says that it is blocked", "give it what it lacks, then go on"),
    "no_report": (
        "it handed back no report that can be read",
        "look at its reply; going on asks for the report once more",
    ),
    "asked_in_vain": (
        "it asks again what was answered already",
        "look at its reply and at the answers; going on asks it once more",
    ),
    "too_many_steps": (
        "the run has taken as many steps as one may",
        "look at what it did; begin another run with a specification of its own",
    ),
    "rejected_too_often": (
        "what was built was rejected too often",
        "look at the evidence; going on lets it be built once more",
    ),
    "cannot_run": ("a worker could not carry it out", "mend what is said here, then go on"),
    "permission": (
        "it needs a permission",
        'allow it at the terminal, or with KIND = "allow" under [permissions] in upthread.toml',
    ),
    HELD_BACK: (
        "it could do again what was done already, or may have been",
        "look whether it was done, and say so; then go on",
    ),
    TOKENS_MAX: (
        "the tokens that were allowed are used up, or the next turn would pass them",
        "allow more with --tokens-max, or go on without it",
    ),
    OTHER_PROFILE: (
        "the session is in another profile of the agent",
        "start the agent in that profile again, then go on; or start fresh with --fresh",
    ),
    UNDECIDABLE: (
        "it cannot be told whether the prompt arrived",
        "look at what it did with upthread show; going on sends one continuation",
    ),
}
"""Why, and what helps: each outcome of a turn, and each reason why one or a run is parked."""

_NO_ANSWER = "ask in other words, with --fresh, or another --agent"

_ANSWER = "answer it with the next prompt"

_CURE_OF_START = "run it by hand to see why; if it needs longer, raise start_timeout_s"
_CURE_OF_SESSION = (
    "tell it with --fresh to begin a new session; if it needs longer, raise start_timeout_s"
)

_LONGER_ATTEMPTS = (
    "give an attempt more time than its turn takes (in Temporal, start_to_close_timeout), or "
    "find what ends its process; then go on"
)
_CUT_OFF_EACH_TIME = (
    "each of its prompts was cut off before the reply was whole",
    f"{_LONGER_ATTEMPTS}, which sends one continuation",
)
"""Of a turn that is parked though its prompts are known: no more of them may leave."""

_AGAIN_THERE = "delegate it again in the agent, or tell it from here"
"""What helps where the agent is the person's own: nothing that upthread keeps has its words."""


def stop_in_words(reason: str, detail: str = "", *, source: Source = OURS) -> Stop:
    """Return why it stopped and what a person can do; an unknown reason stands for itself."""
    missing = shortfall(reason, detail)
    if missing is not None:
        return missing
    said, cure = _STOPS.get(reason, (reason.replace("_", " "), ""))
    is_of_prompt = detail.startswith(NO_ANSWER_WITHIN)
    if reason == Outcome.TIMED_OUT and NOT_ANSWERED in detail and not is_of_prompt:
        is_of_session = " for session " in detail
        cure = _CURE_OF_SESSION if is_of_session else _CURE_OF_START
    if reason == Outcome.UNKNOWN and is_in_use(detail):
        cure = _CURE_OF_USE
    if reason == "permission" and (kind := _UNALLOWED.search(detail)):
        cure = cure.replace("KIND", kind[1])
    if reason == "permission" and NOT_OFFERED in detail:
        is_for_good = "allow_always" in detail.rpartition(NOT_OFFERED)[2]
        at_terminal = ", or at the terminal, where it then holds for good" if is_for_good else ""
        cure = f"{_CURE_OF_NOT_OFFERED}{at_terminal}"
    if detail == CUT_OFF:
        cure = _LONGER_ATTEMPTS
    if reason == UNDECIDABLE and detail.startswith((Recognition.INCOMPLETE, Recognition.ABSENT)):
        said, cure = _CUT_OFF_EACH_TIME
    if reason in _SOURCES_MATTER:
        cure = _cure_from(source, cure)
    return Stop(said=said, detail=detail, cure=cure)


_SOURCES_MATTER = frozenset({Outcome.PROCESS_DIED, Outcome.TIMED_OUT, Outcome.UNKNOWN})
"""Stops after which somebody looks for what the agent said last."""


def _cure_from(source: Source, cure: str) -> str:
    if source.is_persons_own:
        return _AGAIN_THERE
    return f"its last words are in {source.last_words}; {cure}" if source.last_words else cure


def shortfall(outcome: str, detail: str) -> Stop | None:
    """Return why a turn that ended well, as its agent says, has no answer, else None."""
    # Of any other outcome the detail is the agent's text, which could begin like one of ours.
    if outcome != Outcome.OK:
        return None
    if detail == NOTHING_SAID:
        return Stop(said=NOTHING_SAID, cure=_NO_ANSWER)
    if detail.startswith(ASKED_NOBODY):
        asked = detail.removeprefix(ASKED_NOBODY)
        return Stop(said=ASKED_NOBODY[:-2], detail=asked, cure=_ANSWER)
    if detail.startswith(REFUSAL):
        said = "the agent declined to go on"
        return Stop(said=said, detail=detail.removeprefix(REFUSAL), cure=_NO_ANSWER)
    return None


# --- how a turn has finished ----------------------------------------------------------------------


class Ending(Struct, frozen=True, kw_only=True):
    """What became of a turn. `is_finished` is None where there was none, or it is under way."""

    is_finished: bool | None
    how: str


NO_TURN = Ending(is_finished=None, how="no turn yet")
UNDER_WAY = Ending(is_finished=None, how="under way")

_REPORTED = {
    "done": "finished: done",
    "needs_input": "finished: it asks",
    "blocked": "finished: it is blocked",
}


def ending_of(turn: TurnView | None, *, is_held: bool) -> Ending:
    """Return what became of a role's last turn; `is_held` while a living process is at it."""
    # First: a turn that a process is at has no end yet, whatever its last event says.
    if is_held:
        return UNDER_WAY
    if turn is None:
        return NO_TURN
    if turn.ended is not None:
        return _of_end(turn.ended)
    if turn.parked is not None:
        parked = stop_in_words(turn.parked.reason, turn.parked.detail)
        return Ending(is_finished=False, how=f"stopped: {parked.said}")
    return Ending(is_finished=False, how="cut off")


def _of_end(ended: TurnEnded) -> Ending:
    # An end without an answer is none, whatever its agent calls it.
    missing = shortfall(ended.outcome, ended.detail)
    if ended.outcome is not Outcome.OK or missing is not None:
        stop = missing or stop_in_words(ended.outcome, ended.detail)
        return Ending(is_finished=False, how=f"ended: {stop.said}")
    if ended.report is None:
        return Ending(is_finished=True, how="finished")
    report = msgspec.convert(ended.report, ready(Report))
    if report.status == "done" and report.verdict is not None:
        return Ending(is_finished=True, how=f"finished: {report.verdict.result}")
    return Ending(is_finished=True, how=_REPORTED[report.status])
