"""A thread of Codex, its own or a sub-agent's, read back from its rollout.

What was sent to the model tells that a call was made; what Codex completed, under the same id,
tells it whole. A call without either end was cut off. Shapes as in rollouts of 0.169.0.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from msgspec import structs

from upthread.agent_stores.compressed import SUFFIX
from upthread.agent_stores.homes import file_stamp, require_listed, require_own
from upthread.agent_stores.lines import marked_objects, read_lines
from upthread.agents._json_lines import as_object, member, objects_at, text_at, texts_at
from upthread.agents.codex import items
from upthread.agents.codex.histories import (
    OUTPUTS,
    TURN_EVENTS,
    arguments_of,
    find_histories,
    find_rollout,
    output_text,
    read_items,
    version_in,
)
from upthread.agents.codex.outcomes import failure_of_turn
from upthread.core.events import (
    AgentEvent,
    ContextCompacted,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.history.openai_responses import OUTPUT_OF
from upthread.core.lazy_regex import regex
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.turns.stored_session import (
    CutOffCall,
    StoredFailure,
    StoredSession,
    UndecidedCall,
)
from upthread.core.types import JsonValue, Outcome, UpstreamSessionId

SPAWN: Final = "spawn_agent"
UNNAMED_ROLE: Final = "default"
"""How Codex calls a sub-agent whose type the model did not name."""

ROLLOUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""It is held in memory whole; of a larger one it is said that it was not compared."""


_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("exec_command", "shell", "write_stdin"), "execute"),
    **dict.fromkeys(("apply_patch",), "edit"),
    **dict.fromkeys(("view_image",), "read"),
    # What a sub-agent does is announced as its own calls.
    **dict.fromkeys(("update_plan", "spawn_agent", "send_input", "wait_agent"), "think"),
}
"""ACP's kind of a tool that is known by its name alone, since its call never ended."""

_PATCHED: Final = regex(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_ACTIONS: Final = {"read": "read", "list_files": "listFiles", "search": "search"}
_REFUSED: Final = (
    "unsupported call",
    "Command blocked by PreToolUse hook: ",
    "Tool call blocked by PreToolUse hook: ",
)
"""How the output of a call begins that Codex never made. That of a command begins otherwise."""

_SHELL: Final = ("-lc", "-c")


def read_stored(home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    if not call.session:
        return _spawned(home, call)
    return read_session(home, UpstreamSessionId(call.session))


def undecided_calls(home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the spawns of each thread in which a hook wrote a mark. Raises OSError, StoreError."""
    for path in find_histories(home):
        is_new = path.stat().st_mtime_ns >= since_ns and path.suffix != SUFFIX
        if not is_new or next(marked_objects(path, mark), None) is None:
            continue
        thread = as_object(next(read_lines(path)).value.get("payload"))
        for _, item in read_items(path):
            if text_at(item, "type") != "function_call" or text_at(item, "name") != SPAWN:
                continue
            asked = as_object(arguments_of(item))
            yield UndecidedCall(
                main_session=text_at(thread, "id"),
                call_id=text_at(item, "call_id"),
                role=text_at(asked, "agent_type") or UNNAMED_ROLE,
                prompt=text_at(asked, "message"),
                directory=text_at(thread, "cwd"),
            )


def version_of(home: Path, session: UpstreamSessionId) -> str:
    """Return the version that began a thread, empty where that is not known."""
    path = find_rollout(home, session)
    return version_in(path) if path else ""


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a thread's rollout is known by, empty without one."""
    path = find_rollout(home, session)
    return file_stamp(path) if path else ""


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a thread as its rollout holds it, None without one. Raises StoreError."""
    path = find_rollout(home, session)
    if path is None:
        require_listed(home / "sessions")
        return None
    require_own(home, path, bytes_max=ROLLOUT_BYTES_MAX)
    # Before it is read: what is touched in between then counts as not seen by the session.
    written_at_ns = path.stat().st_mtime_ns
    lines = list(read_items(path))
    return StoredSession(
        upstream_session_id=session,
        events=tuple(_events(lines, session)),
        written_at_ns=written_at_ns,
        failure=_failure(lines),
    )


def _failure(lines: list[tuple[str, Mapping[str, Any]]]) -> StoredFailure | None:
    """Return how the newest turn failed: Codex calls no hook for it (0.171.0).

    A turn that a person stopped is its own root; its sub-agents' turns end with their root.
    """
    kind, last = next((each for each in reversed(lines) if each[0] in TURN_EVENTS), ("", None))
    if kind == "turn_aborted" and text_at(last, "root_turn_id") == text_at(last, "turn_id"):
        return StoredFailure(outcome=Outcome.CANCELLED, detail="")
    error = as_object(member(last, "error"))
    if kind != "task_complete" or not error:
        return None
    info = _camel(error.get("codex_error_info"))
    told = {"message": error.get("message"), "codexErrorInfo": info}
    failure = failure_of_turn(told)
    return StoredFailure(outcome=failure.outcome, detail=failure.detail)


def _camel(named: object) -> object:
    """Return names as Codex's server has them, which its store has in snake case."""
    if isinstance(named, str):
        first, *others = named.split("_")
        return first + "".join(map(str.capitalize, others))
    members = cast("dict[str, object]", named)
    return {
        _camel(name): _camel(cast("dict[str, object]", each)) if isinstance(each, dict) else each
        for name, each in members.items()
    }


def _spawned(home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what became of a call that nobody saw a sub-agent of, by its main thread's rollout."""
    path, mine = _in_main(home, call)
    told = [output_text(each.get("output")) for each in mine if text_at(each, "type") in OUTPUTS]
    if path is None or not told:
        return None
    child = _agent_id(told[-1])
    if child:
        return read_stored(home, structs.replace(call, session=child))
    nowhere = UpstreamSessionId("")
    prompt = UserTextReplayed(upstream_session_id=nowhere, text=_asked(mine))
    return StoredSession(
        upstream_session_id=nowhere,
        events=(prompt,),
        written_at_ns=path.stat().st_mtime_ns,
        refusal=told[-1] or "it said nothing",
    )


def _in_main(home: Path, call: CutOffCall) -> tuple[Path | None, list[Mapping[str, Any]]]:
    """Return the rollout of a call's main thread, and what of the call is in it."""
    path = find_rollout(home, call.main_session)
    if path is None:
        return None, []
    require_own(home, path, bytes_max=ROLLOUT_BYTES_MAX)
    items = [each for kind, each in read_items(path) if kind == "response_item"]
    return path, [each for each in items if text_at(each, "call_id") == call.call_id]


def _asked(mine: list[Mapping[str, Any]]) -> str:
    asked = (text_at(as_object(arguments_of(each)), "message") for each in mine)
    return next(filter(None, asked), "")


def _agent_id(output: str) -> str:
    """Return the thread that an output of `spawn_agent` names, empty where it names none."""
    try:
        said = json.loads(output)
    except ValueError:
        return ""
    return text_at(as_object(said), "agent_id")


def _events(
    lines: list[tuple[str, Mapping[str, Any]]], session: UpstreamSessionId
) -> Iterator[AgentEvent]:
    completed = {text_at(each, "id"): each for kind, each in lines if kind == "item_completed"}
    outputs = {
        text_at(each, "call_id"): each for _, each in lines if text_at(each, "type") in OUTPUTS
    }
    for kind, each in lines:
        if kind == "compacted":
            yield ContextCompacted(upstream_session_id=session)
        elif kind == "token_count":
            yield from _usage(each, session)
        elif kind == "item_completed":
            yield from _spoken(each, session)
        elif text_at(each, "type") in OUTPUT_OF:
            call_id = text_at(each, "call_id")
            item = _as_item(completed.get(call_id, {}))
            if item is not None:
                yield from _whole(item, session)
            else:
                yield from _by_name(each, session, outputs.get(call_id))


def _usage(told: Mapping[str, Any], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    """Yield what the thread holds after a model's answer, in the words of Codex's server."""
    names = {
        "totalTokens": "total_tokens",
        "inputTokens": "input_tokens",
        "cachedInputTokens": "cached_input_tokens",
        "outputTokens": "output_tokens",
    }
    last = {name: member(told, "last_token_usage", stored) for name, stored in names.items()}
    window = member(told, "model_context_window")
    held = items.usage({"tokenUsage": {"last": last, "modelContextWindow": window}}, session)
    if held is not None:
        yield held


def _spoken(item: Mapping[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    text = "\n".join(text_at(each, "text") for each in objects_at(item, "content"))
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
