"""Repair of a transcript in a copy: lines are left out, added or changed; all others stay as bytes.

What to do is decided by core/history: calls without a result are closed, results without a call and
second ones go. Lines that cannot be read are left out of the copy and stay in the one kept before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upthread.core.codec import encode_json
from upthread.core.history.openai_responses import OUTPUT_OF
from upthread.core.history.rules import items_of, object_of, text_of
from upthread.core.stream import INTERRUPTED
from upthread.core.types import JsonValue, ToolCallPart, ToolResultPart
from upthread.vendors.base import VendorHistory
from upthread.vendors.claude_code import read_transcript
from upthread.vendors.codex import OUTPUTS, read_rollout
from upthread.vendors.copies import Edit, RepairedCopy, keep, prepare, still_wrong
from upthread.vendors.lines import Line, read_lines

_SHOWN_CHARACTERS: Final = 200
_Object = dict[str, JsonValue]


def repair_rollout(path: Path, into: Path) -> RepairedCopy:
    """Copy a Codex rollout and make its calls and outputs pairs in the copy."""
    return _repaired(path, into, read_rollout, _rollout_lines)


def repair_transcript(path: Path, into: Path) -> RepairedCopy:
    """Copy a Claude Code transcript and make its tool uses and results pairs in the copy."""
    return _repaired(path, into, read_transcript, _transcript_lines)


@dataclass(slots=True)
class _Plan:
    """What is to be done, by call id, and what has been met on the way."""

    open_calls: set[str]
    made: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    edits: list[Edit] = field(default_factory=list[Edit])

    def takes(self, call_id: str) -> bool:
        """Whether a result belongs to a call before it, and is the first."""
        if call_id in self.answered or call_id not in self.made:
            return False
        self.answered.add(call_id)
        return True

    def edit(self, line: Line, why: str, after: str | None = None, *, is_new: bool = False) -> None:
        before = None if is_new else _shown(line.raw.decode("utf-8", "backslashreplace"))
        shown = None if after is None else _shown(after)
        self.edits.append(Edit(place=line.place, before=before, after=shown, why=why))


def _repaired(
    path: Path,
    into: Path,
    read: Callable[[Path], VendorHistory],
    rewrite: Callable[[Line, _Plan], Iterator[bytes]],
) -> RepairedCopy:
    history = read(path)
    before, after = prepare(into, path)
    keep(path, before)
    parts = [part for message in history.history.messages for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    plan = _Plan(open_calls=calls - answered)
    after.touch(mode=0o600)
    with after.open("wb") as copy:
        for line in read_lines(before):
            if line.why:
                plan.edit(line, line.why)
            else:
                copy.writelines(raw + b"\n" for raw in rewrite(line, plan))
    left = tuple(still_wrong(read(after)))
    return RepairedCopy(source=path, before=before, after=after, edits=tuple(plan.edits), left=left)


def _rollout_lines(line: Line, plan: _Plan) -> Iterator[bytes]:
    item = object_of(line.value.get("payload"))
    kind, call_id = text_of(item.get("type")), text_of(item.get("call_id"))
    is_item = line.value.get("type") == "response_item"
    if is_item and kind in OUTPUTS and not plan.takes(call_id):
        plan.edit(line, f"an output that no call {call_id} waits for")
        return
    yield line.raw
    if is_item and kind in OUTPUT_OF:
        plan.made.add(call_id)
        if call_id in plan.open_calls:
            output = {"type": OUTPUT_OF[kind], "call_id": call_id, "output": INTERRUPTED}
            raw = encode_json({**line.value, "payload": output})
            plan.edit(line, f"call {call_id} has no output", raw.decode(), is_new=True)
            yield raw


def _transcript_lines(line: Line, plan: _Plan) -> Iterator[bytes]:
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
    yield line.raw if entry == line.value else encode_json(entry)
    yield from _closings(line, entry, kept, plan)


def _is_orphan(block: Mapping[str, JsonValue], plan: _Plan) -> bool:
    if block.get("type") != "tool_result":
        return False
    return not plan.takes(text_of(block.get("tool_use_id")))


def _closings(
    line: Line, entry: _Object, blocks: list[Mapping[str, JsonValue]], plan: _Plan
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


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
