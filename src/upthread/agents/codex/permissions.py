"""Answering what Codex asks while a prompt runs (A13).

A permission goes to the caller, and its answer is an event before it leaves. What is granted is
granted once, for the one call: never for the session, and never as a rule of Codex's own. A
question of the agent's own has no answer here, since questions to a person travel in reports; it is
dismissed, and the event says so. Without an answer the call is refused and the turn is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from upthread.agents._json_lines import as_object, member, text_at, unknown
from upthread.agents._prompt import ALLOW, REJECT, RunningPrompt, permission
from upthread.agents.base import ALLOW_OR_REJECT, OpenRequest, PermissionRequest
from upthread.agents.codex.server import CodexServer
from upthread.core.events import ToolCallAnnounced
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import JsonValue, UpstreamSessionId

CANCEL: Final = "cancel"

QUESTION: Final = "item/tool/requestUserInput"
APPLY_PATCH: Final = "apply_patch"
"""What its hook calls a change of files, whose text it hands over as a command (0.169.0)."""

_Told: TypeAlias = Mapping[str, Any]
_Answer: TypeAlias = Mapping[str, Any]


class _Kind(Struct, frozen=True, kw_only=True):
    """One kind of request: what it is about, and each answer in Codex's own words."""

    tool_kind: str
    title: Callable[[_Told], str]
    answers: Callable[[_Told], Mapping[str, _Answer]]


def _decisions(_told: _Told) -> Mapping[str, _Answer]:
    words = {ALLOW: "accept", REJECT: "decline", CANCEL: "cancel"}
    return {answer: {"decision": word} for answer, word in words.items()}


def _grants(told: _Told) -> Mapping[str, _Answer]:
    nothing: _Answer = {"permissions": {}, "scope": "turn"}
    asked_for = as_object(told.get("permissions"))
    return {ALLOW: {**nothing, "permissions": asked_for}, REJECT: nothing, CANCEL: nothing}


def _elicited(_told: _Told) -> Mapping[str, _Answer]:
    words = {ALLOW: "accept", REJECT: "decline", CANCEL: "cancel"}
    return {
        answer: {"action": word, "content": {} if answer == ALLOW else None, "_meta": None}
        for answer, word in words.items()
    }


_REQUESTS: Final[Mapping[str, _Kind]] = {
    "item/commandExecution/requestApproval": _Kind(
        tool_kind="execute",
        title=lambda told: text_at(told, "command") or "a command",
        answers=_decisions,
    ),
    "item/fileChange/requestApproval": _Kind(
        tool_kind="edit", title=lambda _told: "edit", answers=_decisions
    ),
    "item/permissions/requestApproval": _Kind(
        tool_kind="other",
        title=lambda told: f"more permissions: {text_at(told, 'reason') or 'no reason given'}",
        answers=_grants,
    ),
    "mcpServer/elicitation/request": _Kind(
        tool_kind="other",
        title=lambda told: f"{text_at(told, 'serverName')}: {text_at(told, 'message')}",
        answers=_elicited,
    ),
}


class PermissionDesk:
    """Where the requests of one server are answered."""

    def __init__(self, server: CodexServer, request: OpenRequest) -> None:
        self._server = server
        self._answer_permission = request.answer_permission

    async def answer(
        self,
        message: _Told,
        running: RunningPrompt | None,
        call: ToolCallAnnounced | None,
    ) -> None:
        """Answer one request of the server's. `call` is the call it is about, where it is known."""
        method, told = text_at(message, "method"), as_object(message.get("params"))
        request_id = message.get("id")
        kind = _REQUESTS.get(method)
        if method == QUESTION:
            await self._dismiss(request_id, told, running)
        # A form wants words of a person, which travel in reports; a yes or a no is a permission.
        elif kind is None or member(told, "requestedSchema", "properties") or text_at(told, "url"):
            await self._server.refuse(request_id, "upthread does not do this")
        else:
            decided = await self._decide(_request(kind, told, call), running)
            await self._server.answer(request_id, kind.answers(told)[decided])

    async def _decide(self, asked: PermissionRequest, running: RunningPrompt | None) -> str:
        if running is None:
            return CANCEL
        return await permission(asked, running, self._answer_permission) or CANCEL

    async def _dismiss(
        self, request_id: object, told: _Told, running: RunningPrompt | None
    ) -> None:
        if running is not None:
            session = UpstreamSessionId(text_at(told, "threadId"))
            await running.deliver(unknown("question_dismissed", dict(told), session))
        await self._server.answer(request_id, {"answers": {}})


def call_request(told: _Told) -> PermissionRequest:
    """Return a call that is about to run, as our hook tells it."""
    tool, arguments = text_at(told, "tool"), told.get("arguments")
    command = text_at(arguments, "command")
    if tool == APPLY_PATCH:
        arguments, command = {"patch": command}, ""
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(text_at(told, "session")),
        call_id=text_at(told, "call") or None,
        title=one_line(command or tool)[:TITLE_CHARACTERS_MAX],
        tool_kind="execute" if command else "edit" if tool == APPLY_PATCH else "other",
        arguments=arguments,
        locations=(),
        options=(),
        tool=tool,
        reads_by_commands=True,
    )


def _request(kind: _Kind, told: _Told, call: ToolCallAnnounced | None) -> PermissionRequest:
    arguments: dict[str, JsonValue] = {}
    for name in ("command", "cwd", "reason", "permissions", "grantRoot", "networkApprovalContext"):
        value: Any = told.get(name)
        if value not in (None, ""):
            arguments[name] = value
    title = call.title if call and kind.tool_kind == "edit" else kind.title(told)
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(text_at(told, "threadId")),
        call_id=text_at(told, "itemId") or None,
        title=one_line(title)[:TITLE_CHARACTERS_MAX],
        tool_kind=call.tool_kind if call and kind.tool_kind == "edit" else kind.tool_kind,
        arguments=_with_changes(arguments, call),
        locations=call.locations if call else (),
        options=ALLOW_OR_REJECT,
        reads_by_commands=True,
    )


def _with_changes(
    arguments: dict[str, JsonValue], call: ToolCallAnnounced | None
) -> dict[str, JsonValue]:
    """A request to change files names its call only: what it changes stands there."""
    changed = call.arguments if call else None
    return {**changed, **arguments} if isinstance(changed, dict) else arguments
