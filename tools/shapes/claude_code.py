"""Shapes of a transcript of Claude Code: `projects/<directory>/<session>.jsonl`."""

from __future__ import annotations

import copy
import json
import re

from tests.support.agent_homes import compressed as packed
from tools.shapes import SESSION, Files, Stored, Table, claude_tree, encoded, of_lines
from tools.shapes.claude_session import LONG, OTHER, messages_of, new_id, tree_of
from tools.shapes.of_lines import apart

SHAPES = Table([*of_lines.SHAPES, *claude_tree.SHAPES])


# --- bytes ---------------------------------------------------------------------------------------


@SHAPES
def conflict_marks(s: Stored) -> bytes:
    """Marks of a merge conflict stand around the last turn."""
    before, after = apart(s, "PLUM-3")
    return before + b"<<<<<<< HEAD\n" + after + b"=======\n>>>>>>> theirs\n"


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
    kept = {line["uuid"]: line for line in messages_of(s)}
    parents = {line["uuid"]: line["parentUuid"] for line in tree_of(s)}
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


# --- what entries say ----------------------------------------------------------------------------


@SHAPES
def another_session_inside(s: Stored) -> None:
    """Every entry names another session than the file does."""
    for line in s.lines:
        line["sessionId"] = OTHER


@SHAPES
def another_directory(s: Stored) -> None:
    """Every entry names a directory that is gone."""
    for line in tree_of(s):
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
    for line in messages_of(s):
        if line["type"] == "assistant":
            line["message"].pop("id", None)


@SHAPES
def one_id_of_answers(s: Stored) -> None:
    """All answers have the same id of the provider."""
    for line in messages_of(s):
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
    second = copy.deepcopy(result) | {"uuid": new_id(1), "parentUuid": result["uuid"]}
    for line in tree_of(s):
        if line["parentUuid"] == result["uuid"]:
            line["parentUuid"] = new_id(1)
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


# --- size, and where it lies ---------------------------------------------------------------------


@SHAPES
def larger_than_64_mib(s: Stored) -> bytes:
    """The file has more than 64 MiB, most of it lines of progress."""
    progress = {"type": "progress", "data": {"type": "agent_progress", "prompt": LONG}}
    progress |= {"uuid": new_id(1), "sessionId": SESSION, "cwd": s.directory}
    before, after = apart(s, "PLUM-2")
    return before + encoded(progress) * 75 + after


@SHAPES
def a_line_of_40_mib(s: Stored) -> None:
    """One result has 40 MiB."""
    s.line("FIG-2")["toolUseResult"] = {"stdout": "x" * (40 * 1024 * 1024)}


@SHAPES
def compressed(s: Stored) -> Files:
    """The transcript was compressed by somebody."""
    return {f"{s.path}.zst": packed(s.raw)}


@SHAPES
def a_backup_beside(s: Stored) -> Files:
    """A backup of an older state lies beside the transcript."""
    return {**s.files, f"{s.path}.bak": b"".join(map(encoded, s.lines[: s.at("PLUM-2")]))}


@SHAPES
def a_copy_under_another_name(s: Stored) -> Files:
    """A copy of the transcript lies beside it, named after another session."""
    return {**s.files, s.path.replace(SESSION, OTHER): s.raw}
