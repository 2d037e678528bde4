"""Rollover: what each outcome means for the upstream session and the turn. One table.

The upstream id is a transient handle. Only a positive word that it is gone closes its link; a rate
limit, a crash or a time-out leaves the session as it is. After a failure of its agent a prompt is
recovered at most once.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.types import Outcome


class Recovery(StrEnum):
    """What is done about an outcome. NONE: the turn ends with it."""

    NONE = "none"
    ROLL_OVER = "roll_over"
    WAIT = "wait"
    RETRY_ONCE = "retry_once"
    RELAY = "relay"
    PARK = "park"


class RolloverRow(Struct, frozen=True):
    """One outcome: what is done about it, and how it is said.

    `afterwards` is what is done instead of sending, once the prompt was recovered already.
    """

    recovery: Recovery
    says: str
    afterwards: Recovery = Recovery.NONE

    @property
    def keeps_session(self) -> bool:
        """Whether the session stays; else its link is closed with the outcome as its cause."""
        return self.recovery not in {Recovery.ROLL_OVER, Recovery.RELAY}


ROLLOVER = {
    Outcome.OK: RolloverRow(Recovery.NONE, "it went well"),
    Outcome.MISSING: RolloverRow(Recovery.ROLL_OVER, "the agent no longer has the session"),
    Outcome.EXPIRED: RolloverRow(Recovery.ROLL_OVER, "the session has expired"),
    Outcome.CORRUPTED: RolloverRow(
        Recovery.ROLL_OVER, "the agent cannot read the session any more"
    ),
    Outcome.POISONED: RolloverRow(
        Recovery.ROLL_OVER, "the session answers with an earlier turn, or not at all"
    ),
    Outcome.CONTEXT_FULL: RolloverRow(Recovery.RELAY, "the session's context is full"),
    Outcome.RATE_LIMITED: RolloverRow(Recovery.WAIT, "the agent is rate limited"),
    Outcome.CREDIT_EXHAUSTED: RolloverRow(Recovery.WAIT, "the agent's credit is used up"),
    Outcome.TRANSIENT: RolloverRow(Recovery.RETRY_ONCE, "the agent failed for the moment"),
    Outcome.PROCESS_DIED: RolloverRow(
        Recovery.RETRY_ONCE, "the agent's process died", afterwards=Recovery.PARK
    ),
    Outcome.TIMED_OUT: RolloverRow(Recovery.PARK, "the agent did not answer in time"),
    Outcome.BUSY: RolloverRow(Recovery.PARK, "somebody else is using the session"),
    Outcome.AUTH: RolloverRow(Recovery.PARK, "the agent is not signed in"),
    Outcome.WORKSPACE_CHANGED: RolloverRow(
        Recovery.ROLL_OVER, "the session belongs to another directory"
    ),
    Outcome.CANCELLED: RolloverRow(Recovery.NONE, "the turn was cancelled"),
    Outcome.UNKNOWN: RolloverRow(Recovery.PARK, "the agent failed in a way nobody knows"),
}
"""Every outcome has its row."""

LOST = frozenset(outcome for outcome, row in ROLLOVER.items() if not row.keeps_session)
"""The outcomes after which a conversation goes on in a new upstream session."""

SPOILT = frozenset({Outcome.POISONED, Outcome.CONTEXT_FULL})
"""Those of them after which the session is there and of no use: of any other it may come back."""

SENDS_AGAIN = frozenset({Recovery.ROLL_OVER, Recovery.RELAY, Recovery.RETRY_ONCE})
"""What sends the prompt once more, or a continuation."""


def recovery_of(outcome: Outcome, *, may_send: bool) -> Recovery:
    """Return what is done about how a prompt ended; `may_send` once, for the whole prompt."""
    row = ROLLOVER[outcome]
    # A prompt that fails twice in the same way would else be sent, and paid for, without end.
    if row.recovery in SENDS_AGAIN and not may_send:
        return row.afterwards
    return row.recovery


class PoisonSigns(Struct, frozen=True, kw_only=True):
    """What a turn on a resumed session looked like from outside.

    Times in seconds, tokens as reported; None where the agent did not say. `is_reply_empty` is only
    of a turn that made no call either: what it did would be done twice.
    """

    was_interrupted: bool
    prompt_characters: int
    duration_s: float
    tokens_in: int | None = None
    tokens_out: int | None = None
    is_reply_empty: bool = False


class PoisonRow(Struct, frozen=True, kw_only=True):
    """One detector. It needs the figures it names; without them it says nothing."""

    name: str
    is_on: bool
    tokens_in_max: int | None = None
    duration_s_max: float | None = None
    prompt_characters_min: int = 1
    needs_interruption: bool = False
    needs_output: bool = False
    needs_empty_reply: bool = False


POISON_DETECTORS = (
    PoisonRow(
        name="interrupt_replay",
        is_on=True,
        tokens_in_max=20,
        prompt_characters_min=51,
        # A model that reads next to nothing of a long prompt answers something else: the turn
        # before.
        needs_interruption=True,
    ),
    PoisonRow(
        name="deferred_replay",
        is_on=True,
        tokens_in_max=20,
        duration_s_max=0.05,
        needs_output=True,
    ),
    PoisonRow(name="empty_reply", is_on=False, needs_empty_reply=True),
)
"""Thresholds seen in practice. An empty reply is legal in ACP, so that one is off by default."""


def detectors_with(*, empty_reply: bool) -> tuple[PoisonRow, ...]:
    """Return the detectors with the one for empty replies switched as a person says."""
    return tuple(
        # Only that one is a person's to switch: the others fire on figures no sound turn has.
        replace(row, is_on=empty_reply) if row.needs_empty_reply else row
        for row in POISON_DETECTORS
    )


def poison(
    signs: PoisonSigns, *, detectors: tuple[PoisonRow, ...] = POISON_DETECTORS
) -> str | None:
    """Return the name of the first detector that fires, None for a sound turn."""
    for row in detectors:
        if row.is_on and _fires(row, signs):
            return row.name
    return None


def _fires(row: PoisonRow, signs: PoisonSigns) -> bool:
    conditions = (
        not row.needs_interruption or signs.was_interrupted,
        not row.needs_empty_reply or signs.is_reply_empty,
        not row.needs_output or bool(signs.tokens_out),
        signs.prompt_characters >= row.prompt_characters_min,
        # A detector needs its figure: an agent that tells no
        # tokens would else look like one that read none.
        row.tokens_in_max is None
        or (signs.tokens_in is not None and signs.tokens_in <= row.tokens_in_max),
        row.duration_s_max is None or signs.duration_s < row.duration_s_max,
    )
    return all(conditions)


_TEMPORARY = (
    r"(?i)\b(?:sign|log)(?:g?ed|ging)?.?in\b|auth(?!or\b|ors\b)|credential|api.?key|quota|limit|credit"
    r"|billing|overload|time.?out|timed out|tempor|unavailable|\b(?:re)?try|network"
    r"|\b(?:re|dis)?connect|socket|econn|enotfound|eai_|fetch|gateway|server error|memory"
    r"|certificate|balance|spend|budget|\btoken|demand|capacity|outage|incident|upstream"
    r"|disabled|suspended|deactivated"
    r"|\b(?:no|disk|free|enough|insufficient|out of|storage) space\b|\bspace (?:left|available)\b"
    r"|enospc|too many|emfile|eacces|permission|read-only|maintenance|loading"
)
"""What a refusal may speak of that a person or a moment mends. A new session meets it, too."""

_NOT_OF_SESSION = (
    r"(?i)too many requests|overloaded|quota.{0,12}(?:exceeded|reached|exhausted)"
    r"|insufficient.quota|exceeded your .{0,20}quota"
    r"|rate.?limit(?:ed\b|s?.{0,12}(?:exceeded|reached|hit))"
    r"|(?:hit|reached|exceeded) (?:the|your) .{0,40}(?:limit|cap)\b|out of credits?\b"
    r"|(?:usage|spending|hour|weekly|daily|monthly) (?:limit|cap)|temporarily unavailable"
    r"|\b(?:billing|invoice|unpaid|overdue|payment|revoked|single sign-?on|maintenance)\b"
    r"|\bsubscri(?:be\b|ption)|\btrial\b.{0,12}\b(?:end|expire|over)|\bupgrade (?:to|your)\b"
    r"|\btop up\b|\byour plan\b|\bslow down\b|\btoo fast\b|\bcooling down\b"
    r"|\b(?:allotment|allowance|budget)\b.{0,16}\b(?:consumed|used up|exhausted|spent|exceeded)\b"
    r"|\b(?:consumed|used up|exhausted|spent|exceeded|over|out of)\b.{0,24}\b(?:allotment|allowance"
    r"|budget)\b|\b(?:high|heavy|peak|increased|unusual) (?:demand|load|traffic|usage|volume)\b"
    r"|\b(?:at|over|out of|no|insufficient) capacity\b|\boutage\b"
    r"|\b(?:access|account|user|seat|licen[cs]e)\b.{0,24}\b(?:disabled|suspended|deactivated|blocked"
    r"|banned)\b|\b(?:disabled|suspended|deactivated|blocked|banned)\b.{0,12}\b(?:access|account)\b"
    r"|\b(?:your|access|auth\w*|bearer|refresh|api|id) token\b|/(?:login|auth|upgrade)\b"
    r"|credit balance|insufficient (?:credits?|funds|balance)|payment required"
    r"|(?:sign|log)[ -]?in (?:again|first)|please (?:sign|log)[ -]?in|not (?:sign|logg)ed[ -]in"
    r"|(?:api.?key|credentials?|login).{0,12}(?:invalid|expired|revoked|missing|rejected)"
    r"|(?:invalid|expired|revoked|missing|incorrect) (?:api.?key|credentials?|login)"
    r"|authentication (?:failed|required|error)|unauthori[sz]ed"
    r"|\b(?:api error|http|status)(?: code)?[ :=]{1,3}(?:401|402|403|429)\b"
)
"""Phrases of sign-in, limits, credit and overload. Unlike a word, hardly a name holds one.

An adapter may have no more than the provider's status: what follows it is in any language.
"""

_IN_USE = (
    r"(?i)(?:\b|_)busy\b|\block(?:ed|s)?\b|\bin use\b|being used\b|open (?:in|else)"
    r"|already (?:open|attached|active|running|processing|prompting|being|has an? )"
    r"|(?:in progress|under way|active|running|ongoing|pending) (?:prompt|turn|request|run)\b"
    r"|(?:prompt|turn|request|run)\b.{0,12} (?:in progress|under way|active|running|ongoing)\b"
    r"|(?:an)?other (?:process|client|window|editor|terminal|instance|host|prompt|turn)\b"
    r"|still (?:processing|running|working|generating|prompting)|wait for completion"
)
_FOR_GOOD = r"(?i)for good|for ?ever|permanent|archived|read.?only"
"""With such words, "locked" speaks of no other user of the session."""

_STOPPING = (
    r"(?i)\bsig(?:term|int|kill|hup)\b|\b(?:stopp|restart|drain)ing\b|being stopped|shutting down"
    r"|(?:^|: )\W{0,3}(?:terminated|killed)\W{0,3}$"
    r"|\b(?:process|agent|server|worker|child) (?:was |is )?(?:being )?(?:terminated|killed)\b"
    r"|\b(?:terminated|killed) by (?:an? |the )?"
    r"(?:signal|system|supervisor|user|operator|kernel|oom)"
)
"""A record that is "not terminated" was stopped by nobody."""
_STOPPED = r" was ended by signal (?:1|2|15) during "
"""How we say that somebody stopped the agent: SIGHUP, SIGINT or SIGTERM. A crash is none."""

_NUMBERED = r"[^\s;,()]*\d[^\s;,()]*"
"""A word with a figure in it. A refusal may have the id of a request, which is new each time."""

REFUSALS_MAX = 3
"""Refusals in a row with which a session is given up, whatever passing fault they may speak of."""


NOT_STARTED = "the agent was not started"
_NOT_STARTED = (
    NOT_STARTED,
    *("the command ", " initialize", " before it listened", " where it listens"),
)


def says_not_started(words: str) -> bool:
    """Return whether an error of ours says that the agent did not come to any session.

    For example "the command 'codex' was not found on PATH outside of the working tree".
    """
    ours = words.partition(":")[0]
    return any(each in ours for each in _NOT_STARTED)


_OURS = r"^.{1,300}? refused \S+(?: for session \S+)?: "
"""What stands before the agent's words. It has the agent's name, which may be `locked`."""

STDERR_END = "its stderr ends with: "
"""What comes before the last words of an agent, which are long and come from anywhere."""

_PATH = r"""(?:(?<=[\s"'(=])|^)(?:~|\.{1,2})?/(?!(?:login|auth|upgrade)\b(?!/))[^\s"')]+"""
"""A path, whose names say nothing of a fault: /home/tryggve, /srv/billing/a.json; not `/login`."""

_ADDED = ("; ", " (")
"""What follows the agent's words where ours were added to them."""


def is_in_use(words: str) -> bool:
    """Return whether a refusal speaks of somebody else who works in the session."""
    theirs = _theirs(words)
    return bool(re.search(_IN_USE, theirs)) and not re.search(_FOR_GOOD, theirs)


def is_stopping(words: str) -> bool:
    """Return whether a refusal speaks of somebody who stops the agent."""
    return bool(re.search(_STOPPING, words))


def is_refused_for_good(
    before: Sequence[str], now: str, *, stderr: str = "", is_slow: bool = False
) -> bool:
    """Return whether a session that refuses again with the words `now` is given up.

    `before` are the words of the refusals in a row before it, the newest first; the newest may
    begin with `now`. Two are enough if their words are the same except for words with a figure, and
    speak of nothing that may pass. No session is given up for words of somebody else who works in
    it, or who stops the agent, nor for a phrase of sign-in, a limit, credit or overload, and such a
    refusal does not count. Of three, only the words or only the passing fault may be another one:
    an id need not have a figure, and a name may look like a fault. The words of an agent that died
    are on its `stderr`. With `is_slow` it did not answer in time, which may pass.
    """
    counted = [words for words in before if _is_of_session(words)]
    if not counted or not _is_of_session(now, stderr):
        return False
    older, newer = (re.sub(_NUMBERED, "", words) for words in (counted[0], now))
    rest = older.removeprefix(newer)
    is_same = older.startswith(newer) and (not rest or rest.startswith(_ADDED))
    may_pass = is_slow or bool(re.search(_TEMPORARY, _theirs(now, stderr)))
    needed = REFUSALS_MAX if may_pass or not is_same else REFUSALS_MAX - 1
    return len(counted) + 1 >= needed and (is_same or not may_pass)


def _is_of_session(words: str, stderr: str = "") -> bool:
    """Return whether a refusal may be about the session, and not about who else uses or stops it.

    Nor about sign-in, a limit, credit or overload.
    """
    told = _theirs(words, stderr)
    is_stopped = is_stopping(told) or re.search(_STOPPED, words)
    return not (is_in_use(told) or is_stopped or re.search(_NOT_OF_SESSION, told))


def _theirs(words: str, stderr: str = "") -> str:
    """Return the agent's own words of a refusal.

    Where it answers, its stderr is no part of them: others write there, too, and at each start.
    """
    said, is_answer = re.subn(_OURS, "", words)
    theirs = stderr or (said.partition(f" ({STDERR_END}")[0] if is_answer else said)
    return re.sub(_PATH, "", theirs)
