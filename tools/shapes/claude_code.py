"""Shapes of a transcript of Claude Code: `projects/<directory>/<session>.jsonl`."""

from __future__ import annotations

import copy
import json
import re
import uuid

from tools.shapes import DIRECTORY, SESSION, Files, Line, Stored, Table, encoded

SHAPES = Table()
OTHER = "5e551000-0000-4000-8000-00000000000f"
_NOTE_BYTES_MAX = 900
LONG = "word " * 190_000


def stored(raw: str, directory: str = DIRECTORY) -> Stored:
    """Return the recorded session as it lies on disk for a directory."""
    lines = [json.loads(line.replace(DIRECTORY, directory)) for line in raw.splitlines()]
    folder = re.sub(r"[^a-zA-Z0-9]", "-", directory)
    return Stored(lines, f"projects/{folder}/{SESSION}.jsonl", directory)


def shortened(raw: str) -> str:
    """Return a transcript without most of what no person and no model said, the chain mended."""
    parents: dict[str, str | None] = {}
    kept: list[Line] = []
    for text in raw.splitlines():
        line: Line = json.loads(text)
        is_note = line["type"] == "attachment" and len(text) < _NOTE_BYTES_MAX
        if line["type"] in {"user", "assistant", "last-prompt", "mode"} or is_note:
            kept.append(line)
        elif "uuid" in line:
            parents[line["uuid"]] = line["parentUuid"]
    for line in kept:
        for name in ("parentUuid", "leafUuid"):
            while line.get(name) in parents:
                line[name] = parents[line[name]]
        if "lastPrompt" in line:
            line["lastPrompt"] = "the last prompt"
    return "".join(encoded(line).decode() for line in kept)


def _new(number: int) -> str:
    return str(uuid.UUID(int=(0xBEAD << 112) + (4 << 76) + (8 << 60) + number))


def _ends(s: Stored) -> tuple[bytes, bytes]:
    """Return all lines but the last message and what follows it, and these."""
    at = s.at("PEAR-3")
    return b"".join(map(encoded, s.lines[:at])), b"".join(map(encoded, s.lines[at:]))


def _messages(s: Stored) -> list[Line]:
    return [line for line in s.lines if line.get("type") in {"user", "assistant"}]


def _tree(s: Stored) -> list[Line]:
    return [line for line in s.lines if "parentUuid" in line]


def _said(s: Stored, mark: str, after: str, number: int, *, kind: str = "user") -> Line:
    """Return a message of another branch, after the line with a mark."""
    made = copy.deepcopy(s.line("PLUM-3" if kind == "user" else "PEAR-3"))
    made |= {"uuid": _new(number), "parentUuid": after}
    content = mark if kind == "user" else [{"type": "text", "text": mark}]
    made["message"] = {**made["message"], "content": content}
    if kind == "assistant":
        made["message"]["id"] = f"msg_{number}"
    return made


def _without_pointers(s: Stored) -> None:
    s.lines = [line for line in s.lines if line.get("type") != "last-prompt"]


# --- bytes ---------------------------------------------------------------------------------------


@SHAPES
def as_it_was(_: Stored) -> None:
    """As Claude Code stored it."""


@SHAPES
def cut_tail(s: Stored) -> bytes:
    """The last message is cut in the middle of its line."""
    whole, last = _ends(s)
    return whole + last[:120]


@SHAPES
def cut_after_the_end(s: Stored) -> bytes:
    """Half of a further line follows the whole session."""
    return s.raw + encoded(s.lines[-1])[:40]


@SHAPES
def no_last_line_end(s: Stored) -> bytes:
    """The last line lacks its line end."""
    return s.raw.rstrip(b"\n")


@SHAPES
def nul_tail(s: Stored) -> bytes:
    """NUL bytes follow the last line, as after a power cut."""
    return s.raw + b"\0" * 2048


@SHAPES
def nul_in_the_middle(s: Stored) -> bytes:
    """A block of NUL bytes stands between two lines."""
    at = s.at("PLUM-2")
    before, after = s.lines[:at], s.lines[at:]
    return b"".join(map(encoded, before)) + b"\0" * 512 + b"\n" + b"".join(map(encoded, after))


@SHAPES
def nul_before_a_line(s: Stored) -> bytes:
    """A block of NUL bytes stands before a line, without a line end between."""
    at = s.at("PEAR-2")
    before, after = s.lines[:at], s.lines[at:]
    return b"".join(map(encoded, before)) + b"\0" * 512 + b"".join(map(encoded, after))


@SHAPES
def byte_order_mark(s: Stored) -> bytes:
    """The file begins with a byte order mark."""
    return b"\xef\xbb\xbf" + s.raw


@SHAPES
def utf_16(s: Stored) -> bytes:
    """The file is UTF-16."""
    return s.raw.decode().encode("utf-16")


@SHAPES
def windows_line_ends(s: Stored) -> bytes:
    """Lines end with CR LF."""
    return s.raw.replace(b"\n", b"\r\n")


@SHAPES
def blank_lines(s: Stored) -> bytes:
    """Blank lines stand between the lines."""
    return s.raw.replace(b"\n", b"\n\n \n")


@SHAPES
def no_line_ends(s: Stored) -> bytes:
    """All values stand in one line."""
    return s.raw.replace(b"\n", b" ")


@SHAPES
def pretty_printed(s: Stored) -> bytes:
    """Each value is spread over several lines."""
    return b"".join(json.dumps(line, indent=1).encode() + b"\n" for line in s.lines)


@SHAPES
def garbage_line(s: Stored) -> bytes:
    """A line that is no JSON stands in the middle."""
    at = s.at("PLUM-2")
    before, after = s.lines[:at], s.lines[at:]
    return b"".join(map(encoded, before)) + b'{"oops\n' + b"".join(map(encoded, after))


@SHAPES
def conflict_marks(s: Stored) -> bytes:
    """Marks of a merge conflict stand around the last turn."""
    at = s.at("PLUM-3")
    before, after = b"".join(map(encoded, s.lines[:at])), b"".join(map(encoded, s.lines[at:]))
    return before + b"<<<<<<< HEAD\n" + after + b"=======\n>>>>>>> theirs\n"


@SHAPES
def a_list_for_a_line(s: Stored) -> bytes:
    """A line holds a list in place of an object."""
    at = s.at("PLUM-2")
    before, after = s.lines[:at], s.lines[at:]
    return b"".join(map(encoded, before)) + b"[1,2]\nnull\n" + b"".join(map(encoded, after))


@SHAPES
def not_utf_8(s: Stored) -> bytes:
    """A message has a byte that is no UTF-8."""
    return s.raw.replace(b"PEAR-2", b"PEAR-2 \xff\xfe")


@SHAPES
def half_a_character(s: Stored) -> bytes:
    """A message has half of a surrogate pair, as an escape."""
    return s.raw.replace(b"PEAR-2", rb"PEAR-2 \ud800")


@SHAPES
def nested_deeply(s: Stored) -> None:
    """A result is nested deeper than most decoders go."""
    deep: object = "end"
    for _ in range(400):
        deep = [deep]
    s.line("FIG-2")["toolUseResult"] = deep


@SHAPES
def a_key_twice(s: Stored) -> bytes:
    """An entry has its parent twice; a reader takes the last one."""
    raw = encoded(s.line("PLUM-3"))
    parent = json.dumps(s.line("PLUM-3")["parentUuid"]).encode()
    twice = raw.replace(b'"parentUuid":' + parent, b'"parentUuid":null,"parentUuid":' + parent)
    return s.raw.replace(raw, twice)


# --- messages that are not there -----------------------------------------------------------------


def _drop(s: Stored, mark: str) -> None:
    del s.lines[s.at(mark)]


@SHAPES
def missing_prompt(s: Stored) -> None:
    """The line of a prompt in the middle is missing."""
    _drop(s, "PLUM-2")


@SHAPES
def missing_answer(s: Stored) -> None:
    """The line of an answer in the middle is missing."""
    _drop(s, "PEAR-2")


@SHAPES
def missing_first(s: Stored) -> None:
    """The line of the first prompt is missing."""
    _drop(s, "PLUM-1")


@SHAPES
def missing_last(s: Stored) -> None:
    """The line of the last answer is missing."""
    _drop(s, "PEAR-3")


@SHAPES
def missing_result(s: Stored) -> None:
    """The result of a call is missing."""
    _drop(s, "FIG-2")


@SHAPES
def missing_call(s: Stored) -> None:
    """The call of a result is missing."""
    del s.lines[
        next(
            i
            for i, line in enumerate(s.lines)
            if "tool_use_id" not in json.dumps(line) and '"tool_use"' in json.dumps(line)
        )
    ]


@SHAPES
def missing_beginning(s: Stored) -> None:
    """All before the last prompt is missing."""
    s.lines = s.lines[s.at("PLUM-3") :]


@SHAPES
def only_messages(s: Stored) -> None:
    """Only prompts, answers and results are left, without notes and pointers."""
    kept = {line["uuid"]: line for line in _messages(s)}
    parents = {line["uuid"]: line["parentUuid"] for line in _tree(s)}
    for line in kept.values():
        while line["parentUuid"] and line["parentUuid"] not in kept:
            line["parentUuid"] = parents[line["parentUuid"]]
    s.lines = list(kept.values())


@SHAPES
def only_notes(s: Stored) -> None:
    """No prompt and no answer is left, only Claude Code's own notes."""
    s.lines = [line for line in s.lines if line.get("type") not in {"user", "assistant"}]


@SHAPES
def a_prompt_alone(s: Stored) -> None:
    """There is one prompt, which nothing answered."""
    s.lines = s.lines[: s.at("PLUM-1") + 1]


@SHAPES
def empty(_: Stored) -> bytes:
    """The file is empty."""
    return b""


@SHAPES
def blank(_: Stored) -> bytes:
    """The file holds blank lines alone."""
    return b"\n \n\n"


@SHAPES
def binary(_: Stored) -> bytes:
    """The file is another program's."""
    return b"PK\x03\x04" + bytes(range(256)) * 8


# --- the tree ------------------------------------------------------------------------------------


@SHAPES
def parent_null(s: Stored) -> None:
    """A prompt in the middle has no parent."""
    s.line("PLUM-3")["parentUuid"] = None


@SHAPES
def parent_null_of_an_answer(s: Stored) -> None:
    """An answer in the middle has no parent."""
    s.line("PEAR-2")["parentUuid"] = None


@SHAPES
def parent_unknown(s: Stored) -> None:
    """The parent of a prompt in the middle is an entry that is not there."""
    s.line("PLUM-3")["parentUuid"] = _new(1)


@SHAPES
def no_parents(s: Stored) -> None:
    """No entry names a parent."""
    for line in _tree(s):
        del line["parentUuid"]


@SHAPES
def parents_all_null(s: Stored) -> None:
    """The parent of each entry is null."""
    for line in _tree(s):
        line["parentUuid"] = None


@SHAPES
def parents_in_a_circle(s: Stored) -> None:
    """The first entry hangs on the last one."""
    tree = _tree(s)
    tree[0]["parentUuid"] = tree[-1]["uuid"]


@SHAPES
def its_own_parent(s: Stored) -> None:
    """A prompt in the middle hangs on itself."""
    s.line("PLUM-3")["parentUuid"] = s.line("PLUM-3")["uuid"]


@SHAPES
def no_ids(s: Stored) -> None:
    """No entry has an id or a parent."""
    for line in _tree(s):
        del line["parentUuid"], line["uuid"]


@SHAPES
def one_id_missing(s: Stored) -> None:
    """An answer in the middle has no id."""
    del s.line("PEAR-2")["uuid"]


@SHAPES
def an_id_twice(s: Stored) -> None:
    """Two prompts have the same id."""
    s.line("PLUM-3")["uuid"] = s.line("PLUM-2")["uuid"]


@SHAPES
def a_line_twice(s: Stored) -> None:
    """The line of an answer in the middle stands there twice."""
    s.lines.insert(s.at("PEAR-2"), copy.deepcopy(s.line("PEAR-2")))


@SHAPES
def backwards(s: Stored) -> None:
    """The lines stand in reverse order."""
    s.lines.reverse()


@SHAPES
def in_another_order(s: Stored) -> None:
    """The last turn stands before the first one."""
    at = s.at("PLUM-3")
    s.lines = s.lines[at:] + s.lines[:at]


@SHAPES
def a_branch_left_behind(s: Stored) -> None:
    """A person went back: an answered prompt is left, and the later prompts hang beside it."""
    after = s.line("PEAR-1")["uuid"]
    at = s.at("PEAR-1") + 1
    left = [_said(s, "SLOE-1", after, 1), _said(s, "SLOE-2", _new(1), 2, kind="assistant")]
    s.lines[at:at] = left


@SHAPES
def a_late_branch(s: Stored) -> None:
    """A second process answered a prompt that hangs on an early answer, at the end of the file."""
    _without_pointers(s)
    s.lines.append(_said(s, "SLOE-1", s.line("PEAR-1")["uuid"], 1))
    s.lines.append(_said(s, "SLOE-2", _new(1), 2, kind="assistant"))


@SHAPES
def a_late_branch_and_a_pointer(s: Stored) -> None:
    """The same, and the newest pointer names the end of the main branch."""
    a_late_branch(s)
    leaf = s.line("PEAR-3")["uuid"]
    s.lines.append(
        {"type": "last-prompt", "lastPrompt": "PLUM-3", "leafUuid": leaf, "sessionId": SESSION}
    )


@SHAPES
def a_late_branch_after_its_pointer(s: Stored) -> None:
    """A pointer names the end of the main branch, and a second process wrote after that."""
    _without_pointers(s)
    leaf = s.line("PEAR-3")["uuid"]
    pointer = {"type": "last-prompt", "lastPrompt": "PLUM-3", "leafUuid": leaf}
    s.lines.append({**pointer, "sessionId": SESSION})
    s.lines.append(_said(s, "SLOE-1", s.line("PEAR-1")["uuid"], 1))
    s.lines.append(_said(s, "SLOE-2", _new(1), 2, kind="assistant"))


@SHAPES
def a_pointer_to_nowhere(s: Stored) -> None:
    """The newest pointer names an entry that is not there."""
    _without_pointers(s)
    pointer = {"type": "last-prompt", "lastPrompt": "PLUM-3", "leafUuid": _new(9)}
    s.lines.append({**pointer, "sessionId": SESSION})


@SHAPES
def two_writers(s: Stored) -> None:
    """Two processes wrote in turns, each on a branch of its own."""
    _without_pointers(s)
    first = s.line("PEAR-1")["uuid"]
    s.lines.insert(s.at("PLUM-2") + 1, _said(s, "SLOE-1", first, 1))
    s.lines.insert(s.at("PEAR-2") + 1, _said(s, "SLOE-2", _new(1), 2, kind="assistant"))


@SHAPES
def a_note_between(s: Stored) -> None:
    """An entry of an unknown kind stands in the chain between two messages."""
    line = s.line("PLUM-3")
    note = {"type": "weather", "uuid": _new(1), "parentUuid": line["parentUuid"]}
    note |= {"timestamp": line["timestamp"], "sessionId": SESSION}
    line["parentUuid"] = _new(1)
    s.lines.insert(s.at("PLUM-3"), note)


@SHAPES
def a_side_chain_between(s: Stored) -> None:
    """A prompt in the middle and its answer are marked as a sub-agent's."""
    for mark in ("PLUM-2", "FIG-2", "PEAR-2"):
        s.line(mark)["isSidechain"] = True


@SHAPES
def all_a_side_chain(s: Stored) -> None:
    """Every entry is marked as a sub-agent's."""
    for line in _tree(s):
        line["isSidechain"] = True


# --- what entries say ----------------------------------------------------------------------------


@SHAPES
def another_session_inside(s: Stored) -> None:
    """Every entry names another session than the file does."""
    for line in s.lines:
        line["sessionId"] = OTHER


@SHAPES
def another_directory(s: Stored) -> None:
    """Every entry names a directory that is gone."""
    for line in _tree(s):
        line["cwd"] = "/nowhere/at/all"


@SHAPES
def in_another_folder(s: Stored) -> Files:
    """The transcript lies in the folder of another directory."""
    return {f"projects/-somewhere-else/{SESSION}.jsonl": s.raw}


@SHAPES
def outside_of_a_folder(s: Stored) -> Files:
    """The transcript lies beside the folders of directories."""
    return {f"projects/{SESSION}.jsonl": s.raw}


@SHAPES
def in_two_folders(s: Stored) -> Files:
    """An older copy of the transcript lies in the folder of another directory."""
    old = b"".join(map(encoded, s.lines[: s.at("PLUM-2")]))
    return {**s.files, f"projects/-aaa/{SESSION}.jsonl": old}


@SHAPES
def times_as_numbers(s: Stored) -> None:
    """Times are numbers."""
    for number, line in enumerate(s.lines):
        if "timestamp" in line:
            line["timestamp"] = 1_795_746_437_000 + number


@SHAPES
def no_times(s: Stored) -> None:
    """No entry has a time."""
    for line in s.lines:
        line.pop("timestamp", None)


@SHAPES
def one_time(s: Stored) -> None:
    """All entries have the same time."""
    for line in s.lines:
        if "timestamp" in line:
            line["timestamp"] = "2026-11-20T20:00:00.000Z"


@SHAPES
def times_backwards(s: Stored) -> None:
    """The clock went back: each entry is older than the entry before it."""
    for number, line in enumerate(s.lines):
        if "timestamp" in line:
            line["timestamp"] = f"2026-11-20T20:{59 - number % 60:02}:00.000Z"


@SHAPES
def an_old_version(s: Stored) -> None:
    """The entries are as version 1.0 wrote them: few members, and a summary before them."""
    kept = ("type", "uuid", "parentUuid", "timestamp", "sessionId", "message", "isSidechain", "cwd")
    only_messages(s)
    s.lines = [{name: line[name] for name in kept if name in line} for line in s.lines]
    for line in s.lines:
        line |= {"version": "1.0.44", "userType": "external"}
    leaf = s.lines[-1]["uuid"]
    s.lines.insert(0, {"type": "summary", "summary": "Fruit", "leafUuid": leaf})


@SHAPES
def messages_as_texts(s: Stored) -> None:
    """The content of each answer is a text in place of a list of blocks."""
    for mark in ("PEAR-1", "PEAR-2", "PEAR-3"):
        s.line(mark)["message"]["content"] = mark


@SHAPES
def no_ids_of_answers(s: Stored) -> None:
    """No answer has the provider's id."""
    for line in _messages(s):
        if line["type"] == "assistant":
            line["message"].pop("id", None)


@SHAPES
def one_id_of_answers(s: Stored) -> None:
    """All answers have the same id of the provider."""
    for line in _messages(s):
        if line["type"] == "assistant":
            line["message"]["id"] = "msg_1"


@SHAPES
def no_message(s: Stored) -> None:
    """An answer in the middle has no message."""
    del s.line("PEAR-2")["message"]


@SHAPES
def an_empty_answer(s: Stored) -> None:
    """The content of an answer in the middle is an empty list."""
    s.line("PEAR-2")["message"]["content"] = []


@SHAPES
def an_unknown_block(s: Stored) -> None:
    """An answer holds a block of a kind that nobody knows."""
    s.line("PEAR-2")["message"]["content"].insert(0, {"type": "hologram", "data": "x"})


@SHAPES
def an_error_of_the_provider(s: Stored) -> None:
    """The last answer is an error of the provider."""
    s.line("PEAR-3")["isApiErrorMessage"] = True
    s.line("PEAR-3")["message"]["model"] = "<synthetic>"


@SHAPES
def a_result_twice(s: Stored) -> None:
    """The result of a call is there twice, one after the other."""
    result = s.line("FIG-2")
    second = copy.deepcopy(result) | {"uuid": _new(1), "parentUuid": result["uuid"]}
    for line in _tree(s):
        if line["parentUuid"] == result["uuid"]:
            line["parentUuid"] = _new(1)
    s.lines.insert(s.at("FIG-2") + 1, second)


@SHAPES
def an_id_of_a_call_twice(s: Stored) -> None:
    """Two calls have the same id."""
    text = json.dumps(s.line("FIG-2"))
    use = re.search(r'"tool_use_id": "([^"]+)"', text)
    assert use is not None
    block = {"type": "tool_use", "id": use[1], "name": "Bash", "input": {"command": "true"}}
    s.line("PEAR-3")["message"]["content"].append(block)


@SHAPES
def kept_by_a_tool(s: Stored) -> bytes:
    """An older tool stored the first turns as one line each, without any envelope."""
    old = [{"role": "user", "content": "PLUM-1"}, {"role": "assistant", "content": "PEAR-1"}]
    return b"".join(map(encoded, [*old, *s.lines[s.at("PLUM-2") :]]))


# --- compaction ----------------------------------------------------------------------------------


def _compact(s: Stored, before: str, number: int, **more: object) -> None:
    """Put a boundary and a summary before the line with a mark."""
    line = s.line(before)
    common = {k: line[k] for k in ("timestamp", "cwd", "sessionId", "version", "userType")}
    boundary = {
        "parentUuid": None,
        "logicalParentUuid": line["parentUuid"],
        "isSidechain": False,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": {"trigger": "manual", "preTokens": 900},
        "uuid": _new(number),
        **common,
        **more,
    }
    summary = {
        "parentUuid": _new(number),
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": f"The summary so far: SLOE-{number}"},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": _new(number + 50),
        **common,
    }
    line["parentUuid"] = _new(number + 50)
    at = s.at(before)
    s.lines[at:at] = [boundary, summary]


@SHAPES
def compacted(s: Stored) -> None:
    """It was compacted before the last turn."""
    _compact(s, "PLUM-3", 1)


@SHAPES
def compacted_twice(s: Stored) -> None:
    """It was compacted before the second turn and before the third."""
    _compact(s, "PLUM-2", 1)
    _compact(s, "PLUM-3", 2)


@SHAPES
def compacted_at_the_end(s: Stored) -> None:
    """A compaction is the last that happened."""
    s.lines.append(_said(s, "PLUM-9", s.line("PEAR-3")["uuid"], 9))
    _compact(s, "PLUM-9", 1)
    s.lines = [line for line in s.lines if "PLUM-9" not in json.dumps(line)]


@SHAPES
def compacted_without_a_link(s: Stored) -> None:
    """A boundary of a compaction does not name what came before it."""
    _compact(s, "PLUM-3", 1)
    for line in s.lines:
        line.pop("logicalParentUuid", None)


@SHAPES
def a_boundary_without_a_summary(s: Stored) -> None:
    """The boundary of a compaction is there and its summary is missing."""
    _compact(s, "PLUM-3", 1)
    s.lines = [line for line in s.lines if not line.get("isCompactSummary")]


# --- size, and where it lies ---------------------------------------------------------------------


@SHAPES
def larger_than_64_mib(s: Stored) -> bytes:
    """The file has more than 64 MiB, most of it lines of progress."""
    progress = {"type": "progress", "data": {"type": "agent_progress", "prompt": LONG}}
    progress |= {"uuid": _new(1), "sessionId": SESSION, "cwd": s.directory}
    at = s.at("PLUM-2")
    before, after = b"".join(map(encoded, s.lines[:at])), b"".join(map(encoded, s.lines[at:]))
    return before + encoded(progress) * 75 + after


@SHAPES
def a_line_of_40_mib(s: Stored) -> None:
    """One result has 40 MiB."""
    s.line("FIG-2")["toolUseResult"] = {"stdout": "x" * (40 * 1024 * 1024)}


@SHAPES
def compressed(s: Stored) -> Files:
    """The transcript was compressed by somebody."""
    from tests.support.agent_homes import compressed as packed

    return {f"{s.path}.zst": packed(s.raw)}


@SHAPES
def a_backup_beside(s: Stored) -> Files:
    """A backup of an older state lies beside the transcript."""
    return {**s.files, f"{s.path}.bak": b"".join(map(encoded, s.lines[: s.at("PLUM-2")]))}


@SHAPES
def a_copy_under_another_name(s: Stored) -> Files:
    """A copy of the transcript lies beside it, named after another session."""
    return {**s.files, s.path.replace(SESSION, OTHER): s.raw}
