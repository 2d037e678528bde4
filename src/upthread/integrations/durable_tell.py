"""Telling once, for durable engines that run a step again until it has a result.

A step that tells a role is not done twice: the first attempt's reply is its receipt. Its turn holds
the step's key. The next attempt finds the turn by that, however the one before was stopped, and
continues it in the same session. It also continues a turn whose agent was killed, failed, or
answered that it was cancelled though nobody cancelled it: a deploy stops worker and agent at once.
A turn that ended without a reply is continued in a new turn, with the list of what was done. An
attempt that still works is waited for. So is a limit of the agent that has an end: by the engine,
which is told when to try again. What a person has to decide is an error that is not tried again.
"""

import time
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple, TypedDict, cast

from msgspec import structs

from upthread.client.once import BegunElsewhereError
from upthread.client.project import Project
from upthread.core.events import TurnIntended, TurnParked
from upthread.core.names import shown
from upthread.core.redaction.values import has_placeholder
from upthread.core.runs.stops import OURS, Source, shortfall, stop_in_words
from upthread.core.states import effects_command, go_on_command
from upthread.core.text import visible_line
from upthread.core.turns.turn import HELD_BACK, SENDS_MAX, TurnView, continuation, without_fresh
from upthread.core.types import MAIN_SLOT, ConversationKey, JsonValue, Message, Outcome, TurnId
from upthread.errors import ConfigError, NoOpenTurnError, RefusedError, UpthreadError, UsageError
from upthread.runtime.record.turn_views import reply_in, turn_view
from upthread.runtime.system import PAUSE_S_MIN, now_ms
from upthread.runtime.turns.delegation import TellOptions, TurnResult
from upthread.runtime.turns.turns import NOT_KEPT, PASSING

RETRIED = PASSING | {Outcome.BUSY, Outcome.RATE_LIMITED}
"""The outcomes that another attempt may mend. All others need a person, or another program."""

BEGIN_AGAIN = ", then begin the step again"
"""How a hint ends after a person acted. An engine that cannot do that has other words."""


REPLY_CHARACTERS_MAX = 200
"""How much an error quotes of what the agent said."""


class Told(TypedDict):
    """A reply with what upthread decided. `conversation_id` is the same over every attempt.

    `text_sha256` is of the text that was told. `in_doubt` are the ids of the actions of its
    workstream that may have been done or not, as of now: a person has to look, whatever `outcome`.
    """

    address: str
    text_sha256: str
    conversation_id: str
    turn_id: str
    decision: str
    reasons: list[str]
    outcome: str
    reply: str
    in_doubt: list[str]


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

    What is in doubt is read anew each time, because a person may have settled it.
    Raises NotToldError for a turn that failed, was parked, declined, or answered with nothing, and
    for a step that another project began, RefusedError for one that must not be, and UsageError
    where another address or text was told under this key, or its reply forgotten.
    """
    chosen = structs.replace(options or TellOptions(), key=key)

    async def tell() -> JsonValue:
        try:
            result = await up.tell(address, text, chosen)
        except NoOpenTurnError:  # another step has taken the role while this one waited for a limit
            return await recover()
        return await _told(up, address, text, result, key)

    async def recover() -> JsonValue:
        # The process that was taken over may still hold the conversation, until it is stale.
        waiting = structs.replace(chosen, when_busy="wait")
        return await _recovered(up, address, text, waiting)

    about: JsonValue = {"address": address, "text_sha256": digest(text)}
    try:
        found = await up.once(key, tell, recover=recover, about=about)
    except BegunElsewhereError as error:
        # A worker of the release that began it may take the next attempt.
        raise NotToldError(error.message, hint=error.hint, is_retried=True) from error
    if not isinstance(found, dict) or "address" not in found:
        raise UsageError(
            f"the key {shown(key)} is that of an action of `once`, and nothing was told",
            hint="give what is told a key of its own",
            key=key,
        )
    told = cast("Told", found)
    # A receipt of an earlier version has no digest.
    if told["address"] != address or told.get("text_sha256") not in {None, digest(text)}:
        raise _told_otherwise(key, told["address"])
    if "reply" not in told:
        raise _forgotten(key)
    doubts = await up.effects_in_doubt((await up.parse(address)).workstream)
    return {**told, "in_doubt": [each.effect_id for each in doubts]}


class _Attempt(NamedTuple):
    """A turn of a step, and its messages. `role` is a sibling's where the turn was diverted to one.

    `is_current` is whether no reset came after it, `is_last` whether its session has no later turn.
    """

    role: ConversationKey
    turn_id: TurnId
    view: TurnView
    said: tuple[Message, ...]
    is_current: bool
    is_last: bool


async def _recovered(up: Project, address: str, text: str, options: TellOptions) -> JsonValue:
    """Return the reply to an attempt that was interrupted, and continue it where it has none."""
    is_taken = False
    while True:
        attempts = await _attempts(up, address, text, options.key)
        found = attempts[0] if attempts else None
        if found is not None and _is_answered(found, text, options):
            decided = found.view.intended
            assert decided is not None
            ids = found.said[0].conversation_id, found.turn_id
            return _receipt(address, text, ids, decided, reply_in(found.said))
        # In a sibling, if the turn was diverted to one.
        told_to = found.role.address if found else address
        # A turn is recorded before anything is sent: without one, no agent has the prompt. With one
        # it may, also where another step has taken the role meanwhile, or a person has reset it.
        # Of a prompt that was not kept nothing could be quoted: here is all of it.
        is_open = bool(
            found and found.is_last and not (found.view.ended or is_taken) and found.said[0].text
        )
        try:
            if is_open:
                result = await up.go_on(told_to, options)
            else:
                result = await up.tell(told_to, await _asked(up, text, attempts), options)
        except NoOpenTurnError:
            # The process that was taken over may have ended the turn, and while this one waited
            # for a limit, another step may have taken the role.
            is_taken = await _attempts(up, address, text, options.key) == attempts
        else:
            # All of its text is here, though the record has not kept it.
            if not (is_open and result.detail == NOT_KEPT):
                return await _told(up, address, text, result, options.key)


def _is_answered(found: _Attempt, text: str, options: TellOptions) -> bool:
    """Return whether an attempt has its reply. Raises the error of one that must not go on."""
    role, prompt, key = found.role, found.said[0].text, options.key
    known = tuple(continuation(text, (), is_last=each) for each in (False, True))
    is_known = prompt == without_fresh(text) or prompt.startswith(known)
    if prompt and not has_placeholder(prompt) and not is_known:
        raise _told_otherwise(key, role.address)
    parked = found.view.parked
    # For a limit alone, which has passed or is waited out, nobody has to decide.
    until_ms = parked.reset_at_ms if parked else None
    is_limit = bool(until_ms and (options.is_waiting or until_ms <= now_ms()))
    # One that another prompt took the place of waits for nobody any more.
    if parked and found.is_current and found.view.ended is None and not is_limit:
        raise _not_told(role, *found.view.stopped_by, parked)
    stopped_by = found.view.stopped_by
    if shortfall(*stopped_by):
        error = _not_told(role, *stopped_by, parked)
        error.message += _in_words(reply_in(found.said))
        raise error
    is_answered = found.view.ended is not None and found.view.ended.outcome is Outcome.OK
    if not prompt and (is_answered or not found.is_current):
        raise _forgotten(key)
    return is_answered


async def _asked(up: Project, text: str, attempts: Sequence[_Attempt]) -> str:
    """Return what continues the turns of a step that have ended, or its text if none was heard."""
    heard = [each for each in attempts if each.view.sends and not each.view.was_unheard]
    if not heard:
        # The key was begun, and a restore has lost its turn: the session may have its prompt.
        is_lost = not attempts and up.store.restored_at_ms(up.project_id) is not None
        return continuation(text, (), is_last=False) if is_lost else text
    workstream = heard[0].role.workstream
    # Those of sub-agents as well, whose turns have the ids of their parents'.
    found = await up.read(lambda: up.store.conversations(up.project_id, workstream))
    ids = {each.turn_id for each in heard}
    effects = await up.effects(found)
    done = [each.effect.in_words for each in effects if each.effect.turn_id in ids]
    return continuation(text, done, is_last=heard[0].is_last)


async def _attempts(up: Project, address: str, text: str, key: str) -> list[_Attempt]:
    """Return the turns of a step in any conversation of its role, the last one first.

    An earlier version recorded no key: an open turn with the step's text is one.
    """
    asked = await up.parse(address)

    def of_step() -> list[_Attempt]:
        found: list[_Attempt] = []
        known = up.store.conversations(up.project_id, asked.workstream)
        # A reset opens another generation, which has not got the prompt.
        newest = {it.key: it.conversation_id for it in known}
        for conversation in reversed(known):
            role, own = conversation.key, conversation.conversation_id
            if role.role != asked.role or role.slot < MAIN_SLOT:
                continue
            said = up.store.messages(own)
            for turn_id in dict.fromkeys(message.turn_id for message in reversed(said)):
                view = turn_view(up.store, own, turn_id)
                if view.intended and view.intended.key in ({key} if view.ended else {key, ""}):
                    its = tuple(message for message in said if message.turn_id == turn_id)
                    is_current = newest[role] == own
                    is_last = is_current and turn_id == said[-1].turn_id
                    if view.intended.key or its[0].text == text:
                        found.append(_Attempt(role, turn_id, view, its, is_current, is_last))
        return found

    return await up.read(of_step)


async def _told(up: Project, address: str, text: str, result: TurnResult, key: str) -> JsonValue:
    if result.is_answered:
        ids = result.conversation.conversation_id, result.turn_id
        return _receipt(address, text, ids, result, result.reply)
    stopped_by = result.parked.reason if result.parked else str(result.outcome)
    role = result.conversation.key
    how = stopped_by, result.detail, result.parked, result.source
    error = _not_told(role, *how, is_open=result.is_interrupted)
    error.message += _in_words(result.reply)
    if error.is_retried and result.parked is None:
        sends = [each.view.sends for each in await _attempts(up, address, text, key)]
        # An attempt sends once more by itself. What fails as often as a prompt may leave is for a
        # person to mend.
        made = sum(max(1, each - 1) for each in sends)
        if made >= SENDS_MAX:
            came_to = "got a reply" if any(sends) else "reached the agent"
            error.message += f"; none of {made} attempts {came_to}"
            error.hint = f"mend that{BEGIN_AGAIN}; {error.hint}"
            error.is_retried = False
    raise error


def _in_words(reply: str) -> str:
    """Return what an error adds of what the agent said, empty for nothing."""
    line = visible_line(reply, characters_max=REPLY_CHARACTERS_MAX)
    return f"; it said: {line}" if line else ""


def _receipt(
    address: str, text: str, ids: tuple[str, str], decided: TurnIntended | TurnResult, reply: str
) -> JsonValue:
    return {
        "address": address,
        "text_sha256": digest(text),
        "conversation_id": ids[0],
        "turn_id": ids[1],
        "decision": decided.decision,
        "reasons": list(decided.reasons),
        "outcome": Outcome.OK.value,
        "reply": reply,
    }


def _not_told(
    key: ConversationKey,
    outcome: str,
    detail: str,
    parked: TurnParked | None,
    source: Source = OURS,
    *,
    is_open: bool = False,
) -> NotToldError:
    address, stop = key.address, stop_in_words(outcome, detail, source=source)
    until_ms = parked.reset_at_ms if parked else None
    stands = "gave no reply" if outcome == Outcome.OK else f"ended as {outcome}"
    ways, cure = "", stop.cure
    if is_open:
        stands, cure = "was interrupted, and the next attempt continues it", ""
    if until_ms is not None:
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until_ms / 1000))
        stands = f"is limited until {at}, and goes on at the next attempt after it"
    elif parked:
        stands, ways = "waits for a person", f"{go_on_command(address)}{BEGIN_AGAIN}"
    if outcome == HELD_BACK:
        ways = f"{effects_command(key.workstream)}, then {ways}"
    return NotToldError(
        ": ".join(filter(None, (f"{address} {stands}", stop.said, stop.detail))),
        hint="; ".join(filter(None, (cure, ways, f"look: upthread show {address}"))),
        is_retried=until_ms is not None if parked else is_open or outcome in RETRIED,
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


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_final(error: BaseException) -> bool:
    """Return whether another attempt would end the same way: a person has to act first.

    For DBOS: `should_retry=lambda error: not is_final(error)`.
    """
    if isinstance(error, NotToldError):
        return not error.is_retried
    return isinstance(error, (ConfigError, RefusedError, UsageError))
