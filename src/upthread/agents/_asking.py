"""Asking the caller for a permission while a prompt runs (A13). Nothing is ever allowed here.

Every adapter's requests come through here, so that all of them are judged by what will happen: the
announced call and the request laid together (core/foreseen.py).
"""

from __future__ import annotations

from dataclasses import replace

from upthread.agents._prompting import RunningPrompt
from upthread.agents.base import AnswerPermission, PermissionAnswer, PermissionRequest
from upthread.core.quotas import OPTIONS
from upthread.errors import UsageError


def as_foreseen(asked: PermissionRequest, running: RunningPrompt) -> PermissionRequest:
    """Return a request with all that was said of its call, whatever it says itself."""
    tellings = (*running.told_of(asked.call_id), asked.told)
    whole = replace(asked, tellings=tellings).foreseen
    return replace(
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
    answer = PermissionAnswer(option_id=None, answered_by="upthread: the turn was ended")
    with running.asking():
        try:
            OPTIONS.require(len(asked.options))
            answer = await answer_permission(asked)
            _require_offered(answer, asked)
        except Exception as error:  # noqa: BLE001  # raised again where the prompt was called
            await running.fail(error)
            return PermissionAnswer(option_id=None, answered_by="upthread: no answer")
    return answer


def _require_offered(answer: PermissionAnswer, asked: PermissionRequest) -> None:
    offered = [option_id for option_id, _ in asked.options]
    if answer.option_id is not None and answer.option_id not in offered:
        raise UsageError(
            f"the permission for {asked.title!r} was answered with {answer.option_id!r}, "
            f"which {asked.upstream_session_id} did not offer",
            hint=f"answer with one of: {', '.join(offered) or 'nothing but None'}",
        )
