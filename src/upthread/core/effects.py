"""Effects: actions on the world, read from what an agent asked for and what came of it.

A tool call that can change something is an intent when it is asked for and a receipt when its
result is known; without one its outcome is unknown. Effects are listed to whoever goes on, so that
they are not repeated; in a recovery turn, an outward one that was done or may have been is held
back where we are asked. A local `pytest` is simply run again.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from upthread.core.types import (
    PERMISSION,
    JsonValue,
    Message,
    Part,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)

KINDS_WITHOUT_EFFECT: Final = frozenset({"read", "search", "think", "fetch"})
"""ACP's kinds of tools that leave the world as it was; any other one may change it."""

OUTWARD_PATTERNS: Final = (
    "*git push*",
    "gh *",
    "*gh pr *",
    "*npm publish*",
    "*twine upload*",
    "*docker push*",
    "*kubectl apply*",
    "*terraform apply*",
    "*deploy*",
    "*sendmail*",
    "mail *",
    "*curl*-X P*",
    "*curl*--data*",
)
"""Commands that reach beyond this machine, as shell patterns over the command or title."""

ARGUMENTS_LEFT_OUT: Final = frozenset({"description", "cwd", "timeout"})
"""Arguments that differ between two calls of the same action."""

TITLE_CHARACTERS_MAX: Final = 200

INTENT: Final = "intent"
"""The kind of the note that keeps an action which was asked for after its call was recorded."""


class EffectState(StrEnum):
    """What is known of an effect."""

    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


_STATE_OF_STATUS: Final[Mapping[str, EffectState]] = {
    "completed": EffectState.DONE,
    "failed": EffectState.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One action. `digest` is equal for calls that mean the same action.

    `was_asked` is whether the agent asked before it acted, so that the intent was kept first;
    otherwise the action was observed when it was announced.
    """

    seq: int
    call_id: str
    tool_kind: str
    title: str
    digest: str
    state: EffectState
    is_outward: bool
    was_asked: bool = False

    @property
    def in_words(self) -> str:
        """One line for a briefing: `git push origin main: done`."""
        title = " ".join(self.title.split())[:TITLE_CHARACTERS_MAX]
        told = {EffectState.INTENT: "outcome unknown", EffectState.UNKNOWN: "outcome unknown"}
        return f"{title}: {told.get(self.state, str(self.state))}"


def effects_of(
    messages: Iterable[Message], *, outward_patterns: Sequence[str] = OUTWARD_PATTERNS
) -> tuple[Effect, ...]:
    """Return the effects in messages, in order; a call without a result is an intent."""
    calls: dict[str, Effect] = {}
    answers: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            answers |= answered_permissions(part)
            call = part if isinstance(part, ToolCallPart) else intended_call(part)
            if call is not None and _may_change(call, outward_patterns):
                calls[call.call_id] = _intent(message.seq, call, outward_patterns)
            elif isinstance(part, ToolResultPart) and part.call_id in calls:
                calls[part.call_id] = _received(calls[part.call_id], part)
    return tuple(_answered(effect, answers.get(effect.call_id)) for effect in calls.values())


def must_hold_back(digests: Set[str], known: Iterable[Effect]) -> Effect | None:
    """Return the known effect that an outward call would repeat, None when it may run.

    `digests` are those of all the actions the call may be. Only where one was done, or may have
    been, is it held back.
    """
    doubtful = {EffectState.DONE, EffectState.UNKNOWN, EffectState.INTENT}
    for effect in known:
        if effect.digest in digests and effect.state in doubtful:
            return effect
    return None


def without_released(effects: Iterable[Effect], released: Iterable[str]) -> tuple[Effect, ...]:
    """Return the effects, one fewer for each time that one was released, by its words."""
    left = Counter(released)
    held: list[Effect] = []
    for effect in effects:
        if left[effect.in_words]:
            left[effect.in_words] -= 1
        else:
            held.append(effect)
    return tuple(held)


def is_outward(title: str, arguments: JsonValue, patterns: Sequence[str]) -> bool:
    """Return whether a call reaches beyond this machine, by its command or its title."""
    command = command_of(arguments)
    return any(
        fnmatch.fnmatchcase(text, pattern)
        for text in (title, command)
        if text
        for pattern in patterns
    )


def command_of(arguments: JsonValue) -> str:
    """Return the command line in a call's arguments; empty where there is none."""
    if not isinstance(arguments, Mapping):
        return ""
    command = arguments.get("command")
    if isinstance(command, str):
        return command
    if isinstance(command, Sequence):
        return " ".join(str(word) for word in command)
    return ""


def digest_of(title: str, arguments: JsonValue) -> str:
    """Return the digest of what a call does: its command, or its arguments in canonical order.

    A call without arguments is known by its title. The kind is no part of it: that is the agent's
    word, and the same push is the same under another one.
    """
    meant: object = command_of(arguments) or title
    if not command_of(arguments) and isinstance(arguments, Mapping) and arguments:
        meant = {name: value for name, value in arguments.items() if name not in ARGUMENTS_LEFT_OUT}
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(canonical.encode()).hexdigest()


def answered_permissions(part: Part) -> dict[str, str]:
    """Return the answer that a note of a permission holds, by the call it was about."""
    if not isinstance(part, UnknownPart) or part.kind != PERMISSION:
        return {}
    if not isinstance(part.raw, Mapping):
        return {}
    call_id, answer = part.raw.get("call_id"), part.raw.get("answer")
    if not isinstance(call_id, str) or not isinstance(answer, str):
        return {}
    return {call_id: answer}


def intended_call(part: Part) -> ToolCallPart | None:
    """Return the call that a note of an intent describes, None for any other part."""
    if (
        not isinstance(part, UnknownPart)
        or part.kind != INTENT
        or not isinstance(part.raw, Mapping)
    ):
        return None
    call_id, title, kind = (part.raw.get(name) for name in ("call_id", "title", "tool_kind"))
    if not (isinstance(call_id, str) and isinstance(title, str) and isinstance(kind, str)):
        return None  # by an earlier version, which kept the id alone
    arguments = part.raw.get("arguments")
    return ToolCallPart(call_id=call_id, title=title, tool_kind=kind, arguments=arguments)


def _may_change(call: ToolCallPart, patterns: Sequence[str]) -> bool:
    """Whether a call may change something: a kind is the agent's word, a command is not."""
    is_harmless = call.tool_kind in KINDS_WITHOUT_EFFECT
    return not is_harmless or is_outward("", call.arguments, patterns)


def _intent(seq: int, part: ToolCallPart, patterns: Sequence[str]) -> Effect:
    return Effect(
        seq=seq,
        call_id=part.call_id,
        tool_kind=part.tool_kind,
        title=part.title or part.tool_kind,
        digest=digest_of(part.title, part.arguments),
        state=EffectState.INTENT,
        is_outward=is_outward(part.title, part.arguments, patterns),
    )


def _received(effect: Effect, part: ToolResultPart) -> Effect:
    return replace(effect, state=_STATE_OF_STATUS.get(part.status, EffectState.UNKNOWN))


def _answered(effect: Effect, answer: str | None) -> Effect:
    """What was asked for and not allowed has not been done, whatever its result says."""
    if answer is None:
        return effect
    state = effect.state if answer.startswith("allow") else EffectState.FAILED
    return replace(effect, state=state, was_asked=True)
