"""The handshake: how to attach to a conversation, and why, decided before anything is spent.

One table of rules in order of priority; the first that applies decides, the others that apply are
told as further reasons. Pure: the runtime gathers the inputs and carries the decision out.
Whatever is decided is shown to the person who asked: never silently fresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from upthread.core.rollover import LOST, ROLLOVER
from upthread.core.types import ConversationId, Decision, Outcome

Continuity: TypeAlias = Literal["resume", "fresh", "auto"]

FIRST: Final = "first"
RESUME: Final = "resume"
RESUME_WITH_UPDATE: Final = "resume_with_update"
RESUME_WITH_REPLAY: Final = "resume_with_replay"
START_FRESH: Final = "start_fresh_with_briefing"
REFUSE: Final = "refuse"

DECISIONS: Final[dict[str, tuple[str, str]]] = {
    FIRST: ("new", "role, task"),
    RESUME: ("the current one", "none"),
    RESUME_WITH_UPDATE: ("the current one", "which files changed, new instructions"),
    RESUME_WITH_REPLAY: ("new (rollover)", "prior context, effects"),
    START_FRESH: ("new", "briefing only"),
    REFUSE: ("none", "reason and cure"),
}
"""Each decision with the upstream session it uses and the context it gives."""

CALLER_DEPTH_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeInputs:
    """All that a decision rests on; stored with it.

    `callers` are the conversations inside which this call is made, outermost first.
    `current_agent` is None when no upstream session is open. `session_lost` is the outcome for
    which this turn gave its session up, None while it has not. `condition_before` and
    `condition_now` are digests for `resume_if`, None where the role has no such condition or has
    not run yet.
    """

    conversation_id: ConversationId
    agent: str
    continuity: Continuity
    turns: int = 0
    current_agent: str | None = None
    holder: str | None = None
    was_interrupted: bool = False
    is_fresh_asked: bool = False
    callers: tuple[ConversationId, ...] = ()
    depth_max: int = CALLER_DEPTH_MAX
    session_lost: Outcome | None = None
    condition_before: str | None = None
    condition_now: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row: when it applies, the decision it leads to, and the words for a person."""

    reason: str
    decision: str
    applies: Callable[[HandshakeInputs], bool]
    says: str
    hint: str = ""


def _is_first(inputs: HandshakeInputs) -> bool:
    has_none = inputs.turns == 0 and inputs.current_agent is None
    return has_none and inputs.session_lost not in LOST


def _condition_changed(inputs: HandshakeInputs) -> bool:
    return inputs.condition_before is not None and inputs.condition_before != inputs.condition_now


def _lost_for(outcome: Outcome) -> Rule:
    return Rule(
        reason=outcome,
        decision=RESUME_WITH_REPLAY,
        applies=lambda inputs: inputs.session_lost is outcome,
        says=ROLLOVER[outcome].says,
    )


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        reason="own_or_ancestor",
        decision=REFUSE,
        applies=lambda i: i.conversation_id in i.callers,
        says="the call comes from inside this very conversation",
        hint="an agent cannot delegate to itself or to one that waits for it: ask another role",
    ),
    Rule(
        reason="depth",
        decision=REFUSE,
        applies=lambda i: len(i.callers) >= i.depth_max,
        says="delegations are nested too deeply",
        hint="raise depth_max in upthread.toml if this is wanted",
    ),
    Rule(
        reason="busy",
        decision=REFUSE,
        applies=lambda i: i.holder is not None,
        says="another turn of this conversation is running",
        hint="wait for it with --wait, or open a sibling with --sibling",
    ),
    Rule(
        reason="none_yet",
        decision=FIRST,
        applies=_is_first,
        says="no session yet",
    ),
    Rule(
        reason="asked",
        decision=START_FRESH,
        applies=lambda i: i.is_fresh_asked,
        says="a fresh session was asked for",
    ),
    Rule(
        reason="policy",
        decision=START_FRESH,
        applies=lambda i: i.continuity == "fresh",
        says="the role starts fresh every time",
    ),
    Rule(
        reason="input_changed",
        decision=START_FRESH,
        applies=_condition_changed,
        says="what the role judged last time has changed",
    ),
    *map(_lost_for, sorted(LOST)),
    Rule(
        reason="other_agent",
        decision=RESUME_WITH_REPLAY,
        applies=lambda i: i.current_agent is not None and i.current_agent != i.agent,
        says="the session belongs to another agent",
    ),
    Rule(
        reason="no_session",
        decision=RESUME_WITH_REPLAY,
        applies=lambda i: i.current_agent is None,
        says="the last session has ended",
    ),
    Rule(
        reason="interrupted",
        decision=RESUME,
        applies=lambda i: i.was_interrupted,
        says="the last turn was cut off; the session has what it did",
    ),
    Rule(
        reason="unchanged",
        decision=RESUME,
        applies=lambda _: True,
        says="nothing stands against it",
    ),
)
"""In order of priority. The docs' table is generated from here."""

_BY_REASON: Final = {rule.reason: rule for rule in RULES}


def decide(inputs: HandshakeInputs) -> Decision:
    """Return the decision, its reasons (the deciding one first) and its inputs."""
    applying = [rule for rule in RULES if rule.applies(inputs)]
    deciding = applying[0]
    also = [rule.reason for rule in applying[1:] if rule.decision == deciding.decision]
    return Decision(
        decision=deciding.decision,
        reasons=(deciding.reason, *also),
        hint=deciding.hint,
        inputs=asdict(inputs),
    )


def in_words(reason: str) -> str:
    """Return the sentence a person reads for a reason code; unknown codes stand for themselves."""
    rule = _BY_REASON.get(reason)
    return rule.says if rule else reason.replace("_", " ")
