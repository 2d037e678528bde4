"""Shapes of a rollout of Codex: `sessions/Y/M/D/rollout-<time>-<thread>.jsonl`."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.support.agent_homes import compressed as packed
from tools.shapes import DIRECTORY, SESSION, Files, Line, Stored, Table, encoded, of_lines
from tools.shapes.of_lines import apart

SHAPES = Table(of_lines.SHAPES)
OTHER = "5e551000-0000-4000-8000-00000000000f"
_INSTRUCTION_CHARACTERS = 400
LONG = "word " * 190_000
DAY = "sessions/2026/11/20"
NAME = f"rollout-2026-11-20T20-00-00-{SESSION}.jsonl"


def stored(raw: str, directory: str = DIRECTORY) -> Stored:
    """Return the recorded thread as it lies on disk for a directory."""
    lines = [json.loads(line.replace(DIRECTORY, directory)) for line in raw.splitlines()]
    return Stored(lines, f"{DAY}/{NAME}", directory)


def shortened(raw: str) -> str:
    """Return a rollout in which long instructions are cut."""
    lines = [json.loads(text) for text in raw.splitlines()]
    for line in lines:
        for block in line["payload"].get("content", []):
            block["text"] = block["text"][:_INSTRUCTION_CHARACTERS]
    lines[0]["payload"].pop("base_instructions", None)
    return "".join(encoded(line).decode() for line in lines)


def _meta(s: Stored) -> dict[str, Any]:
    return s.lines[0]["payload"]


def _numbered(s: Stored) -> None:
    for number, line in enumerate(s.lines):
        if "ordinal" in line:
            line["ordinal"] = number


def _items(s: Stored, kind: str) -> list[Line]:
    return [line for line in s.lines if line["payload"].get("type") == kind]


def _drop(s: Stored, *marks: str, kind: str = "") -> None:
    """Take out the lines that say a mark, of one type alone if it is given."""
    s.lines = [
        line
        for line in s.lines
        if not (any(mark in json.dumps(line) for mark in marks) and kind in {"", line["type"]})
    ]


# --- bytes ---------------------------------------------------------------------------------------


@SHAPES
def garbage_first(s: Stored) -> bytes:
    """A line that is no JSON stands before all others."""
    return b"oops\n" + s.raw


# --- the header ----------------------------------------------------------------------------------


@SHAPES
def no_header(s: Stored) -> None:
    """The line that describes the thread is missing."""
    del s.lines[0]


@SHAPES
def header_alone(s: Stored) -> None:
    """There is only the line that describes the thread."""
    del s.lines[1:]


@SHAPES
def header_later(s: Stored) -> None:
    """The line that describes the thread comes after the first turn."""
    header = s.lines.pop(0)
    s.lines.insert(s.at("PLUM-2"), header)


@SHAPES
def header_twice(s: Stored) -> None:
    """The line that describes the thread is there twice."""
    s.lines.insert(1, copy.deepcopy(s.lines[0]))


@SHAPES
def header_of_another_thread(s: Stored) -> None:
    """The header names another thread than the file does."""
    _meta(s).update(id=OTHER, session_id=OTHER)


@SHAPES
def header_without_an_id(s: Stored) -> None:
    """The header names no thread."""
    for name in ("id", "session_id"):
        _meta(s).pop(name, None)


@SHAPES
def header_without_a_directory(s: Stored) -> None:
    """The header names no working directory."""
    del _meta(s)["cwd"]


@SHAPES
def header_without_a_version(s: Stored) -> None:
    """The header names no version."""
    del _meta(s)["cli_version"]


@SHAPES
def header_of_a_later_version(s: Stored) -> None:
    """The header names a version that is not out yet."""
    _meta(s)["cli_version"] = "3.0.0"


@SHAPES
def header_without_a_provider(s: Stored) -> None:
    """The header names no provider."""
    _meta(s).pop("model_provider", None)


@SHAPES
def header_of_an_unknown_provider(s: Stored) -> None:
    """The header names a provider that is not configured."""
    _meta(s)["model_provider"] = "nobody"


@SHAPES
def another_directory(s: Stored) -> Files:
    """The directory that it worked in is gone."""
    return {s.path: s.raw.replace(s.directory.encode(), b"/nowhere/at/all")}


@SHAPES
def a_sub_agents(s: Stored) -> None:
    """The header says that it is a sub-agent's thread."""
    spawned = {
        "parent_thread_id": OTHER,
        "depth": 1,
        "agent_nickname": "P",
        "agent_role": "planner",
    }
    _meta(s)["source"] = {"subagent": {"thread_spawn": spawned}}


@SHAPES
def forked(s: Stored) -> None:
    """It is a fork: the header of its origin follows its own."""
    origin = copy.deepcopy(s.lines[0])
    origin["payload"].update(id=OTHER, session_id=OTHER)
    _meta(s)["forked_from_id"] = OTHER
    s.lines.insert(1, origin)
    _numbered(s)


# --- numbers and times ---------------------------------------------------------------------------


@SHAPES
def no_ordinal_at_the_end(s: Stored) -> None:
    """The last line has no ordinal."""
    s.lines[-1].pop("ordinal", None)


@SHAPES
def no_ordinal_in_the_middle(s: Stored) -> None:
    """A line in the middle has no ordinal."""
    s.line("PLUM-2").pop("ordinal", None)


@SHAPES
def no_ordinals(s: Stored) -> None:
    """No line has an ordinal."""
    for line in s.lines:
        line.pop("ordinal", None)


@SHAPES
def ordinals_with_a_gap(s: Stored) -> None:
    """The ordinals have a gap."""
    for line in s.lines[s.at("PLUM-2") :]:
        line["ordinal"] += 7


@SHAPES
def an_ordinal_twice(s: Stored) -> None:
    """Two lines have the same ordinal."""
    s.lines[s.at("PLUM-2")]["ordinal"] -= 1


@SHAPES
def times_as_numbers(s: Stored) -> None:
    """Times are numbers."""
    for line in s.lines:
        line["timestamp"] = 1_795_746_437


@SHAPES
def no_times(s: Stored) -> None:
    """No line has a time."""
    for line in s.lines:
        line.pop("timestamp", None)


@SHAPES
def times_backwards(s: Stored) -> None:
    """The clock went back: each line is older than the line before it."""
    for number, line in enumerate(s.lines):
        line["timestamp"] = f"2026-11-20T20:{59 - number % 60:02}:00.000Z"


# --- items ---------------------------------------------------------------------------------------


@SHAPES
def missing_prompt(s: Stored) -> None:
    """All lines of a prompt in the middle are missing."""
    _drop(s, "PLUM-2")


@SHAPES
def missing_answer(s: Stored) -> None:
    """All lines of an answer in the middle are missing."""
    _drop(s, "PEAR-2")


@SHAPES
def missing_line(s: Stored) -> None:
    """A line in the middle is missing, and its ordinal with it."""
    del s.lines[s.at("PEAR-2")]


@SHAPES
def missing_output(s: Stored) -> None:
    """The output of a call is missing."""
    s.lines = [e for e in s.lines if e["payload"].get("type") != "function_call_output"]
    _numbered(s)


@SHAPES
def missing_call(s: Stored) -> None:
    """The call of an output is missing."""
    s.lines = [e for e in s.lines if e["payload"].get("type") != "function_call"]
    _numbered(s)


@SHAPES
def an_output_twice(s: Stored) -> None:
    """The output of a call is there twice."""
    (output,) = _items(s, "function_call_output")
    s.lines.insert(s.lines.index(output), copy.deepcopy(output))
    _numbered(s)


@SHAPES
def an_id_of_a_call_twice(s: Stored) -> None:
    """A second call has the id of the first one, and an output of its own."""
    (call,), (output,) = _items(s, "function_call"), _items(s, "function_call_output")
    s.lines += [copy.deepcopy(call), copy.deepcopy(output)]
    _numbered(s)


@SHAPES
def a_line_twice(s: Stored) -> None:
    """The line of an answer in the middle stands there twice."""
    s.lines.insert(s.at("PEAR-2"), copy.deepcopy(s.line("PEAR-2")))
    _numbered(s)


@SHAPES
def backwards(s: Stored) -> None:
    """The lines after the header stand in reverse order."""
    s.lines[1:] = reversed(s.lines[1:])
    _numbered(s)


@SHAPES
def an_unknown_kind(s: Stored) -> None:
    """A line of a kind that nobody knows stands in the middle."""
    line = copy.deepcopy(s.line("PLUM-2")) | {"type": "weather", "payload": {"sky": "blue"}}
    s.lines.insert(s.at("PLUM-2"), line)
    _numbered(s)


@SHAPES
def an_unknown_item(s: Stored) -> None:
    """An item of a kind that nobody knows stands in the middle."""
    line = copy.deepcopy(s.line("PLUM-2"))
    line |= {"type": "response_item", "payload": {"type": "hologram", "data": "x"}}
    s.lines.insert(s.at("PLUM-2"), line)
    _numbered(s)


@SHAPES
def no_payload(s: Stored) -> None:
    """A line in the middle has no payload."""
    line = {k: v for k, v in s.line("PLUM-2").items() if k != "payload"}
    s.lines.insert(s.at("PLUM-2"), line | {"payload": None})
    _numbered(s)


@SHAPES
def only_items(s: Stored) -> None:
    """Only the header and what was sent to the model are left, without events."""
    s.lines = [e for e in s.lines if e["type"] in {"session_meta", "response_item"}]
    _numbered(s)


@SHAPES
def only_events(s: Stored) -> None:
    """Only the header and events are left, without what was sent to the model."""
    s.lines = [e for e in s.lines if e["type"] in {"session_meta", "event_msg"}]
    _numbered(s)


@SHAPES
def an_open_turn(s: Stored) -> None:
    """The last turn has no end."""
    s.lines = s.lines[: s.at("PLUM-3") + 1]


@SHAPES
def an_old_format(s: Stored) -> bytes:
    """As versions before 0.40 wrote it: a header without a type, and bare items."""
    meta = _meta(s)
    header = {"id": SESSION, "timestamp": s.lines[0]["timestamp"], "instructions": None}
    items = [e["payload"] for e in s.lines if e["type"] == "response_item"]
    assert meta["id"]
    return b"".join(map(encoded, [header, {"record_type": "state"}, *items]))


@SHAPES
def as_0_144_wrote_it(s: Stored) -> None:
    """As 0.144 wrote it: no ordinals, prompts and answers as events, no completed items."""
    s.lines = [e for e in s.lines if e["payload"].get("type") != "item_completed"]
    _meta(s)["cli_version"] = "0.144.0"
    for name in ("history_mode", "session_id"):
        _meta(s).pop(name, None)
    for line in s.lines:
        line.pop("ordinal", None)


# --- compaction ----------------------------------------------------------------------------------


def _said(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def _compact(s: Stored, before: str, payload: object) -> None:
    line = copy.deepcopy(s.lines[s.at(before)]) | {"type": "compacted", "payload": payload}
    s.lines.insert(s.at(before), line)
    _numbered(s)


@SHAPES
def compacted(s: Stored) -> None:
    """It was compacted before the last turn."""
    history = [_said("PLUM-1"), _said("The summary so far: SLOE-1")]
    _compact(s, "PLUM-3", {"message": "", "replacement_history": history})


@SHAPES
def compacted_twice(s: Stored) -> None:
    """It was compacted before the second turn and before the third."""
    for before, mark in (("PLUM-2", "SLOE-1"), ("PLUM-3", "SLOE-2")):
        _compact(s, before, {"message": "", "replacement_history": [_said(mark)]})


@SHAPES
def compacted_as_before(s: Stored) -> None:
    """It was compacted by an older version: a summary, and no history in its place."""
    _compact(s, "PLUM-3", {"message": "The summary so far: SLOE-1"})


# --- size, and where it lies ---------------------------------------------------------------------


@SHAPES
def compressed(s: Stored) -> Files:
    """The rollout is compressed, as Codex does after 7 days."""
    return {f"{s.path}.zst": packed(s.raw)}


@SHAPES
def compressed_and_cut(s: Stored) -> Files:
    """The compressed rollout is cut in the middle."""
    raw = packed(s.raw)
    return {f"{s.path}.zst": raw[: len(raw) // 2]}


@SHAPES
def plain_and_compressed(s: Stored) -> Files:
    """A compressed rollout with an older state lies beside the plain one."""
    older, _ = apart(s, "PLUM-3")
    return {**s.files, f"{s.path}.zst": packed(older)}


@SHAPES
def archived(s: Stored) -> Files:
    """A person archived it."""
    return {f"archived_sessions/{NAME}": s.raw}


@SHAPES
def archived_and_compressed(s: Stored) -> Files:
    """A person archived it, and it is compressed."""
    return {f"archived_sessions/{NAME}.zst": packed(s.raw)}


@SHAPES
def archived_and_not(s: Stored) -> Files:
    """An older state is archived beside the newer one among the sessions."""
    older, _ = apart(s, "PLUM-3")
    return {**s.files, f"archived_sessions/{NAME}": older}


@SHAPES
def on_another_day(s: Stored) -> Files:
    """The rollout lies in the directory of another day than its name says."""
    return {f"sessions/2025/01/02/{NAME}": s.raw}


@SHAPES
def outside_of_a_day(s: Stored) -> Files:
    """The rollout lies directly below `sessions`."""
    return {f"sessions/{NAME}": s.raw}


@SHAPES
def under_another_name(s: Stored) -> Files:
    """The file is called after another thread than its header."""
    return {s.path.replace(SESSION, OTHER): s.raw}


@SHAPES
def in_two_days(s: Stored) -> Files:
    """An older state of the rollout lies in the directory of an earlier day."""
    older, _ = apart(s, "PLUM-3")
    name = NAME.replace("2026-11-20", "2026-11-19")
    return {**s.files, f"sessions/2026/11/19/{name}": older}


@SHAPES
def larger_than_64_mib(s: Stored) -> bytes:
    """The file has more than 64 MiB, most of it one kind of event."""
    line = copy.deepcopy(s.line("PLUM-2"))
    line |= {"type": "event_msg", "payload": {"type": "background_event", "message": LONG}}
    s.lines[s.at("PLUM-2") : s.at("PLUM-2")] = [copy.copy(line) for _ in range(75)]
    _numbered(s)
    return s.raw


@SHAPES
def a_line_of_40_mib(s: Stored) -> None:
    """One output has 40 MiB."""
    (output,) = _items(s, "function_call_output")
    output["payload"]["output"] = "FIG-2 " + "x" * (40 * 1024 * 1024)
