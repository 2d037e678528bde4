"""Codex's rollouts: where each is, and the records in it; one file is one thread.

A rollout is `~/.codex/sessions/Y/M/D/rollout-*.jsonl`. Since 0.137 a rollout that is older than 7
days may be `.jsonl.zst`, and a rollout that a person archived is in `archived_sessions/`. Where a
thread is there plain and compressed, the plain file is the newer one.

Each line is `{timestamp, type, payload}`; what was sent to the model are the `response_item` lines,
items of the Responses API. Before 0.40 the header and the items were bare. At first a thread was
one object in a `.json` file. Both are read as if they were lines of today. A `compacted` line with
`replacement_history` puts that in the place of all before it. Written for Codex 0.169
(openai/codex, codex-rs/protocol; seen 2026-11).
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct, structs

from upthread.agent_stores.base import Unreadable, text_in, text_of_blocks
from upthread.agent_stores.lines import BYTE_ORDER_MARK, SUFFIX, Line, read_lines, read_object
from upthread.agent_stores.reader import FileWalk, LineFile, written_at_ns
from upthread.agents._outcomes import did_run
from upthread.agents.codex import items
from upthread.agents.codex.items import failure_of_turn
from upthread.core import types
from upthread.core.codec import (
    AnyJson,
    encode_text,
    number_at,
    object_at,
    objects_at,
    text_at,
    texts_at,
)
from upthread.core.events import (
    AgentEvent,
    ContextCompacted,
    Events,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.names import rows_by_name
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.turns.agent_history import StoredFailure
from upthread.core.types import JsonObject, JsonValue, Outcome, ReasoningPart, Speaker, TextPart

SESSIONS = "sessions"
ARCHIVED = "archived_sessions"
OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The calls that Codex itself answers, and what answers them; other tools run at the provider."""

OUTPUTS = frozenset(OUTPUT_OF.values())
_ITEMS = {"message", "reasoning", "web_search_call", *OUTPUT_OF, *OUTPUTS}
TURN_EVENTS = frozenset({"task_started", "task_complete", "turn_aborted"})
"""How Codex names the start and the end of a turn."""

PUT_IN = ("<", "# AGENTS.md")
"""How a text in a user's name begins that Codex itself puts before a prompt."""

_PLACES = ((SESSIONS, 3), (SESSIONS, 0), (ARCHIVED, 0))
"""With directories of a year, a month and a day; Codex takes those without as well."""

_PREFIX = "rollout-"
_LINES = (".jsonl", ".json")
_ENVIRONMENT = re.compile(
    r"\s*<environment_context>\s*(?:<cwd>|Current working directory: )(.*?)\s*(?:</cwd>|\n)"
)
BEFORE_VERSIONS = "0.0.0"
"""In place of the version of a rollout that was written before rollouts had one."""

_STAMP_CHARACTERS = len("2026-11-23T01-24-53-")
_NEEDED = ("id", "cwd", "cli_version")
_PAGINATED = "paginated"
"""The `history_mode` of a rollout whose lines are numbered."""

_INNER = {"item_completed": "item", "token_count": "info"}
"""The member of an event that says all of it."""

_SPEAKERS = {"user": types.Speaker.USER, "assistant": types.Speaker.ASSISTANT}


# --- where they are ------------------------------------------------------------------------------


def files(
    home: Path, walk: FileWalk, name: str = "*", *, is_ordinary: bool = True
) -> Iterator[LineFile]:
    """Yield the rollouts under a Codex home (`~/.codex`), the newest days first, then archived."""
    plain = ""
    for place, levels in _PLACES:
        pattern = f"{_PREFIX}{name}.json*"
        for file in walk.files(home / place, *["*"] * levels, pattern, is_ordinary=is_ordinary):
            # Of a plain file and a compressed one the plain: it is the newer.
            is_second = file.path == plain + SUFFIX
            plain = file.path
            if file.name.removesuffix(SUFFIX).endswith(_LINES) and not is_second:
                yield file


def find_histories(home: Path, walk: FileWalk | None = None) -> Iterator[Path]:
    """Yield the rollouts under a Codex home, oldest first, then the archived ones."""
    paths = (Path(file.path) for file in files(home, walk or FileWalk()))
    yield from sorted(paths, key=lambda path: (path.parent.name == ARCHIVED, path))


def find_rollout(home: Path, session_id: str) -> Path | None:
    """Return the path of a thread's rollout under a Codex home, None when it has none."""
    # It becomes part of a pattern: what is no id must not find another thread's file.
    if not session_id or not session_id.replace("-", "").isalnum():
        return None
    # Whatever lies under its name: it is refused where it is opened.
    found = files(home, FileWalk(), f"*-{session_id}", is_ordinary=False)
    return max((Path(file.path) for file in found), key=written_at_ns, default=None)


def thread_of(name: str, meta: JsonObject) -> str:
    """Return the thread that a rollout's header names, otherwise the thread in the file's name."""
    plain = name.partition(".json")[0].removeprefix(_PREFIX)
    return text_at(meta, "id") or plain[_STAMP_CHARACTERS:] or plain


# --- what is in them -----------------------------------------------------------------------------


class Record(Struct, frozen=True, kw_only=True):
    """A line of a rollout. `unreadable` is None unless Codex cannot read the line.

    `value` is the whole line. `kind` is the line's, for example `response_item` or `compacted`, and
    of an event the event's own, for example `token_count`.
    """

    kind: str
    payload: JsonObject
    value: JsonObject
    place: str
    size_bytes: int
    unreadable: Unreadable | None = None


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a rollout in order. StoreError when the file cannot be opened."""
    for line in read_lines(path):
        value = as_of_today(line.value)
        kind, payload = text_at(value, "type"), object_at(value, "payload")
        if kind == "event_msg":
            kind = text_at(payload, "type")
            payload = object_at(payload, _INNER[kind]) if kind in _INNER else payload
        why = line.why or _why_not(line, value)
        yield Record(
            kind=kind,
            payload=payload,
            value=value,
            place=line.place,
            size_bytes=len(line.raw),
            unreadable=structs.replace(line.unreadable, why=why) if why else None,
        )


def _why_not(line: Line, today: JsonObject) -> str:
    """Return why Codex cannot read a line that is JSON, empty if it can."""
    if line.raw.startswith(BYTE_ORDER_MARK):
        return "it begins with a byte order mark"
    if rb"\ud" in line.raw.lower():
        try:
            json.dumps(line.value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return "it has half of a character"
    # Of a rollout of bare items the header says it once.
    is_timed = today is not line.value or text_at(line.value, "timestamp")
    return "" if is_timed else "it has no time that is text"


def as_of_today(value: JsonObject) -> JsonObject:
    """Return a line in the form of today: a header or an item that is bare gets what is around it.

    An old state of Codex's own becomes an empty line.
    """
    if "payload" in value:
        return value
    stamp = text_at(value, "timestamp")
    if "type" not in value and text_at(value, "id"):
        unsaid = {"cli_version": BEFORE_VERSIONS, "originator": "codex_cli_rs"}
        return {"timestamp": stamp, "type": "session_meta", "payload": {**unsaid, **value}}
    if text_at(value, "type") in _ITEMS:
        return {"timestamp": stamp, "type": "response_item", "payload": value}
    return {} if "record_type" in value else value


def directory_in(text: str) -> str:
    """Return the working directory that Codex tells the model of, empty in any other text."""
    found = _ENVIRONMENT.match(text)
    return found[1] if found else ""


def directory_of(records: Sequence[Record]) -> str:
    """Return the directory that the first of a thread's items names which names one, else empty."""
    for record in records:
        asked = text_at(arguments_of(record.payload), "workdir")
        if directory := directory_in(text_in(record.payload.get("content"))) or asked:
            return directory
    return ""


def refusals(records: Sequence[Record]) -> Iterator[Unreadable]:
    """Yield why Codex does not resume a rollout, beside lines that it cannot read.

    Measured: docs/agents/shapes/codex.json.
    """
    if not records:
        yield Unreadable(place="the file", why="it holds nothing, so that Codex refuses it")
        return
    first = records[0]
    missing = [name for name in _NEEDED if not text_at(first.payload, name)]
    why = ""
    if first.kind != "session_meta":
        why = "the first line is not the thread's header"
    elif text_at(first.payload, "cli_version") == BEFORE_VERSIONS:
        why = "a Codex before 0.40 wrote it"
    elif missing:
        why = f"the header has no {missing[0]}"
    if why and first.unreadable is None:
        yield Unreadable(place=first.place, why=f"{why}: Codex refuses it")
    kinds = {each.kind for each in records}
    if "item_completed" in kinds and kinds.isdisjoint({"response_item", "compacted"}):
        why = "it has events alone: Codex resumes without all that was said"
        yield Unreadable(place=first.place, why=why)
    if is_unnumbered(records):
        last = "the last line has no ordinal"
        yield Unreadable(place=records[-1].place, why=f"{last}: Codex refuses it")


def is_unnumbered(records: Sequence[Record]) -> bool:
    """Return whether Codex numbers the lines of a rollout, and its last line has no number."""
    lines = [each.value for each in records if each.value]
    modes = [text_at(each, "payload", "history_mode") for each in lines[:1]]
    return _PAGINATED in modes and "ordinal" not in lines[-1]


def summary_of(payload: JsonObject) -> JsonObject:
    """Return the item that an older version's compaction puts after the prompts before it."""
    content = [{"type": "input_text", "text": text_at(payload, "message")}]
    return {"type": "message", "role": "user", "content": content}


def part_of(item: JsonObject) -> tuple[types.Speaker, types.Part | None]:
    """Return who an item is of, and its part of the conversation, None for what is no part."""
    kind = text_at(item, "type")
    call_id = text_at(item, "call_id")
    if kind == "message":
        text = "".join(text_at(each, "text") for each in objects_at(item, "content"))
        speaker = _SPEAKERS.get(text_at(item, "role"))
        if speaker is None:  # instructions, sent anew with every request
            return types.Speaker.USER, None
        return speaker, types.TextPart(text=text)
    if kind in OUTPUT_OF:
        title = text_at(item, "name") or kind.removesuffix("_call")
        return types.Speaker.ASSISTANT, types.ToolCallPart(
            call_id=call_id, title=title, tool_kind="other", arguments=arguments_of(item)
        )
    if kind in OUTPUTS:
        text = output_text(item.get("output"))
        return types.Speaker.TOOL, types.ToolResultPart(
            call_id=call_id, status="completed", text=text
        )
    if kind == "reasoning":
        said = objects_at(item, "summary") or objects_at(item, "content")
        text = "".join(text_at(each, "text") for each in said)
        return types.Speaker.ASSISTANT, types.ReasoningPart(text=text)
    return types.Speaker.ASSISTANT, None


def arguments_of(item: JsonObject) -> JsonValue:
    """Return what a call was given."""
    text = text_at(item, "arguments")
    if not text:
        return item.get("input") or item.get("action")
    value, why = read_object(encode_text(text))
    return text if why else value


def output_text(output: JsonValue) -> str:
    """Return the text of an output: text, an object with `content`, or a list of parts.

    An older version's text of a command is an object itself, written as JSON.
    """
    text = text_at(output, "content") or text_of_blocks(output)
    printed = _printed(text)
    return text_at(printed, "output") if printed else text


def _printed(text: str) -> JsonObject:
    if not text.startswith("{"):
        return {}
    value, _ = read_object(encode_text(text))
    return value if set(value) == {"output", "metadata"} else {}


# --- what the records say, as events, and how the newest turn failed ------------------------------

# What was sent to the model tells that a call was made; what Codex completed, under the same id,
# tells it whole. A call without either end was cut off.


_KINDS = rows_by_name(
    ("exec_command shell write_stdin", "execute"),
    ("apply_patch", "edit"),
    ("view_image", "read"),
    # What a sub-agent does is announced as its own calls.
    ("update_plan spawn_agent send_input wait_agent", "think"),
)
"""ACP's kind of a tool that is known by its name alone, since its call never ended."""

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_ACTIONS = {"read": "read", "list_files": "listFiles", "search": "search"}
_REFUSED = (
    "unsupported call",
    "Command blocked by PreToolUse hook: ",
    "Tool call blocked by PreToolUse hook: ",
)
"""How the output of a call begins that Codex never made. That of a command begins otherwise."""

_ENDED = re.compile(r"(?:.*\n){,2}?(?:Exit code:|Process exited with code) (\d+)")
"""How an older version's output of a command that has ended says so, above what it printed."""

_SHELL = ("-lc", "-c")


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
    error = object_at(turn, "error")
    if last.kind != "task_complete" or not error:
        return None
    info = error.get("codex_error_info")
    named = _camel(info) if isinstance(info, str) else _in_camel(object_at(info))
    failure = failure_of_turn({"message": error.get("message"), "codexErrorInfo": named})
    return StoredFailure(outcome=failure.outcome, detail=failure.detail)


def _camel(name: str) -> str:
    """Return a name as Codex's server has it, which its store has in snake case."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _in_camel(members: AnyJson) -> AnyJson:
    return {
        _camel(name): _in_camel(inner) if (inner := object_at(each)) else each
        for name, each in members.items()
    }


def events_of(records: Sequence[Record]) -> Iterator[AgentEvent]:
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
            yield ContextCompacted()
        elif kind == "token_count":
            yield from _usage(each)
        elif kind == "item_completed":
            yield from _spoken(each)
        elif kind == "response_item" and text_at(each, "type") in {"message", "reasoning"}:
            yield from _unreported(each, reported)
        elif kind == "response_item" and text_at(each, "type") in OUTPUT_OF:
            call_id = text_at(each, "call_id")
            item = _as_item(completed.get(call_id, {}))
            if item is not None:
                yield from _whole(item)
            else:
                yield from _by_name(each, outputs.get(call_id))


def _usage(told: AnyJson) -> Iterator[AgentEvent]:
    """Yield what the thread holds after a model's answer."""
    last, window = told.get("last_token_usage"), told.get("model_context_window")
    usage = _in_camel({"last": last, "model_context_window": window})
    held = items.usage({"tokenUsage": usage})
    if held is not None:
        yield held


def _spoken(item: AnyJson) -> Events:
    text = _words(item)
    match text_at(item, "type"):
        case "UserMessage":
            return items.user_text(item)
        case "AgentMessage":
            return items.said({"type": "agentMessage", "id": item.get("id")}, text)
        case "Reasoning":
            return items.said({"type": "reasoning"}, text)
        case _:
            return ()


def _words(item: AnyJson) -> str:
    return text_of_blocks(item.get("content")) or "\n\n".join(texts_at(item, "summary_text"))


def _packed(text: str) -> str:
    return "".join(text.split())


def _unreported(item: AnyJson, reported: AbstractSet[str]) -> Iterator[AgentEvent]:
    """Yield a message that no completed item repeats: of an older version, or of a killed turn."""
    speaker, part = part_of(item)
    if not isinstance(part, TextPart | ReasoningPart) or part.text.lstrip().startswith(PUT_IN):
        return
    words = _packed(part.text)
    if words in reported or any(words in each or each in words for each in reported):
        return
    if speaker is Speaker.USER:
        yield UserTextReplayed(text=part.text)
    else:
        kind = "agentMessage" if isinstance(part, TextPart) else "reasoning"
        yield from items.said({"type": kind}, part.text)


def _as_item(completed: AnyJson) -> AnyJson | None:
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
        "changes": [{"path": path} for path in object_at(completed, "changes")],
    }


def _whole(item: AnyJson) -> Iterator[AgentEvent]:
    # Codex reads files with commands: what it saw there has to be known, to know it changed since.
    read = tuple(
        path
        for each in objects_at(item, "commandActions")
        if each.get("type") == "read" and (path := text_at(each, "path"))
    )
    made, ended = items.announced(item), items.updated(item)
    yield structs.replace(made, locations=made.locations or read)
    yield structs.replace(ended, locations=None)


def _by_name(call: AnyJson, output: AnyJson | None) -> Iterator[AgentEvent]:
    tool, call_id = text_at(call, "name") or text_at(call, "type"), text_at(call, "call_id")
    arguments = arguments_of(call)
    command, patched = _command(arguments), _patched(tool, arguments)
    kind = _KINDS.get(tool, "other")
    yield ToolCallAnnounced(
        call_id=call_id,
        title=one_line(command or " ".join((tool, *patched)))[:TITLE_CHARACTERS_MAX],
        tool_kind=kind,
        arguments={"command": command} if command else arguments,
        locations=patched,
    )
    if output is not None:
        text = output_text(output.get("output"))
        exit_code = _exit_code(text_of_blocks(output.get("output")))
        yield ToolCallUpdated(
            call_id=call_id,
            status=_status(kind, text, exit_code),
            text=text,
            did_run=did_run(exit_code),
        )


def _exit_code(output: str) -> int | None:
    """Return how a command ended, None where its output is without it."""
    ended = _ENDED.match(output)
    return int(ended[1]) if ended else number_at(_printed(output), "metadata", "exit_code")


def _status(kind: str, output: str, exit_code: int | None) -> str | None:
    """Return how a call ended of which there is only the output; None where that is unknown.

    A command that works on, and a patch nobody saw applied, have one as well.
    """
    if exit_code or output.startswith(_REFUSED):
        return "failed"
    is_unknown = exit_code is None and kind in {"edit", "execute"}
    return None if is_unknown else "completed"


def _command(arguments: JsonValue) -> str:
    words = texts_at(arguments, "command")
    return text_at(arguments, "cmd") or text_at(arguments, "command") or shlex.join(words)


def _patched(tool: str, arguments: JsonValue) -> tuple[str, ...]:
    """Return the files that a patch names."""
    if tool != "apply_patch":
        return ()
    patch = arguments if isinstance(arguments, str) else text_at(arguments, "input")
    return tuple(_PATCHED.findall(patch))
