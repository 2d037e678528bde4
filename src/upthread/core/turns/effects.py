"""Effects: actions on the world, read from what an agent asked for and what came of it.

A tool call that can change something is an intent when it is asked for and a receipt when its
result is known; without one its outcome is unknown. The next prompt lists the effects, so that they
are not repeated. An effect counts when it is outward or not known to be repeatable. As long as one
that counts is in doubt, only repeatable calls run: a local `pytest` simply runs again.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from upthread.core import types
from upthread.core.outward.calls import Action, Actions, actions_of_call, commands_of
from upthread.core.outward.shell_commands import commands_written
from upthread.core.shell.call_commands import CHANGING
from upthread.core.shell.expected_call import QUIET, Foreseen, Told, foreseen

_GOING_ON = (types.TextPart, types.ReasoningPart, types.ToolCallPart)
"""What an agent says once it has seen how a call ended."""

TITLE_CHARACTERS_MAX = 200  # as in `core.quotas`, which a look does not load

INTENT = "intent"
"""The kind of the note that keeps an action which was asked for after its call was recorded."""


class EffectState(StrEnum):
    """What is known of an effect."""

    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


UNKNOWN = frozenset({EffectState.UNKNOWN, EffectState.INTENT})
"""The states of what may have been done, or not."""

_STATE_OF_STATUS = {"completed": EffectState.DONE, "failed": EffectState.FAILED}


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
    otherwise the action was observed when it was announced. `was_refused`: it was not allowed, so
    it did not run. `settled` is what a person said of it, None where nobody did; `state` is then
    what it is since. `is_delegation`: a sub-agent did it, whose calls are effects of their own.
    `was_followed`: its turn was prompted again after it. `tellings` are all that was told of it.
    """

    seq: int
    call_id: str
    tool_kind: str
    title: str
    state: EffectState
    actions: Actions = ()
    was_asked: bool = False
    was_refused: bool = False
    is_delegation: bool = False
    was_followed: bool = False
    settled: Settlement | None = None
    turn_id: types.TurnId = types.TurnId("")
    tellings: tuple[types.ToolCallPart, ...] = ()

    @property
    def is_in_doubt(self) -> bool:
        """Whether it counts, its outcome is unknown, and no person has settled it."""
        return self.state in UNKNOWN and self.settled is None and self.counts

    @property
    def counts(self) -> bool:
        """Whether doing it twice may do harm: it is outward, or not known to be repeatable."""
        if self.actions or self.is_delegation:
            return bool(self.actions)
        # An edit stays on this machine, also where its agent did not say of which file.
        is_edit = self.will_happen.kinds <= QUIET | CHANGING
        return not is_edit and self.will_happen.changed_if_repeatable() is None

    @property
    def holds(self) -> bool:
        """Whether it must not be done once more after its turn was interrupted."""
        if self.settled is not None:
            # `again` is a person's leave to do this very action once more (ADR 136).
            return self.settled is Settlement.DONE
        return not self.was_refused and not self._has_failed_whole and self.counts

    @property
    def will_happen(self) -> Foreseen:
        """The call as it is judged before it runs."""
        return foreseen(map(_as_told, self.tellings))

    @property
    def _has_failed_whole(self) -> bool:
        """Whether it failed, and nothing of it was done: of `git push && false` a part was."""
        if self.state is not EffectState.FAILED:
            return False
        lines = [line for each in self.tellings for line in commands_of(each.arguments)]
        return bool(self.actions) and all(len(commands_written(line)) == 1 for line in lines)

    @property
    def in_words(self) -> str:
        """One line for a briefing: `git push origin main: done`."""
        return self.with_outcome(str(self.state))

    @property
    def title_in_words(self) -> str:
        """The title on one line."""
        return " ".join(self.title.split())[:TITLE_CHARACTERS_MAX]

    @property
    def outcome_in_words(self) -> str:
        """What is known of its outcome: `done`, or `outcome unknown`."""
        return "outcome unknown" if self.state in UNKNOWN else str(self.state)

    def with_outcome(self, status: str) -> str:
        """Return the line with what somebody else knows came of it, where we do not."""
        is_known_there = self.state in UNKNOWN and status not in UNKNOWN
        return f"{self.title_in_words}: {status if is_known_there else self.outcome_in_words}"


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
            if call and _may_change(call, outward_patterns):
                calls[call.call_id] = _intent(
                    message, call, calls.get(call.call_id), outward_patterns
                )
            elif isinstance(part, types.ToolResultPart) and part.call_id in calls:
                calls[part.call_id] = replace(
                    calls[part.call_id],
                    state=_STATE_OF_STATUS.get(part.status, EffectState.UNKNOWN),
                    is_delegation=part.child_conversation_id is not None,
                )
    # After all results: what comes later in a turn says whether the agent saw it fail.
    for call_id in _failed_unseen(messages) & calls.keys():
        calls[call_id] = replace(calls[call_id], state=EffectState.UNKNOWN)
    prompted = {each.turn_id: each.seq for each in messages if each.speaker is types.Speaker.USER}
    return tuple(
        replace(
            _answered(effect, answers.get(effect.call_id)),
            was_followed=effect.seq < prompted.get(effect.turn_id, 0),
        )
        for effect in calls.values()
    )


def must_hold_back(
    will_happen: Foreseen,
    known: Iterable[Effect],
    *,
    actions: Iterable[Action],
    is_repeatable: bool,
) -> Effect | None:
    """Return the known effect because of which a call must not run, None when it may run.

    A repetition is never let through. While an effect is not settled, neither is any call that is
    not known to be repeatable. An effect that no person has settled comes before a settled one.
    """
    asked, words, known = tuple(actions), _words(will_happen), tuple(known)
    holding = sorted((each for each in known if each.holds), key=lambda e: e.settled is not None)
    for effect in holding:
        is_same = not effect.actions and bool(words & _words(effect.will_happen))
        if is_same or any(done.may_be(meant) for done in effect.actions for meant in asked):
            return effect
    # A person lets this very call be made, whatever else is in doubt.
    is_allowed = any(
        each.settled in {Settlement.AGAIN, Settlement.NOT_DONE}
        and words == _words(each.will_happen)
        for each in known
    )
    is_free = is_allowed or (is_repeatable and not asked)
    return None if is_free else next(iter(held(holding)), None)


def held(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return the effects of an interrupted turn that hold back others and are not settled."""
    return tuple(each for each in effects if each.holds and not each.settled)


def _words(will_happen: Foreseen) -> frozenset[str]:
    """Return the text by which two calls that are not understood are the same."""
    lines = [" ".join(line.split()) for line, _ in will_happen.lines]
    return frozenset(lines or [f"{will_happen.title} {will_happen.arguments}"])


def settled(effects: Iterable[Effect], said: Mapping[str, Settlement]) -> tuple[Effect, ...]:
    """Return the effects as they are since a person said something of them, by their calls' ids."""
    return tuple(_settled(each, said.get(each.call_id)) for each in effects)


def in_doubt(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return those in doubt, in order, but for what is known to have been done after them."""
    left: list[Effect] = []
    for effect in effects:
        # Done since: whether it was done before that is no question any more.
        if effect.state is EffectState.DONE and effect.actions:
            left = [
                earlier
                for earlier in left
                if not earlier.actions
                or not all(any(done.may_be(a) for done in effect.actions) for a in earlier.actions)
            ]
        if effect.is_in_doubt:
            left.append(effect)
    return tuple(left)


def answered_permissions(part: types.Part) -> dict[str, str]:
    """Return the answer that a note of a permission holds, by the call it was about."""
    call_id, answer = (_noted(part, types.PERMISSION).get(name) for name in ("call_id", "answer"))
    return {call_id: answer} if isinstance(call_id, str) and isinstance(answer, str) else {}


def intended_call(part: types.Part) -> types.ToolCallPart | None:
    """Return the call that a note of an intent describes, None for any other part."""
    note = _noted(part, INTENT)
    call_id, title, kind = (note.get(name) for name in ("call_id", "title", "tool_kind"))
    if not (isinstance(call_id, str) and isinstance(title, str) and isinstance(kind, str)):
        return None  # by an earlier version, which kept the id alone
    return types.ToolCallPart(
        call_id=call_id, title=title, tool_kind=kind, arguments=note.get("arguments")
    )


def _noted(part: types.Part, kind: str) -> Mapping[str, types.JsonValue]:
    if isinstance(part, types.UnknownPart) and part.kind == kind and isinstance(part.raw, Mapping):
        return part.raw
    return {}


def _settled(effect: Effect, said: Settlement | None) -> Effect:
    # `again` changes no state: whether it was done is as unknown as before.
    states = {Settlement.DONE: EffectState.DONE, Settlement.NOT_DONE: EffectState.FAILED}
    state = states.get(said, effect.state) if said else effect.state
    return replace(effect, settled=said, state=state)


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
    if call.tool_kind not in QUIET or actions_of_call("", call.arguments, patterns):
        return True
    is_command = bool(commands_of(call.arguments))
    return is_command and foreseen([_as_told(call)]).changed_if_repeatable() is None


def _as_told(call: types.ToolCallPart) -> Told:
    return Told(
        title=call.title,
        tool_kind=call.tool_kind,
        arguments=call.arguments,
        locations=call.locations,
    )


def _intent(
    message: types.Message, part: types.ToolCallPart, before: Effect | None, patterns: Sequence[str]
) -> Effect:
    # Each telling counts: the one before a call and the one after it may say different halves.
    actions = (
        *(before.actions if before else ()),
        *actions_of_call(part.title, part.arguments, patterns),
    )
    return Effect(
        seq=message.seq,
        call_id=part.call_id,
        tool_kind=part.tool_kind,
        title=part.title or part.tool_kind,
        state=EffectState.INTENT,
        actions=tuple(dict.fromkeys(actions)),
        turn_id=message.turn_id,
        tellings=(*(before.tellings if before else ()), part),
    )


def _answered(effect: Effect, answer: str | None) -> Effect:
    """What was asked for and not allowed has not been done, whatever its result says."""
    if answer is None:
        return effect
    if answer.startswith("allow"):
        return replace(effect, was_asked=True)
    return replace(effect, state=EffectState.FAILED, was_asked=True, was_refused=True)
