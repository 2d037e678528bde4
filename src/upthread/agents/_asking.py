"""Asking the caller for a permission while a prompt runs (A13). Nothing is ever allowed here."""

from __future__ import annotations

from upthread.agents._prompting import RunningPrompt
from upthread.agents.base import AnswerPermission, PermissionAnswer, PermissionRequest
from upthread.errors import UsageError


async def ask_caller(
    asked: PermissionRequest, running: RunningPrompt, answer_permission: AnswerPermission
) -> PermissionAnswer:
    """Return the caller's answer, `option_id` None where there is none that was offered.

    An error of the caller's ends the prompt; a cancelled turn withdraws the question.
    """
    answer = PermissionAnswer(option_id=None, answered_by="upthread: the turn was ended")
    with running.asking():
        try:
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
