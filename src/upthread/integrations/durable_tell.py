"""Telling once, for durable engines that run a step again until it has a result.

A step that tells a role is not done twice: the first attempt's reply is its receipt. Its turn holds
the step's key. The next attempt finds the turn by that, however the one before was stopped, and
continues it in the same session. An attempt that still works is waited for. So is a limit of the
agent that has an end: by the engine, which is told when to try again. What a person has to decide
is an error that is not tried again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple, TypedDict, cast

from msgspec import structs

from upthread.client.project import Project
from upthread.core.events import TurnIntended, TurnParked
from upthread.core.names import key_of, shown
from upthread.core.redaction.placeholder import has_placeholder
from upthread.core.runs.stops import OURS, Source, stop_in_words
from upthread.core.turns.effects import effects_of
from upthread.core.turns.prompt import continuation, without_fresh
from upthread.core.turns.turn import SENDS_MAX, TurnView, fold
from upthread.core.types import JsonValue, Message, Outcome, Speaker, TurnId
from upthread.errors import ConfigError, RefusedError, UpthreadError, UsageError
from upthread.runtime.options import TellOptions
from upthread.runtime.system import now_ms
from upthread.runtime.turns.limit_wait import PAUSE_S_MIN
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
    """The role gave no reply. `is_retried` is whether another attempt may get one.

    `retry_at_ms` is when its agent answers again, epoch milliseconds, None where nobody knows.
    """

    # With defaults, because DBOS keeps an error pickled, and makes it again by its message alone.
    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        is_retried: bool = False,
        retry_at_ms: int | None = None,
        outcome: str = "",
    ) -> None:
        super().__init__(message, hint=hint, outcome=outcome)
        self.is_retried = is_retried
        self.retry_at_ms = retry_at_ms
        self.outcome = outcome

    @property
    def retry_in_s(self) -> float | None:
        """How long that is from now; never nothing, so that an agent is not asked without end."""
        if self.retry_at_ms is None:
            return None
        return max((self.retry_at_ms - now_ms()) / 1000, PAUSE_S_MIN)


async def tell_once(
    up: Project, key: str, address: str, text: str, options: TellOptions | None = None
) -> Told:
    """Tell a role once under a key, and return its reply; again under the same key, the same one.

    Raises NotToldError for a turn that failed or was parked, RefusedError for one that must not be,
    and UsageError where another address or text was told under this key, or its reply forgotten.
    """
    chosen = structs.replace(options or TellOptions(), key=key)

    async def tell() -> JsonValue:
        result = await up.tell(address, text, chosen)
        return cast("JsonValue", await _told(up, (address, text), result, key))

    async def recover() -> JsonValue:
        # The process that was taken over may still hold the conversation, until it is stale.
        waiting = structs.replace(chosen, when_busy="wait")
        return cast("JsonValue", await _recovered(up, address, text, waiting))

    told = cast("Told", await up.once(key, tell, recover=recover))
    # A receipt of an earlier version has no digest.
    if told["address"] != address or told.get("text_sha256") not in {None, _sha256(text)}:
        raise _told_otherwise(key, told["address"])
    if "reply" not in told:
        raise _forgotten(key)
    return told


class _Attempt(NamedTuple):
    """The newest turn of a step, and what was said in it; `is_current`: no reset came after it."""

    turn_id: TurnId
    view: TurnView
    said: tuple[Message, ...]
    is_current: bool


async def _recovered(up: Project, address: str, text: str, options: TellOptions) -> Told:
    """Return the reply to an attempt that was interrupted, and continue it where it has none."""
    while True:
        found = await _newest(up, address, options.key)
        if found is not None:
            prompt, asked = found.said[0].text, continuation(text, ())
            is_same = prompt == without_fresh(text) or prompt.startswith(asked)
            if prompt and not has_placeholder(prompt) and not is_same:
                raise _told_otherwise(options.key, address)
            if found.view.parked and found.is_current and not _is_past(found.view.parked):
                raise _not_told(address, *found.view.stopped_by, found.view.parked)
            is_answered = found.view.ended and found.view.ended.outcome is Outcome.OK
            if not prompt and (is_answered or not found.is_current):
                raise _forgotten(options.key)
            if is_answered:
                return _told_before(address, text, found)
        # A turn is recorded before anything is sent: without one, no agent has the prompt.
        if not (found and found.is_current and found.view.sends) or found.view.ended:
            # Another step may have taken the role meanwhile, which ended the turn, or a person has
            # reset the role: an agent has the prompt all the same.
            result = await up.tell(address, _next_prompt(text, found), options)
            return await _told(up, (address, text), result, options.key)
        try:
            result = await up.go_on(address, options)
            return await _told(up, (address, text), result, options.key)
        except UsageError:
            # The process that was taken over may have ended the turn meanwhile.
            if await _newest(up, address, options.key) == found:
                raise


def _next_prompt(text: str, found: _Attempt | None) -> str:
    """Return the text, or a continuation where an agent has it; a new session is told its work."""
    if found is None or found.view.was_unheard or not found.view.sends:
        return text
    if found.is_current and not found.view.was_cut_off:
        return text
    known = () if found.is_current else effects_of(found.said)
    return continuation(text, tuple(each.in_words for each in known))


def _is_past(parked: TurnParked) -> bool:
    """Return whether it was parked for a limit alone, which has passed: nobody has to decide."""
    return parked.reset_at_ms is not None and parked.reset_at_ms <= now_ms()


async def _newest(up: Project, address: str, key: str) -> _Attempt | None:
    return next(iter(await _attempts(up, address, key, most=1)), None)


async def _attempts(up: Project, address: str, key: str, *, most: int) -> list[_Attempt]:
    """Return the newest turns of a step, the last one first."""
    asked = key_of(up.project_id, await up.parse(address))

    def each() -> Iterator[_Attempt]:
        # A reset opens another generation, which has not got the prompt.
        known = up.store.conversations(up.project_id, asked.workstream)
        own = [it.conversation_id for it in known if it.key == asked]
        said = [message for each in own for message in up.store.messages(each)]
        for turn_id in dict.fromkeys(message.turn_id for message in reversed(said)):
            view = fold(up.store.turn_events(turn_id))
            if view.intended and view.intended.key == key:
                found = tuple(message for message in said if message.turn_id == turn_id)
                yield _Attempt(turn_id, view, found, found[0].conversation_id == own[-1])

    return await up.read(lambda: list(islice(each(), most)))


async def _told(up: Project, asked: tuple[str, str], result: TurnResult, key: str) -> Told:
    if result.parked is None and result.outcome is Outcome.OK:
        ids = result.conversation.conversation_id, result.turn_id
        return _receipt(asked, ids, result, result.reply)
    stopped_by = result.parked.reason if result.parked else str(result.outcome)
    error = _not_told(asked[0], stopped_by, result.detail, result.parked, result.source)
    if error.is_retried and result.parked is None:
        attempts = await _attempts(up, asked[0], key, most=SENDS_MAX)
        # As often as a prompt may leave: what keeps an agent from starting is for a person to mend.
        if len(attempts) == SENDS_MAX and not any(each.view.sends for each in attempts):
            said = f"{error.message}; none of {SENDS_MAX} attempts reached the agent"
            hint = f"mend that, then begin the step again; {error.hint}"
            raise NotToldError(said, hint=hint, outcome=error.outcome)
    raise error


def _told_before(address: str, text: str, found: _Attempt) -> Told:
    intended = found.view.intended
    assert intended is not None
    last_prompt = max(each.seq for each in found.said if each.speaker is Speaker.USER)
    after = (each for each in found.said if each.seq > last_prompt)
    reply = "\n\n".join(e.text for e in after if e.speaker is Speaker.ASSISTANT and e.text)
    ids = found.said[0].conversation_id, found.turn_id
    return _receipt((address, text), ids, intended, reply)


def _receipt(
    asked: tuple[str, str], ids: tuple[str, str], decided: TurnIntended | TurnResult, reply: str
) -> Told:
    return {
        "address": asked[0],
        "text_sha256": _sha256(asked[1]),
        "conversation_id": ids[0],
        "turn_id": ids[1],
        "decision": decided.decision,
        "reasons": list(decided.reasons),
        "outcome": str(Outcome.OK),
        "reply": reply,
    }


def _not_told(
    address: str, outcome: str, detail: str, parked: TurnParked | None, source: Source = OURS
) -> NotToldError:
    stop = stop_in_words(outcome, detail, source=source)
    until_ms = parked.reset_at_ms if parked else None
    stands = "waits for a person" if parked else f"ended as {outcome}"
    if until_ms is not None:
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until_ms / 1000))
        stands = f"is limited until {at}, and goes on at the next attempt after it"
    return NotToldError(
        ": ".join(filter(None, (f"{address} {stands}", stop.said, stop.detail))),
        hint="; ".join(filter(None, (stop.cure, f"look: upthread show {address}"))),
        is_retried=until_ms is not None if parked else outcome in RETRIED,
        retry_at_ms=until_ms,
        outcome=outcome,
    )


def _told_otherwise(key: str, address: str) -> UsageError:
    return UsageError(
        f"under the key {shown(key)} something else was told, to {address}",
        hint="give each step of each run a key of its own",
        key=key,
    )


def _forgotten(key: str) -> UsageError:
    return UsageError(
        f"what was told under the key {shown(key)} was forgotten, or not kept",
        hint="the prompt is not sent again; give a new prompt a key of its own",
        key=key,
    )


def _sha256(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_final(error: BaseException) -> bool:
    """Return whether another attempt would end the same way: a person has to act first.

    For DBOS: `should_retry=lambda error: not is_final(error)`.
    """
    if isinstance(error, NotToldError):
        return not error.is_retried
    return isinstance(error, (ConfigError, RefusedError, UsageError))
