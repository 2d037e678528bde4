"""Codex rollouts: `~/.codex/sessions/Y/M/D/rollout-*.jsonl`, one file a thread.

Each line is `{timestamp, type, payload}`; what was sent to the model are the `response_item` lines,
items of the Responses API. A `compacted` line with `replacement_history` puts that in the place of
all before it. A rollout is repaired in a copy: calls and outputs are made pairs. Written for Codex
0.169 (openai/codex, codex-rs/protocol; seen 2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from upthread.agent_stores.base import Unreadable, VendorHistory, is_known_version, outlined
from upthread.agent_stores.compressed import SUFFIX
from upthread.agent_stores.copies import Plan, RepairedCopy, repaired_lines
from upthread.agent_stores.lines import Line, read_lines, read_object
from upthread.boundary.directories import matched
from upthread.core import types
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.openai_responses import OUTPUT_OF
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of
from upthread.core.types import JsonValue

AGENT: Final = "codex"
WRITTEN_FOR: Final = ("0.169",)
OUTPUTS: Final = frozenset(OUTPUT_OF.values())
_SPEAKERS: Final = {"user": types.Speaker.USER, "assistant": types.Speaker.ASSISTANT}


def find_histories(home: Path) -> Iterator[Path]:
    """Yield the rollouts under a Codex home (`~/.codex`), oldest first, then the archived ones.

    Of a thread that is there plain and compressed the plain one: it is the newer.
    """
    yield from _rollouts(home, "*", is_ordinary=True)


def find_rollout(home: Path, session_id: str) -> Path | None:
    """Return where a thread's rollout is under a Codex home, None when it has none."""
    # It becomes part of a pattern: what is no id must not find another thread's file.
    if not session_id or not session_id.replace("-", "").isalnum():
        return None
    # Whatever lies under its name: it is refused where it is opened.
    return next(_rollouts(home, f"*-{session_id}", is_ordinary=False), None)


def _rollouts(home: Path, name: str, *, is_ordinary: bool) -> Iterator[Path]:
    for place in (("sessions", "*", "*", "*"), ("archived_sessions",)):
        top, *between = place
        found = matched(
            str(home / top), *between, f"rollout-{name}.jsonl*", is_ordinary=is_ordinary
        )
        paths = {path for path in found if path.removesuffix(SUFFIX).endswith(".jsonl")}
        # Of a plain one and a packed one the plain: it is the newer.
        yield from map(Path, sorted(paths - {path + SUFFIX for path in paths}))


TURN_EVENTS: Final = frozenset({"task_started", "task_complete", "turn_aborted"})
"""How Codex names the start and the end of a turn."""


def read_items(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield what was sent to the model and what Codex completed, in order, each with its kind.

    Kinds are `response_item`, `item_completed`, `compacted`, `token_count` and TURN_EVENTS.
    Lines that cannot be read are left out. StoreError when the file cannot be opened.
    """
    for line in read_lines(path):
        payload = object_of(line.value.get("payload"))
        kind = text_of(line.value.get("type"))
        if kind in {"response_item", "compacted"}:
            yield kind, payload
        elif kind == "event_msg" and payload.get("type") == "item_completed":
            yield "item_completed", object_of(payload.get("item"))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            yield "token_count", object_of(payload.get("info"))
        elif kind == "event_msg" and payload.get("type") in TURN_EVENTS:
            yield text_of(payload.get("type")), payload


class _Reading(Struct):
    characters_max: int | None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    messages: list[HistoryMessage] = field(default_factory=list[HistoryMessage])
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])


def read_rollout(path: Path, *, characters_max: int | None = None) -> VendorHistory:
    """Return the thread a rollout holds. StoreError when the file cannot be opened."""
    reading = _Reading(characters_max)
    for line in read_lines(path):
        if line.why:
            reading.unreadable.append(line.unreadable)
        else:
            _take(reading, line.place, line.value)
    meta = reading.meta
    version = text_of(meta.get("cli_version"))
    return VendorHistory(
        agent=AGENT,
        session_id=text_of(meta.get("id")) or path.stem.removeprefix("rollout-"),
        path=path,
        version=version,
        is_version_known=is_known_version(version, WRITTEN_FOR),
        history=History(messages=tuple(reading.messages)),
        unreadable=tuple(reading.unreadable),
        parent_session_id=text_of(meta.get("forked_from_id")) or None,
        directory=text_of(meta.get("cwd")),
    )


def version_in(path: Path) -> str:
    """Return the version that began a thread, empty where its rollout does not begin with one."""
    first = next(iter(read_lines(path)), None)
    return text_of(object_of(first.value.get("payload")).get("cli_version")) if first else ""


def read_histories(path: Path, *, characters_max: int | None = None) -> Iterator[VendorHistory]:
    """Yield what a file holds: one session."""
    yield read_rollout(path, characters_max=characters_max)


def _take(reading: _Reading, place: str, line: JsonObject) -> None:
    payload = object_of(line.get("payload"))
    match line.get("type"):
        case "session_meta" if not reading.meta:  # a fork repeats its parent's after its own
            reading.meta = payload
        case "response_item":
            _take_item(reading, place, payload)
        case "compacted" if "replacement_history" in payload:
            reading.messages.clear()
            for item in items_of(payload["replacement_history"]):
                _take_item(reading, place, item)
        case _:
            pass


def _take_item(reading: _Reading, place: str, item: JsonObject) -> None:
    speaker, part = _part(item, reading.characters_max)
    if part is not None:
        message = HistoryMessage(speaker=speaker, parts=(part,), place=place)
        reading.messages.append(message)


def _part(item: JsonObject, characters_max: int | None) -> tuple[types.Speaker, types.Part | None]:
    kind = text_of(item.get("type"))
    call_id = text_of(item.get("call_id"))
    if kind == "message":
        text = "".join(text_of(each.get("text")) for each in items_of(item.get("content")))
        speaker = _SPEAKERS.get(text_of(item.get("role")))
        if speaker is None:  # instructions, sent anew with every request
            return types.Speaker.USER, None
        return speaker, types.TextPart(text=outlined(text, characters_max))
    if kind in OUTPUT_OF:
        title = text_of(item.get("name")) or kind.removesuffix("_call")
        return types.Speaker.ASSISTANT, types.ToolCallPart(
            call_id=call_id, title=title, tool_kind="other", arguments=arguments_of(item)
        )
    if kind in OUTPUTS:
        text = outlined(output_text(item.get("output")), characters_max)
        return types.Speaker.TOOL, types.ToolResultPart(
            call_id=call_id, status="completed", text=text
        )
    if kind == "reasoning":
        said = items_of(item.get("summary"))
        text = "".join(text_of(each.get("text")) for each in said)
        return types.Speaker.ASSISTANT, types.ReasoningPart(text=outlined(text, characters_max))
    return types.Speaker.ASSISTANT, None


def arguments_of(item: JsonObject) -> JsonValue:
    """Return what a call was given."""
    text = text_of(item.get("arguments"))
    if not text:
        return item.get("input") or item.get("action")
    value, why = read_object(text.encode("utf-8", "surrogatepass"))
    return text if why else value


def output_text(output: JsonValue) -> str:
    """Return the text of an output: text, an object with `content`, or a list of parts."""
    if isinstance(output, Mapping):
        return text_of(output.get("content"))
    if isinstance(output, str):
        return output
    # A line each, as a turn tells it: the same result is the same text, whichever way it comes.
    return "\n".join(text for each in items_of(output) if (text := text_of(each.get("text"))))


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a rollout and make its calls and outputs pairs in the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    return repaired_lines(path, into, read_rollout, _lines)


def _lines(line: Line, plan: Plan) -> Iterator[bytes]:
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
