"""Asking the caller for a permission while a prompt runs (A13). Nothing is ever allowed here.

Every adapter's requests come through here, so that all of them are judged by what will happen: the
announced call and the request laid together (core/shell/expected_call.py).
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from upthread.agents._prompt import RunningPrompt
from upthread.agents.base import (
    AnswerPermission,
    CallAnswer,
    HoldCall,
    PermissionAnswer,
    PermissionRequest,
)
from upthread.core.events import PermissionAnswered
from upthread.core.quotas import OPTIONS
from upthread.errors import UsageError

CANCELLED: Final = "cancelled"
"""The answer on record of a question that was withdrawn, and of a call that was held back."""

ALLOWED: Final = "allow_once"
REJECTED: Final = "reject_once"
"""The same of a call that the agent did not ask about."""

_NO_ANSWER: Final = CallAnswer(answered_by="upthread: no answer", why="upthread has no answer")


def as_foreseen(asked: PermissionRequest, running: RunningPrompt) -> PermissionRequest:
    """Return a request with all that was said of its call, whatever it says itself."""
    tellings = (*running.told_of(asked.call_id), asked.told)
    whole = structs.replace(asked, tellings=tellings).foreseen
    return structs.replace(
        asked,
        title=whole.title,
        tool_kind=whole.tool_kind,
        arguments=whole.arguments,
        locations=whole.locations,
        tellings=tellings,
    )


async def ask_caller(
    asked: PermissionRequest, running: RunningPrompt, answer_permission: AnswerPermission
) -> PermissionAnswer:
    """Return the caller's answer to what `as_foreseen` made; None where it is none that is offered.

    An error of the caller's ends the prompt; a cancelled turn withdraws the question.
    """
    # What counts where the scope is cancelled while the caller is asked.
    answer = PermissionAnswer(option_id=None, answered_by="upthread: the turn was ended")
    with running.asking():
        try:
            # Within, so that too many end the turn by the same way as an error of the caller's.
            OPTIONS.require(len(asked.options))
            answer = await answer_permission(asked)
            _require_offered(answer, asked)
        except Exception as error:  # noqa: BLE001  # raised again where the prompt was called
            await running.fail(error)
            return PermissionAnswer(option_id=None, answered_by="upthread: no answer")
    return answer


async def ask_to_hold(
    asked: PermissionRequest, running: RunningPrompt, hold_call: HoldCall
) -> CallAnswer | None:
    """Return what holds back what `as_foreseen` made, None to let it run (A14).

    What was answered is an event before that. A call that cannot be recorded is held.
    """
    # Stands where the question is withdrawn or fails: what nobody judged does not run.
    answer: CallAnswer | None = _NO_ANSWER
    with running.asking():
        try:
            answer = await hold_call(asked)
        except Exception as error:  # noqa: BLE001  # raised again where the prompt was called
            await running.fail(error)
    if answer is None:
        return None
    was_recorded = await running.deliver(
        PermissionAnswered(
            upstream_session_id=asked.upstream_session_id,
            call_id=asked.call_id,
            title=asked.title,
            answer=_on_record(answer),
            answered_by=answer.answered_by,
        )
    )
    if answer.runs:
        # Too late to be recorded: the prompt is over, and the call would run outside of any turn.
        return None if was_recorded else _NO_ANSWER
    return answer


def _on_record(answer: CallAnswer) -> str:
    if answer.runs:
        return ALLOWED
    return CANCELLED if answer.ends_turn else REJECTED


def _require_offered(answer: PermissionAnswer, asked: PermissionRequest) -> None:
    offered = [option_id for option_id, _ in asked.options]
    if answer.option_id is not None and answer.option_id not in offered:
        raise UsageError(
            f"the permission for {asked.title!r} was answered with {answer.option_id!r}, "
            f"which {asked.upstream_session_id} did not offer",
            hint=f"answer with one of: {', '.join(offered) or 'nothing but None'}",
        )
