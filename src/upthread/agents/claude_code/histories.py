"""Claude Code transcripts: `~/.claude/projects/*/<session>.jsonl`, sub-agents beneath.

Entries form a tree by `parentUuid`; what is sent is the branch of the last entry. One answer is
written as several entries with the same `message.id`, one for each block, and the results of tools
used at once hang on different ones, so both are gathered beside the branch. Sub-agents are in
`<session>/subagents/agent-*.jsonl`. A transcript is repaired in a copy: tool uses and results are
made pairs. Written for Claude Code 2.1 (2.1.197 to 2.1.330; seen 2026-11).
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct, field

from upthread.agent_stores.base import Unreadable, VendorHistory, is_known_version, outlined
from upthread.agent_stores.copies import Plan, RepairedCopy, repaired_lines
from upthread.agent_stores.lines import Line, read_lines, read_object
from upthread.agents.claude_code.entries import SUBAGENTS, file_of, is_put_in
from upthread.boundary.files import read_all, through_links
from upthread.core import types
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of
from upthread.core.turns.stored_session import UNANSWERED
from upthread.core.types import JsonValue

AGENT: Final = "claude-code"
WRITTEN_FOR: Final = ("2.1",)
META_BYTES_MAX: Final = 1024 * 1024
"""Of the file beside a sub-agent's transcript that tells which call made it."""

TAIL_BYTES: Final = 256 * 1024
"""How much of a transcript's end is looked through for its newest entry."""

_SYNTHETIC_MODEL: Final = "<synthetic>"
_INTERRUPTED: Final = frozenset(
    {"[Request interrupted by user]", "[Request interrupted by user for tool use]"}
)
"""The whole text of the note where a turn was cancelled (2.1.330); in the midst of another text the
words are a quotation."""
_Object = dict[str, JsonValue]


def find_histories(home: Path) -> Iterator[Path]:
    """Yield the transcripts under a Claude home (`~/.claude`), sub-agents after their session."""
    for main in sorted((home / "projects").glob("*/*.jsonl")):
        yield main
        yield from sorted((main.with_suffix("") / SUBAGENTS).glob("agent-*.jsonl"))


class Entry(Struct, kw_only=True):
    """What of an entry decides whether and how it is sent. `parts` are already outlined.

    `is_synthetic` marks what Claude Code itself put in, the words of neither person nor model.
    `usage` is what the model's provider counted, empty for what no model said.
    """

    number: int
    uuid: str
    parent: str
    kind: str
    message_id: str
    parts: tuple[types.Part, ...]
    is_synthetic: bool = False
    usage: JsonObject = field(default_factory=dict[str, JsonValue])

    @property
    def is_said(self) -> bool:
        """Whether it holds a message."""
        return self.kind in {"user", "assistant"}


class _Reading(Struct):
    characters_max: int | None
    entries: list[Entry] = field(default_factory=list[Entry])
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])
    last: JsonObject = field(default_factory=dict[str, JsonValue])


def read_transcript(path: Path, *, characters_max: int | None = None) -> VendorHistory:
    """Return the session a transcript holds. StoreError when the file cannot be opened."""
    is_subagent = path.parent.name == SUBAGENTS
    reading = _read(path, characters_max, is_subagent=is_subagent)
    sent = branch(reading.entries)
    known = {entry.uuid for entry in reading.entries}
    for entry in sent:
        if entry.parent and entry.parent not in known:
            why = f"the entry before it, {entry.parent}, is missing"
            reading.unreadable.append(Unreadable(place=f"line {entry.number}", why=why))
    version = text_of(reading.last.get("version"))
    return VendorHistory(
        agent=AGENT,
        session_id=path.stem,
        path=path,
        version=version,
        is_version_known=is_known_version(version, WRITTEN_FOR),
        history=History(messages=tuple(m for entry in sent for m in _messages(entry))),
        unreadable=tuple(reading.unreadable),
        parent_session_id=path.parent.parent.name if is_subagent else None,
        directory=text_of(reading.last.get("cwd")),
    )


def read_histories(path: Path, *, characters_max: int | None = None) -> Iterator[VendorHistory]:
    """Yield what a file holds: one session."""
    yield read_transcript(path, characters_max=characters_max)


def read_branch(path: Path) -> list[Entry]:
    """Return the entries with messages that are sent, whole, unreadable lines left out.

    StoreError when the file cannot be opened.
    """
    is_subagent = path.parent.name == SUBAGENTS
    return branch(_read(path, None, is_subagent=is_subagent).entries)


def find_transcript(home: Path, session_id: str) -> Path | None:
    """Return where a session's transcript is under a Claude home, None when it has none.

    Whatever the working directory: that a session was begun in is part of the path.
    """
    name = PurePath(session_id).name
    # It comes from elsewhere: no path, and below no pattern, may lead to another file.
    if name != session_id or not name:
        return None
    return next((home / "projects").glob(f"*/{glob.escape(name)}.jsonl"), None)


def find_any_subagent(home: Path, agent_id: str) -> Path | None:
    """Return where the transcript of a sub-agent is, of whichever main session; None without."""
    name = PurePath(agent_id).name
    if name != agent_id or not name:
        return None
    pattern = f"*/*/{SUBAGENTS}/{glob.escape(file_of(name))}"
    return next((home / "projects").glob(pattern), None)


def version_in(path: Path) -> str:
    """Return the version that wrote to a transcript last, empty where its end has none."""
    with os.fdopen(through_links(str(path)), "rb") as transcript:
        size = transcript.seek(0, os.SEEK_END)
        transcript.seek(max(0, size - TAIL_BYTES))
        lines = transcript.read(TAIL_BYTES).split(b"\n")
    for line in reversed(lines):
        if b'"version"' in line:
            value, why = read_object(line)
            if not why and text_of(value.get("version")):
                return text_of(value.get("version"))
    return ""


def find_subagent(home: Path, main_session_id: str, agent_id: str) -> Path | None:
    """Return where the transcript of a main session's sub-agent is, None when it has none."""
    name = PurePath(agent_id).name
    main = find_transcript(home, main_session_id)
    if main is None or name != agent_id or not name:
        return None
    found = main.with_suffix("") / SUBAGENTS / file_of(name)
    return found if found.exists() else None


def subagents_of(transcript: Path) -> Path:
    """Return the directory of a session's sub-agents, which is that of their own sub-agents too."""
    is_subagent = transcript.parent.name == SUBAGENTS
    return transcript.parent if is_subagent else transcript.with_suffix("") / SUBAGENTS


def subagents_by_call(transcript: Path) -> dict[str, str]:
    """Return the id of each sub-agent of a session by the id of the call that made it."""
    made: dict[str, str] = {}
    for path in sorted(subagents_of(transcript).glob("agent-*.meta.json")):
        with suppress(OSError):
            descriptor = through_links(str(path))
            meta, _ = read_object(read_all(descriptor, str(path), bytes_max=META_BYTES_MAX))
            agent_id = path.name.removeprefix("agent-").removesuffix(".meta.json")
            made[text_of(meta.get("toolUseId"))] = agent_id
    made.pop("", None)
    return made


def call_of_subagent(transcript: str, agent_id: str) -> str:
    """Return the call that made a sub-agent, by the small file beside its transcript.

    Empty where there is none. The id may be any text: it is no path.
    """
    made = subagents_by_call(Path(transcript))
    return next((call_id for call_id, each in made.items() if each == agent_id), "")


def called_with(transcript: Path, call_id: str) -> JsonObject:
    """Return what a session's call was given, empty where it made none. StoreError as above."""
    for line in read_lines(transcript):
        for block in items_of(object_of(line.value.get("message")).get("content")):
            if block.get("type") == "tool_use" and text_of(block.get("id")) == call_id:
                return object_of(block.get("input"))
    return {}


def newest_heard(path: Path) -> str:
    """Return the id of the newest entry that the model was given, empty where the end tells none.

    With UNANSWERED after it while no text follows: Claude Code may write what the model said last
    after the turn's end. Raises OSError.
    """
    with os.fdopen(through_links(str(path)), "rb") as transcript:
        size = transcript.seek(0, os.SEEK_END)
        transcript.seek(max(0, size - TAIL_BYTES))
        lines = transcript.read(TAIL_BYTES).split(b"\n")
    unanswered = UNANSWERED
    for line in reversed(lines):
        # A look that costs little, before decoding. The first piece may be the rest of a line.
        is_reply = bool(unanswered) and b'"assistant"' in line and b'"text"' in line
        if not is_reply and b'"user"' not in line:
            continue
        value, why = read_object(line)
        if not why and value.get("type") == "user":
            return text_of(value.get("uuid")) + unanswered
        if not why and is_reply and value.get("type") == "assistant":
            unanswered = ""
    return ""


def _read(path: Path, characters_max: int | None, *, is_subagent: bool) -> _Reading:
    reading = _Reading(characters_max)
    for line in read_lines(path):
        if line.why:
            reading.unreadable.append(line.unreadable)
        else:
            _take(reading, line, is_subagent=is_subagent)
    return reading


def branch(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with messages that belong to the branch of the last one, in file order.

    Where an entry's parent is missing, the branch goes on with the one stored before it.
    """
    position = {entry.uuid: index for index, entry in enumerate(entries)}
    index = next((i for i in reversed(range(len(entries))) if entries[i].is_said), -1)
    members: set[int] = set()
    # Parents in a damaged file may go in a circle.
    while index >= 0 and index not in members:
        members.add(index)
        parent = entries[index].parent
        index = position.get(parent, index - 1) if parent else -1
    _gather(entries, members)
    return [entries[i] for i in sorted(members) if entries[i].is_said]


def _gather(entries: Sequence[Entry], members: set[int]) -> None:
    """Add the other blocks of the branch's answers, and the results of their tool uses."""
    answers = {entries[i].message_id for i in members} - {""}
    members |= {i for i, entry in enumerate(entries) if entry.message_id in answers}
    called = {
        part.call_id
        for i in members
        for part in entries[i].parts
        if isinstance(part, types.ToolCallPart)
    }
    members |= {
        i
        for i, entry in enumerate(entries)
        if any(isinstance(p, types.ToolResultPart) and p.call_id in called for p in entry.parts)
    }


def _take(reading: _Reading, line: Line, *, is_subagent: bool) -> None:
    value = line.value
    uuid = text_of(value.get("uuid"))
    if not uuid:  # titles, snapshots, queue operations: not part of the tree
        return
    kind = text_of(value.get("type"))
    message = object_of(value.get("message"))
    is_other = bool(value.get("isSidechain")) and not is_subagent
    is_sent = kind in {"user", "assistant"} and not value.get("isApiErrorMessage")
    if is_sent and not is_other:
        reading.last = value
    entry = Entry(
        number=line.number,
        uuid=uuid,
        parent=text_of(value.get("parentUuid")),
        # What is not sent stays a link of the tree: what was said after it hangs on it.
        kind=kind if is_sent and not is_other else "",
        message_id=text_of(message.get("id")) if kind == "assistant" else "",
        parts=tuple(_parts(message.get("content"), reading.characters_max)) if is_sent else (),
        is_synthetic=_is_synthetic(value, message),
        usage=object_of(message.get("usage")),
    )
    reading.entries.append(entry)


def _is_synthetic(value: JsonObject, message: JsonObject) -> bool:
    is_marked = is_put_in(value) or bool(value.get("isCompactSummary"))
    return is_marked or message.get("model") == _SYNTHETIC_MODEL or _is_interruption(message)


def _is_interruption(message: JsonObject) -> bool:
    """Whether it is what Claude Code notes, in a user's name, of a turn that was cancelled."""
    blocks = items_of(message.get("content"))
    is_note = len(blocks) == 1 and text_of(blocks[0].get("text")) in _INTERRUPTED
    return is_note and message.get("role") == "user"


def _messages(entry: Entry) -> Iterator[HistoryMessage]:
    """Yield an entry's results, then the rest, as messages of their own."""
    results = tuple(part for part in entry.parts if isinstance(part, types.ToolResultPart))
    others = tuple(part for part in entry.parts if not isinstance(part, types.ToolResultPart))
    place = f"line {entry.number}"
    # First: providers take results of calls only before anything else of a message.
    if results:
        yield HistoryMessage(speaker=types.Speaker.TOOL, parts=results, place=place)
    if others:
        speaker = types.Speaker.USER if entry.kind == "user" else types.Speaker.ASSISTANT
        yield HistoryMessage(speaker=speaker, parts=others, place=place)


def _parts(content: JsonValue, characters_max: int | None) -> Iterator[types.Part]:
    if isinstance(content, str):
        yield types.TextPart(text=outlined(content, characters_max))
        return
    for block in items_of(content):
        yield _part(block, characters_max)


def _part(block: JsonObject, characters_max: int | None) -> types.Part:
    match block.get("type"):
        case "text":
            return types.TextPart(text=outlined(text_of(block.get("text")), characters_max))
        case "thinking":
            return types.ReasoningPart(
                text=outlined(text_of(block.get("thinking")), characters_max)
            )
        case "tool_use":
            return types.ToolCallPart(
                call_id=text_of(block.get("id")),
                title=text_of(block.get("name")),
                tool_kind="other",
                arguments=block.get("input"),
            )
        case "tool_result":
            return types.ToolResultPart(
                call_id=text_of(block.get("tool_use_id")),
                status="failed" if block.get("is_error") else "completed",
                text=outlined(_text(block.get("content")), characters_max),
            )
        case "image" | "document":
            source = object_of(block.get("source"))
            return types.FilePart(
                uri=text_of(block["type"]), mime_type=text_of(source.get("media_type"))
            )
        case kind:
            return types.UnknownPart(kind=text_of(kind), raw=None)


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    # A line each, as a turn tells it: the same result is the same text, whichever way it comes.
    return "\n".join(text for block in items_of(content) if (text := text_of(block.get("text"))))


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a transcript and make its tool uses and results pairs in the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    return repaired_lines(path, into, read_transcript, _lines)


def _lines(line: Line, plan: Plan) -> Iterator[bytes]:
    entry: _Object = dict(line.value)
    parent = text_of(entry.get("parentUuid"))
    if parent in plan.parents:
        entry["parentUuid"] = plan.parents[parent] or None
    message: _Object = dict(object_of(entry.get("message")))
    blocks = items_of(message.get("content"))
    kept = [block for block in blocks if not _is_orphan(block, plan)]
    if len(kept) < len(blocks):
        if not kept:  # its children hang on what it hung on
            plan.parents[text_of(entry.get("uuid"))] = text_of(entry.get("parentUuid"))
            plan.edit(line, "results that no tool use waits for")
            return
        entry["message"] = {**message, "content": kept}
        plan.edit(line, "a result that no tool use waits for", encode_json(entry).decode())
    # Byte for byte where nothing is wrong, also what no reader of ours knows.
    yield line.raw if entry == line.value else encode_json(entry)
    yield from _closings(line, entry, kept, plan)


def _is_orphan(block: Mapping[str, JsonValue], plan: Plan) -> bool:
    if block.get("type") != "tool_result":
        return False
    return not plan.takes(text_of(block.get("tool_use_id")))


def _closings(
    line: Line, entry: _Object, blocks: list[Mapping[str, JsonValue]], plan: Plan
) -> Iterator[bytes]:
    """Yield one entry with a result for each open tool use; what hung on the answer hangs on it."""
    uses = [text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    plan.made.update(uses)
    results: list[JsonValue] = [
        {"type": "tool_result", "tool_use_id": use, "content": INTERRUPTED, "is_error": True}
        for use in uses
        if use in plan.open_calls
    ]
    if not results:
        return
    uuid = text_of(entry.get("uuid"))
    own = _uuid(uuid, results)
    plan.parents[uuid] = own
    kept = {key: held for key, held in entry.items() if key not in {"message", "requestId"}}
    closing: _Object = {
        **kept,
        "type": "user",
        "uuid": own,
        "parentUuid": uuid,
        "message": {"role": "user", "content": results},
    }
    raw = encode_json(closing)
    plan.edit(line, "tool uses have no result", raw.decode(), is_new=True)
    yield raw


def _uuid(uuid: str, results: list[JsonValue]) -> str:
    """Return a UUID that follows from what it is for: a second repair writes the same file."""
    digest = hashlib.sha256(encode_json([uuid, results])).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
