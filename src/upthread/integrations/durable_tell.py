"""Telling once, for durable engines that run a step again until it has a result.

A step that tells a role is not done twice: the first attempt's reply is its receipt. An attempt
that was cut off or cancelled is gone on with, in the same session; one whose reply came, and whose
receipt did not, is recognised by its prompt. What a person has to decide is an error that is not
tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, TypedDict, cast

from upthread.client.project import Project
from upthread.core.names import shown
from upthread.core.types import JsonValue, Message, Outcome, Speaker
from upthread.errors import NotFoundError, RefusedError, UpthreadError, UsageError
from upthread.runtime.options import TellOptions
from upthread.runtime.turns.progress import TurnResult

RETRIED: Final = frozenset(
    {Outcome.BUSY, Outcome.RATE_LIMITED, Outcome.TRANSIENT, Outcome.TIMED_OUT, Outcome.PROCESS_DIED}
)
"""What another attempt may mend. All else is for a person, or for another program."""


class Told(TypedDict):
    """A reply with what upthread decided. `conversation_id` is the same over every attempt.

    `text_sha256` is of the text that was told.
    """

    address: str
    text_sha256: str
    conversation_id: str
    turn_id: str
    decision: str
    reasons: list[str]
    outcome: str
    reply: str


class NotToldError(UpthreadError):
    """The role gave no reply. `is_retried` is whether another attempt may get one."""

    # With defaults, because DBOS keeps an error pickled, and makes it again by its message alone.
    def __init__(
        self, message: str, *, hint: str = "", is_retried: bool = False, outcome: str = ""
    ) -> None:
        super().__init__(message, hint=hint, outcome=outcome)
        self.is_retried = is_retried
        self.outcome = outcome


async def tell_once(
    up: Project, key: str, address: str, text: str, options: TellOptions | None = None
) -> Told:
    """Tell a role once under a key, and return its reply; again under the same key, the same one.

    Raises NotToldError for a turn that failed or was parked, RefusedError for one that must not be,
    UsageError where nobody can know whether it was told, and where another address or text was told
    under this key.
    """

    async def tell() -> JsonValue:
        return cast("JsonValue", _told(address, text, await up.tell(address, text, options)))

    try:
        told = cast("Told", await up.once(key, tell))
    except UsageError as error:
        found = await _gone_on_with(up, address, text, options)
        if found is None:
            raise error from None
        told = found
        await up.once.confirm(key, cast("JsonValue", told))
    # A receipt of an earlier version has no digest.
    if told["address"] != address or told.get("text_sha256") not in {None, _sha256(text)}:
        raise UsageError(
            f"under the key {shown(key)} something else was told, to {told['address']}",
            hint="give each step of each run a key of its own",
            key=key,
        )
    return told


async def _gone_on_with(
    up: Project, address: str, text: str, options: TellOptions | None
) -> Told | None:
    """Return what became of an attempt that was cut off; None where no turn is known to be its."""
    try:
        view, said = await up.role(address), await up.conversation(address)
    except NotFoundError:
        return None
    prompts = [each for each in said if each.speaker is Speaker.USER and each.text]
    if view.last_turn is None or not prompts or prompts[-1].text != text:
        return None
    if view.last_turn.ended is None:
        return _told(address, text, await up.go_on(address, options))
    # A worker that is told to stop cancels its turn: the next attempt is told what that had done.
    if view.last_turn.ended.outcome in {Outcome.CANCELLED, Outcome.PROCESS_DIED}:
        return _told(address, text, await up.tell(address, text, options))
    if view.last_turn.ended.outcome is not Outcome.OK:
        return None
    intended = view.last_turn.intended
    return {
        "address": address,
        "text_sha256": _sha256(text),
        "conversation_id": view.conversation.conversation_id,
        "turn_id": view.last_turn_id or "",
        "decision": intended.decision if intended else "",
        "reasons": list(intended.reasons) if intended else [],
        "outcome": str(Outcome.OK),
        "reply": _reply(said, prompts[-1]),
    }


def _reply(said: Sequence[Message], prompt: Message) -> str:
    after = (each for each in said if each.seq > prompt.seq)
    return "\n\n".join(e.text for e in after if e.speaker is Speaker.ASSISTANT and e.text)


def _told(address: str, text: str, result: TurnResult) -> Told:
    if result.parked is not None or result.outcome is not Outcome.OK:
        waits = result.parked is not None
        raise NotToldError(
            f"{address} {'waits for a person' if waits else f'ended as {result.outcome}'}"
            + (f": {result.detail}" if result.detail else ""),
            hint=f"look: upthread show {address}",
            is_retried=not waits and result.outcome in RETRIED,
            outcome=str(result.outcome),
        )
    return {
        "address": address,
        "text_sha256": _sha256(text),
        "conversation_id": result.conversation.conversation_id,
        "turn_id": result.turn_id,
        "decision": result.decision,
        "reasons": list(result.reasons),
        "outcome": str(result.outcome),
        "reply": result.reply,
    }


def _sha256(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_final(error: UpthreadError) -> bool:
    """Return whether another attempt would end the same way: a person has to act first."""
    if isinstance(error, NotToldError):
        return not error.is_retried
    return isinstance(error, (RefusedError, UsageError))
