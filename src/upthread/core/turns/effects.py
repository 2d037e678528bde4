"""Effects: actions on the world, read from what an agent asked for and what came of it.

A tool call that can change something is an intent when it is asked for and a receipt when its
result is known; without one its outcome is unknown. Effects are listed to whoever goes on, so that
they are not repeated; in a recovery turn, an outward one that was done or may have been is held
back where we are asked. A local `pytest` is simply run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from upthread.core import types
from upthread.core.outward.actions import Action
from upthread.core.outward.calls import actions_of_call

# Believed only where no command is seen: a kind is the agent's word.
KINDS_WITHOUT_EFFECT: Final = frozenset({"read", "search", "think", "fetch"})
"""ACP's kinds of tools that leave the world as it was; any other one may change it."""

_GOING_ON: Final = (types.TextPart, types.ReasoningPart, types.ToolCallPart)
"""What an agent says once it has seen how a call ended."""

TITLE_CHARACTERS_MAX: Final = 200
"""As in `core.quotas`, which a look does not load."""

OUTCOME_UNKNOWN: Final = "outcome unknown"

INTENT: Final = "intent"
"""The kind of the note that keeps an action which was asked for after its call was recorded."""


class EffectState(StrEnum):
    """What is known of an effect."""

    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


UNKNOWN: Final = frozenset({EffectState.UNKNOWN, EffectState.INTENT})
"""The states of what may have been done, or not."""

DOUBTFUL: Final = UNKNOWN | {EffectState.DONE}
"""The states of what must not be done once more while what was cut off is gone on with."""

_STATE_OF_STATUS: Final[Mapping[str, EffectState]] = {
    "completed": EffectState.DONE,
    "failed": EffectState.FAILED,
}


class Settlement(StrEnum):
    """What a person said of an action whose outcome nobody knew, once they had looked.

    After `again` its outcome is still not known, and nothing stands in the way of doing it again.
    """

    DONE = "done"
    NOT_DONE = "not-done"
    AGAIN = "again"


class Effect(Struct, frozen=True, kw_only=True):
    """One call that may change something. `actions` is what it does beyond this machine.

    `was_asked` is whether the agent asked before it acted, so that the intent was kept first;
    otherwise the action was observed when it was announced. `settled` is what a person said of it,
    None where nobody did; `state` is then what it is since.
    """

    seq: int
    call_id: str
    tool_kind: str
    title: str
    state: EffectState
    actions: tuple[Action, ...] = ()
    was_asked: bool = False
    settled: Settlement | None = None

    @property
    def is_in_doubt(self) -> bool:
        """Whether it may have reached beyond this machine, and nobody has looked."""
        return self.is_outward and self.state in UNKNOWN and self.settled is None

    @property
    def is_outward(self) -> bool:
        """Whether it reaches beyond this machine."""
        return bool(self.actions)

    @property
    def in_words(self) -> str:
        """One line for a briefing: `git push origin main: done`."""
        return self.with_outcome(str(self.state))

    @property
    def title_in_words(self) -> str:
        """The title on one line."""
        return " ".join(self.title.split())[:TITLE_CHARACTERS_MAX]

    def with_outcome(self, status: str) -> str:
        """Return the line with what somebody else knows came of it, where we do not."""
        known = status if self.state in UNKNOWN else str(self.state)
        return f"{self.title_in_words}: {OUTCOME_UNKNOWN if known in UNKNOWN else known}"


def effects_of(
    messages: Sequence[types.Message], *, outward_patterns: Sequence[str] = ()
) -> tuple[Effect, ...]:
    """Return the effects in messages, in order; a call without a result is an intent.

    A call that failed before anybody went on from it is of unknown outcome: a kill or a person
    ends the command first, and the agent lives to call that a failure (Codex 0.169 keeps `aborted
    by user`). One that the agent saw fail has failed.
    """
    calls: dict[str, Effect] = {}
    answers: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            answers |= answered_permissions(part)
            call = part if isinstance(part, types.ToolCallPart) else intended_call(part)
            if call is not None and _may_change(call, outward_patterns):
                meant = _intent(message.seq, call, outward_patterns)
                # Both tellings count: the one before a call and
                # the one after it may say different halves.
                known = calls.get(call.call_id, meant).actions
                actions = (*known, *meant.actions, *_run_by(part))
                calls[call.call_id] = structs.replace(meant, actions=tuple(dict.fromkeys(actions)))
            elif isinstance(part, types.ToolResultPart) and part.call_id in calls:
                calls[part.call_id] = _received(calls[part.call_id], part)
    # After all results: what comes later in a turn says whether the agent saw it fail.
    for call_id in _failed_unseen(messages) & calls.keys():
        calls[call_id] = structs.replace(calls[call_id], state=EffectState.UNKNOWN)
    return tuple(_answered(effect, answers.get(effect.call_id)) for effect in calls.values())


def must_hold_back(actions: Iterable[Action], known: Iterable[Effect]) -> Effect | None:
    """Return the known effect that a call's actions may repeat, None when it may run.

    One that nobody has spoken of comes before one that a person said was done.
    """
    asked = tuple(actions)
    return next(
        (
            effect
            for effect in that_hold(known)
            if any(done.may_be(meant) for done in effect.actions for meant in asked)
        ),
        None,
    )


def that_hold(known: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return the effects that nothing may repeat, those that nobody has spoken of first."""
    found = (each for each in known if each.actions and each.state in DOUBTFUL)
    # `again` is a person's leave to do this very action once more (ADR 87).
    left = (each for each in found if each.settled is not Settlement.AGAIN)
    return tuple(sorted(left, key=lambda each: each.settled is not None))


def held(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return what a turn that was cut off did beyond this machine, and nobody has spoken of."""
    return tuple(
        effect
        for effect in effects
        if effect.actions and effect.state in DOUBTFUL and effect.settled is None
    )


def settled(effects: Iterable[Effect], said: Mapping[str, Settlement]) -> tuple[Effect, ...]:
    """Return the effects as they are since a person said something of them, by their calls' ids."""
    return tuple(_settled(each, said.get(each.call_id)) for each in effects)


def in_doubt(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return those in doubt, in order, but for what is known to have been done after them."""
    left: list[Effect] = []
    for effect in effects:
        # Done since: whether it was done before that is no question any more.
        if effect.state is EffectState.DONE and effect.actions:
            left = [each for each in left if not _repeats(effect, each)]
        if effect.is_in_doubt:
            left.append(effect)
    return tuple(left)


def answered_permissions(part: types.Part) -> dict[str, str]:
    """Return the answer that a note of a permission holds, by the call it was about."""
    if not isinstance(part, types.UnknownPart) or part.kind != types.PERMISSION:
        return {}
    if not isinstance(part.raw, Mapping):
        return {}
    call_id, answer = part.raw.get("call_id"), part.raw.get("answer")
    if not isinstance(call_id, str) or not isinstance(answer, str):
        return {}
    return {call_id: answer}


def intended_call(part: types.Part) -> types.ToolCallPart | None:
    """Return the call that a note of an intent describes, None for any other part."""
    if (
        not isinstance(part, types.UnknownPart)
        or part.kind != INTENT
        or not isinstance(part.raw, Mapping)
    ):
        return None
    call_id, title, kind = (part.raw.get(name) for name in ("call_id", "title", "tool_kind"))
    if not (isinstance(call_id, str) and isinstance(title, str) and isinstance(kind, str)):
        return None  # by an earlier version, which kept the id alone
    arguments = part.raw.get("arguments")
    return types.ToolCallPart(call_id=call_id, title=title, tool_kind=kind, arguments=arguments)


def _run_by(part: types.Part) -> Iterator[Action]:
    """Yield what a note of an intent says that its call runs without saying so."""
    raw = part.raw if isinstance(part, types.UnknownPart) else None
    runs = raw.get("runs") if isinstance(raw, Mapping) else None
    for line in runs if isinstance(runs, Sequence) and not isinstance(runs, str) else ():
        yield from actions_of_call("", {"command": line})


def _settled(effect: Effect, said: Settlement | None) -> Effect:
    if said is None:
        return effect
    # `again` changes no state: whether it was done is as unknown as before.
    states = {Settlement.DONE: EffectState.DONE, Settlement.NOT_DONE: EffectState.FAILED}
    return structs.replace(effect, settled=said, state=states.get(said, effect.state))


def _repeats(effect: Effect, earlier: Effect) -> bool:
    return all(any(done.may_be(each) for done in effect.actions) for each in earlier.actions)


def _failed_unseen(messages: Sequence[types.Message]) -> set[str]:
    """Return the calls that failed and that no agent said anything after, until it was asked."""
    found: set[str] = set()
    last: dict[types.TurnId, set[str]] = {}
    for message in messages:
        # A new prompt is no word of the agent's: whoever writes may not know that the call failed.
        if message.speaker is types.Speaker.USER:
            found |= last.pop(message.turn_id, set())
        for part in message.parts:
            if isinstance(part, _GOING_ON):
                last.pop(message.turn_id, None)
            elif isinstance(part, types.ToolResultPart) and part.status == "failed":
                last.setdefault(message.turn_id, set()).add(part.call_id)
    return found.union(*last.values())


def _may_change(call: types.ToolCallPart, patterns: Sequence[str]) -> bool:
    """Whether a call may change something: a kind is the agent's word, a command is not."""
    is_harmless = call.tool_kind in KINDS_WITHOUT_EFFECT
    return not is_harmless or bool(actions_of_call("", call.arguments, patterns))


def _intent(seq: int, part: types.ToolCallPart, patterns: Sequence[str]) -> Effect:
    return Effect(
        seq=seq,
        call_id=part.call_id,
        tool_kind=part.tool_kind,
        title=part.title or part.tool_kind,
        state=EffectState.INTENT,
        actions=actions_of_call(part.title, part.arguments, patterns),
    )


def _received(effect: Effect, part: types.ToolResultPart) -> Effect:
    return structs.replace(effect, state=_STATE_OF_STATUS.get(part.status, EffectState.UNKNOWN))


def _answered(effect: Effect, answer: str | None) -> Effect:
    """What was asked for and not allowed has not been done, whatever its result says."""
    if answer is None:
        return effect
    state = effect.state if answer.startswith("allow") else EffectState.FAILED
    return structs.replace(effect, state=state, was_asked=True)
