"""Answering the agent's permission requests through the caller, and saying who answered (A13).

The answer is an event before it leaves, so that what stands in the record is never less than what
the agent was allowed. Nothing is ever allowed here: without a running prompt, without an answer, or
with one the agent did not offer, the request is cancelled.
"""

from __future__ import annotations

from typing import Any, Final

from upthread.agents._permission_request import as_foreseen, ask_caller
from upthread.agents._prompt import RunningPrompt
from upthread.agents.acp.wire import (
    PermissionParams,
    implied_kinds,
    locations_of,
    permission_kinds,
    shaped,
)
from upthread.agents.base import AnswerPermission, PermissionRequest
from upthread.core.events import PermissionAnswered
from upthread.core.types import UpstreamSessionId

CANCELLED: Final = "cancelled"
_CANCELLED_ANSWER: Final = {"outcome": {"outcome": CANCELLED}}


class PermissionDesk:
    """Where the requests of one connection are answered."""

    def __init__(self, answer_permission: AnswerPermission) -> None:
        self._answer_permission = answer_permission

    async def answer(self, params: object, running: RunningPrompt | None) -> dict[str, Any]:
        """Return the result to send back for one request."""
        asked = shaped(params, PermissionParams)
        if asked is None or running is None:
            return _CANCELLED_ANSWER
        kinds = permission_kinds(asked.options)
        request = as_foreseen(_request(asked), running)
        answer = await ask_caller(request, running, self._answer_permission)
        kind = CANCELLED if answer.option_id is None else kinds[answer.option_id] or "unnamed"
        was_recorded = await running.deliver(
            PermissionAnswered(
                upstream_session_id=UpstreamSessionId(asked.session_id),
                call_id=asked.tool_call.tool_call_id,
                title=request.title,
                answer=kind,
                answered_by=answer.answered_by,
            )
        )
        if answer.option_id is None or not was_recorded:
            return _CANCELLED_ANSWER
        return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}


def _request(asked: PermissionParams) -> PermissionRequest:
    call = asked.tool_call
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(asked.session_id),
        call_id=call.tool_call_id,
        title=call.title or "",
        tool_kind=call.kind or "other",
        arguments=call.raw_input,
        locations=locations_of(call) or (),
        implied_kinds=frozenset(implied_kinds(call)),
        options=tuple((option.option_id, option.kind) for option in asked.options),
    )
