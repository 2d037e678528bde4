"""What the records of a rollout say, as events, and how the newest turn failed. Pure.

What was sent to the model tells that a call was made; what Codex completed, under the same id,
tells it whole. A call without either end was cut off. Shapes as in rollouts of 0.169.0.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import structs

from upthread.agents._json_lines import as_object, objects_at, text_at, texts_at
from upthread.agents.codex import items
from upthread.agents.codex.outcomes import failure_of_turn
from upthread.agents.codex.rollouts import (
    OUTPUT_OF,
    OUTPUTS,
    PUT_IN,
    TURN_EVENTS,
    Record,
    arguments_of,
    output_text,
    part_of,
)
from upthread.core.events import (
    AgentEvent,
    ContextCompacted,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.turns.recognition import StoredFailure
from upthread.core.types import JsonValue, Outcome, Speaker, TextPart, UpstreamSessionId

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("exec_command", "shell", "write_stdin"), "execute"),
    **dict.fromkeys(("apply_patch",), "edit"),
    **dict.fromkeys(("view_image",), "read"),
    # What a sub-agent does is announced as its own calls.
    **dict.fromkeys(("update_plan", "spawn_agent", "send_input", "wait_agent"), "think"),
}
"""ACP's kind of a tool that is known by its name alone, since its call never ended."""

_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_ACTIONS: Final = {"read": "read", "list_files": "listFiles", "search": "search"}
_REFUSED: Final = (
    "unsupported call",
    "Command blocked by PreToolUse hook: ",
    "Tool call blocked by PreToolUse hook: ",
)
"""How the output of a call begins that Codex never made. That of a command begins otherwise."""

_SHELL: Final = ("-lc", "-c")


def failure_of(records: Sequence[Record]) -> StoredFailure | None:
    """Return how the newest turn failed: Codex calls no hook for it (0.171.0).

    A turn that a person stopped is its own root; its sub-agents' turns end with their root.
    """
    last = next((each for each in reversed(records) if each.kind in TURN_EVENTS), None)
    if last is None:
        return None
    turn = last.payload
    if last.kind == "turn_aborted" and turn.get("root_turn_id") == turn.get("turn_id"):
        return StoredFailure(outcome=Outcome.CANCELLED, detail="")
    error = as_object(turn.get("error"))
    if last.kind != "task_complete" or not error:
        return None
    info = error.get("codex_error_info")
    named = _camel(info) if isinstance(info, str) else _in_camel(as_object(info))
    failure = failure_of_turn({"message": error.get("message"), "codexErrorInfo": named})
    return StoredFailure(outcome=failure.outcome, detail=failure.detail)


def _camel(name: str) -> str:
    """Return a name as Codex's server has it, which its store has in snake case."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _in_camel(members: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _camel(name): _in_camel(inner) if (inner := as_object(each)) else each
        for name, each in members.items()
    }


def events_of(records: Sequence[Record], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    """Yield what a thread's records say."""
    completed = {text_at(e.payload, "id"): e.payload for e in records if e.kind == "item_completed"}
    outputs = {
        text_at(each.payload, "call_id"): each.payload
        for each in records
        if text_at(each.payload, "type") in OUTPUTS
    }
    reported = {_packed(_words(each)) for each in completed.values()} - {""}
    for record in records:
        kind, each = record.kind, record.payload
        if kind == "compacted":
            yield ContextCompacted(upstream_session_id=session)
        elif kind == "token_count":
            yield from _usage(each, session)
        elif kind == "item_completed":
            yield from _spoken(each, session)
        elif kind == "response_item" and text_at(each, "type") == "message":
            yield from _unreported(each, session, reported)
        elif kind == "response_item" and text_at(each, "type") in OUTPUT_OF:
            call_id = text_at(each, "call_id")
            item = _as_item(completed.get(call_id, {}))
            if item is not None:
                yield from _whole(item, session)
            else:
                yield from _by_name(each, session, outputs.get(call_id))


def _usage(told: Mapping[str, Any], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    """Yield what the thread holds after a model's answer."""
    last, window = told.get("last_token_usage"), told.get("model_context_window")
    usage = _in_camel({"last": last, "model_context_window": window})
    held = items.usage({"tokenUsage": usage}, session)
    if held is not None:
        yield held


def _spoken(item: Mapping[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    text = _words(item)
    match text_at(item, "type"):
        case "UserMessage":
            return items.user_text(item, session)
        case "AgentMessage":
            return items.said({"type": "agentMessage", "id": item.get("id")}, session, text)
        case "Reasoning":
            thought = "\n\n".join(texts_at(item, "summary_text"))
            return items.said({"type": "reasoning"}, session, thought)
        case _:
            return ()


def _words(item: Mapping[str, Any]) -> str:
    return "\n".join(text_at(each, "text") for each in objects_at(item, "content"))


def _packed(text: str) -> str:
    return "".join(text.split())


def _unreported(
    item: Mapping[str, Any], session: UpstreamSessionId, reported: AbstractSet[str]
) -> Iterator[AgentEvent]:
    """Yield a message that no completed item repeats: of an older version, or of a killed turn."""
    speaker, part = part_of(item)
    if not isinstance(part, TextPart) or part.text.lstrip().startswith(PUT_IN):
        return
    words = _packed(part.text)
    if words in reported or any(words in each or each in words for each in reported):
        return
    if speaker is Speaker.USER:
        yield UserTextReplayed(upstream_session_id=session, text=part.text)
    else:
        yield from items.said({"type": "agentMessage"}, session, part.text)


def _as_item(completed: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a completed call as Codex's server tells it, None for what is no call of its own."""
    kind = text_at(completed, "type")
    # The server's own names, but stored with a capital and members in snake case (0.169.0).
    kind = kind[:1].lower() + kind[1:]
    if kind not in items.KINDS:
        return None
    words = texts_at(completed, "command")
    is_of_shell = len(words) == 3 and words[1] in _SHELL  # shell, option, line
    actions = [
        {**each, "type": _ACTIONS.get(text_at(each, "type"), "unknown")}
        for each in objects_at(completed, "parsed_cmd")
    ]
    return {
        **completed,
        "type": kind,
        "command": words[2] if is_of_shell else shlex.join(words),
        "commandActions": actions,
        "aggregatedOutput": completed.get("aggregated_output"),
        "changes": [{"path": path} for path in as_object(completed.get("changes"))],
    }


def _whole(item: Mapping[str, Any], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    # Codex reads files with commands: what it saw there has to be known, to know it changed since.
    read = tuple(
        path
        for each in objects_at(item, "commandActions")
        if each.get("type") == "read" and (path := text_at(each, "path"))
    )
    made, ended = items.announced(item, session), items.updated(item, session)
    yield structs.replace(made, locations=made.locations or read)
    yield structs.replace(ended, locations=None)


def _by_name(
    call: Mapping[str, Any], session: UpstreamSessionId, output: Mapping[str, Any] | None
) -> Iterator[AgentEvent]:
    tool, call_id = text_at(call, "name") or text_at(call, "type"), text_at(call, "call_id")
    arguments = arguments_of(call)
    command, patched = _command(arguments), _patched(tool, arguments)
    kind = _KINDS.get(tool, "other")
    yield ToolCallAnnounced(
        upstream_session_id=session,
        call_id=call_id,
        title=one_line(command or " ".join((tool, *patched)))[:TITLE_CHARACTERS_MAX],
        tool_kind=kind,
        arguments={"command": command} if command else arguments,
        locations=patched,
    )
    if output is not None:
        text = output_text(output.get("output"))
        yield ToolCallUpdated(
            upstream_session_id=session, call_id=call_id, status=_status(kind, text), text=text
        )


def _status(kind: str, output: str) -> str | None:
    """Return how a call ended of which there is only the output; None where that is unknown.

    A command that works on, and a patch nobody saw applied, have one as well.
    """
    if output.startswith(_REFUSED):
        return "failed"
    return None if kind in {"edit", "execute"} else "completed"


def _command(arguments: JsonValue) -> str:
    if not isinstance(arguments, Mapping):
        return ""
    words = texts_at(arguments, "command")
    return text_at(arguments, "cmd") or text_at(arguments, "command") or shlex.join(words)


def _patched(tool: str, arguments: JsonValue) -> tuple[str, ...]:
    """Return the files that a patch names."""
    if tool != "apply_patch":
        return ()
    patch = arguments if isinstance(arguments, str) else text_at(arguments, "input")
    return tuple(_PATCHED.findall(patch))
