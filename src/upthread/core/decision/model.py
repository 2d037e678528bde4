"""The decisions there are, and all that one rests on. Values only.

How they follow from each other is core/decision/rules.py, in order of priority; the handshake
(core/decision/handshake.py) applies the rules. `recorded_inputs` is the one place where a
conversation's own rows become inputs: for a turn that begins, for `why`, and for what is published
to hooks. What is around it (files, git, price) is added by the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, convert, to_builtins

from upthread.core.decision.freshness import NOTHING_KNOWN, Freshness, Surroundings
from upthread.core.decision.words import (
    FIRST,
    NOTHING_PRICED,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    Price,
    Spending,
)
from upthread.core.types import (
    Continuity,
    ConversationId,
    JsonObject,
    JsonValue,
    Link,
    Outcome,
    ready,
)

if TYPE_CHECKING:
    from upthread.core.turns.turn import TurnView

Member = TypeVar("Member")


DECISIONS = {
    FIRST: ("new", "role, task"),
    RESUME: ("the current one", "none"),
    RESUME_WITH_UPDATE: ("the current one", "which files changed, new instructions"),
    RESUME_WITH_REPLAY: ("new (rollover)", "prior context, effects"),
    START_FRESH: ("new", "briefing only"),
    REFUSE: ("none", "reason and cure"),
}
"""Each decision with the upstream session it uses and the one context it gives."""

CALLER_DEPTH_MAX = 3
FILES_CHANGED_MAX = 5
WINDOW_SHARE_MAX = 0.7
RELAYS_MAX = 3


class Limits(Struct, frozen=True, kw_only=True):
    """Thresholds of the rules, as configured; None where a rule is off.

    More examined files changed than `files_changed_max`, and the session is too far from what is
    there. At `window_share_max` of its window a session is relayed to a fresh one, at most
    `relays_max` times in a row. `brief_if_times_cheaper` counts only while the cache is cold.
    """

    files_changed_max: int = FILES_CHANGED_MAX
    window_share_max: float = WINDOW_SHARE_MAX
    relays_max: int = RELAYS_MAX
    resume_tokens_max: int | None = None
    brief_if_times_cheaper: float | None = None


USUAL_LIMITS = Limits()


class AgentLimit(Struct, frozen=True, kw_only=True):
    """A limit of the agent's that stopped the last turn and, as far as is known, still lasts.

    `reason` is the outcome that named it; `until_ms` None where the agent did not say how long.
    """

    reason: Outcome
    until_ms: int | None = None

    def lasts(self, now_ms: int) -> bool:
        """Whether it lasts still: until its time, or for want of one until the agent is asked."""
        return self.until_ms is None or now_ms < self.until_ms


class HandshakeInputs(Struct, frozen=True, kw_only=True):
    """All that a decision rests on; stored with it.

    `turns` counts the conversation's turns so far, over all of its sessions: what is to follow from
    the length of one session needs a count of its own. `callers` are the conversations inside which
    this call is made, outermost first. `current_agent` is None when no upstream session is open;
    `other_host` is where it lives, None when that is here, as far as is known, and `other_profile`
    the variable with the place that its agent has it in, empty for the one in use. `holder` and
    `tree_holder` say who has the conversation, and the working tree that the role would write to,
    None where nobody is in the way. `was_unheard` is whether the last turn stopped
    before its session got the prompt. `session_lost` is the outcome for which this turn gave its
    session up, None while it has not. `is_refused` is whether the turn gave its session up because
    the agent refused it. `condition_before` and `condition_now` are digests for `resume_if`, None
    where the role has no such condition or has not run yet. `opens_only_within` is whether the
    session is a sub-agent's, which its agent opens only inside of the main session that it was
    started in; `attaches_none` whether the agent said that it can open none again.
    `relays` counts the links at the chain's end that were opened because the one before was nearly
    full. `spending` is None where nothing limits it. `surroundings` are those the session would go
    on in, None where none is open. `agent_limit` is None where none is known to last.
    `turns_lacking` is how many turns the agent's session has that the record lacked, None for none;
    `not_compared` is why nobody can tell. `turns_gone` names the turns that the record has and the
    session lacks. `is_session_empty`: the agent's own store has the session, and no prompt in it.
    """

    conversation_id: ConversationId
    agent: str
    continuity: Continuity
    turns: int = 0
    current_agent: str | None = None
    other_host: str | None = None
    other_profile: str = ""
    holder: str | None = None
    tree_holder: str | None = None
    was_interrupted: bool = False
    was_unheard: bool = False
    is_session_empty: bool = False
    is_fresh_asked: bool = False
    callers: tuple[ConversationId, ...] = ()
    depth_max: int = CALLER_DEPTH_MAX
    session_lost: Outcome | None = None
    is_refused: bool = False
    takes_no_session: bool = False
    opens_only_within: bool = False
    attaches_none: bool = False
    condition_before: str | None = None
    condition_now: str | None = None
    relays: int = 0
    freshness: Freshness = NOTHING_KNOWN
    surroundings: Surroundings | None = None
    price: Price = NOTHING_PRICED
    agent_limit: AgentLimit | None = None
    turns_lacking: int | None = None
    not_compared: str = ""
    turns_gone: str = ""
    limits: Limits = USUAL_LIMITS
    spending: Spending | None = None


def freshness_in(stored: JsonValue) -> Freshness:
    """Return what had changed, of a decision's stored inputs; nothing where they do not say."""
    return _member(stored, "freshness", Freshness) or NOTHING_KNOWN


def has_looked(stored: JsonValue) -> bool:
    """Return whether what is around the session was looked at, of a decision's stored inputs."""
    return isinstance(stored, Mapping) and "surroundings" in stored


def price_in(stored: JsonValue) -> Price:
    """Return what each way would cost, of a decision's stored inputs."""
    return _member(stored, "price", Price) or NOTHING_PRICED


def limit_in(stored: JsonValue) -> AgentLimit | None:
    """Return the agent's limit, of a decision's stored inputs; None where they name none."""
    return _member(stored, "agent_limit", AgentLimit)


def _member(stored: JsonValue, name: str, cls: type[Member]) -> Member | None:
    found = stored.get(name) if isinstance(stored, Mapping) else None
    return convert(found, ready(cls)) if isinstance(found, Mapping) else None


def lacking_in(stored: JsonValue) -> tuple[int, str, str]:
    """Return how many turns the record lacked, of a decision's stored inputs, and two texts.

    The first says why the number is not known, the second which turns the session lacked. 0 and
    empty where nothing lacked, or nobody looked.
    """
    known: JsonObject = stored if isinstance(stored, Mapping) else {}
    turns, *texts = (known.get(name) for name in ("turns_lacking", "not_compared", "turns_gone"))
    fault, gone = (text if isinstance(text, str) else "" for text in texts)
    return turns if isinstance(turns, int) else 0, fault, gone


def worth_keeping(inputs: HandshakeInputs) -> JsonObject:
    """Return inputs as they are stored: what is left out is nothing, or nothing is known of it."""
    members: dict[str, JsonValue] = to_builtins(inputs)
    return _something({name: _inner(value) for name, value in members.items()})


def _inner(value: JsonValue) -> JsonValue:
    return _something(value) if isinstance(value, Mapping) else value


def _something(members: JsonObject) -> JsonObject:
    return {
        name: value
        for name, value in members.items()
        # 0 stays: a count that is known to be none.
        if value is not None and value is not False and value not in ("", (), [], {})
    }


def inputs_from(stored: Mapping[str, Any]) -> HandshakeInputs:
    """Return inputs as `worth_keeping` stored them: what was left out is nothing, or not known.

    `freshness` and `surroundings` are left out, since whoever reads looks for itself.
    """
    members = {name: each for name, each in stored.items() if name not in _LOOKED_AT_ANEW}
    return convert({"conversation_id": "", "agent": "", **members}, ready(HandshakeInputs))


_LOOKED_AT_ANEW = frozenset({"freshness", "surroundings"})


class Rule(Struct, frozen=True):
    """One row: when it applies, the decision it leads to, and the words for a person.

    One that `is_always_told` is a further reason of whatever was decided instead, but a refusal.
    With one that `is_about_files`, those that changed are named.
    """

    reason: str
    decision: str
    applies: Callable[[HandshakeInputs], bool]
    says: str
    hint: str = ""
    is_always_told: bool = False
    is_about_files: bool = False


# --- what the record says of a conversation -------------------------------------------------------


def recorded_inputs(
    conversation_id: ConversationId, link: Link | None, last: TurnView | None, **known: Any
) -> HandshakeInputs:
    """Return the inputs that the record's own rows say, with what else is `known`.

    `link` is the conversation's open one, `last` its newest turn.
    """
    intended = last.intended if last else None
    return HandshakeInputs(
        conversation_id=conversation_id,
        current_agent=link.agent if link else None,
        was_interrupted=last is not None and last.was_cut_off,
        was_unheard=last is not None and last.was_unheard,
        condition_before=intended.condition if intended else None,
        **known,
    )
