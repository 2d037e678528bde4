"""Answering what OpenCode asks while a prompt runs (A13).

A permission goes to the caller, and its answer is an event before it leaves. A question of the
agent's own (`question`) has no answer here: questions to a person travel in reports, so it is
dismissed, and the event says so. Without an answer a permission is rejected, which ends the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from upthread.agents._json_lines import as_object, text_at, texts_at, unknown
from upthread.agents._prompt import REJECT, RunningPrompt, permission
from upthread.agents.base import OpenRequest, PermissionRequest
from upthread.agents.opencode.parts import tool_kind
from upthread.agents.opencode.server import ApiError, OpenCodeClient, ServerGoneError
from upthread.core.types import UpstreamSessionId

OPTIONS: Final = (("once", "allow_once"), ("always", "allow_always"), (REJECT, "reject_once"))
"""What can be answered, as (OpenCode's word, ACP's kind)."""


class PermissionDesk:
    """Where the requests of one server are answered."""

    def __init__(self, client: OpenCodeClient, request: OpenRequest) -> None:
        self._client = client
        self._answer_permission = request.answer_permission

    async def answer(
        self, asked: Mapping[str, Any], running: RunningPrompt, directory: str
    ) -> None:
        """Answer one `permission.asked`. `directory` is the one its session works in."""
        reply = await permission(request_of(asked), running, self._answer_permission)
        path = f"/permission/{quote(text_at(asked, 'id'), safe='')}/reply"
        await self._post(path, directory, {"reply": reply or REJECT})

    async def dismiss(
        self, asked: Mapping[str, Any], running: RunningPrompt, directory: str
    ) -> None:
        """Dismiss one `question.asked`."""
        session = UpstreamSessionId(text_at(asked, "sessionID"))
        await running.deliver(unknown("question_dismissed", dict(asked), session))
        path = f"/question/{quote(text_at(asked, 'id'), safe='')}/reject"
        await self._post(path, directory, None)

    async def _post(self, path: str, directory: str, body: object) -> None:
        # Refused is what the turn has withdrawn meanwhile, and a server that answers no more is the
        # prompt's own end to tell: by its stream of events or by the deadline.
        with suppress(ApiError, ServerGoneError, TimeoutError):
            # It is known only in the directory that its session works in (1.18.33).
            await self._client.post(path, body, {"directory": directory} if directory else None)


def call_request(told: Mapping[str, Any]) -> PermissionRequest:
    """Return a call that is about to run, as our plug-in tells it."""
    tool, arguments = text_at(told, "tool"), told.get("arguments")
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(text_at(told, "session")),
        call_id=text_at(told, "call") or None,
        title=text_at(arguments, "command") or tool,
        tool_kind=tool_kind(tool),
        arguments=arguments,
        locations=(),
        options=(),
        tool=tool,
    )


def request_of(asked: Mapping[str, Any]) -> PermissionRequest:
    """Return a `permission.asked` as the port has it."""
    permission = text_at(asked, "permission")
    details = as_object(asked.get("metadata"))
    named = ", ".join(texts_at(asked, "patterns"))
    path = text_at(details, "filepath")
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(text_at(asked, "sessionID")),
        call_id=text_at(asked, "tool", "callID") or None,
        title=f"{permission}: {named}" if named else permission,
        tool_kind=tool_kind(permission),
        arguments={"permission": permission, "patterns": named, **details},
        locations=(path,) if path else (),
        options=OPTIONS,
        tool=permission,
    )
