"""Repair a transcript of Claude Code in a copy: tool uses and results are made pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from upthread.agent_stores.copies import Plan, RepairedCopy, repaired_lines
from upthread.agent_stores.lines import Line
from upthread.agents.claude_code.reader import read_histories
from upthread.agents.claude_code.transcripts import Branch, branch_of, read_entries
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.json_values import items_of, object_of, text_of
from upthread.core.types import JsonValue

_Object = dict[str, JsonValue]


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a transcript and make its tool uses and results pairs in the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    branch = branch_of(read_entries(path, characters_max=0))
    ids = {each.uuid: _uuid(each.uuid, []) for each in branch.sent if each.uuid == each.place}
    return repaired_lines(path, into, read_histories, partial(_lines, branch=branch, ids=ids))


def _lines(line: Line, plan: Plan, *, branch: Branch, ids: Mapping[str, str]) -> Iterator[bytes]:
    entry: _Object = dict(line.value)
    uuid = text_of(entry.get("uuid")) or line.place
    if uuid in branch.beside:
        plan.edit(line, "another process wrote it to a branch that is not resumed")
        return
    if uuid in ids:
        entry["uuid"] = ids[uuid]
    if uuid in branch.joined:
        above = ids.get(branch.joined[uuid], branch.joined[uuid])
        entry["parentUuid"] = above or None
        plan.edit(line, "it hung on nothing", f"parentUuid: {above}")
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
