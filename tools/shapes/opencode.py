"""Shapes of a session of OpenCode: the rows of its database."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

from tools.shapes.opencode_files import FILES
from tools.shapes.opencode_rows import Row, Rows, Shape, shape_of

Change = Callable[[Rows], None]
SHAPES: list[Shape] = [*FILES]


def shape(change: Change) -> Change:
    """Put a shape into the table."""
    SHAPES.append(shape_of(change_rows=change))
    return change


# --- messages that are not there -----------------------------------------------------------------


@shape
def as_it_was(_: Rows) -> None:
    """As OpenCode stored it."""


@shape
def no_messages(r: Rows) -> None:
    """The session has no message."""
    r.messages, r.parts = [], []


@shape
def no_parts(r: Rows) -> None:
    """No message has a part."""
    r.parts = []


@shape
def no_session(r: Rows) -> None:
    """The row of the session is missing, and its messages are there."""
    r.session = None


@shape
def missing_prompt(r: Rows) -> None:
    """A prompt in the middle is missing."""
    r.drop(r.message("PLUM-2"))


@shape
def missing_answer(r: Rows) -> None:
    """An answer in the middle is missing."""
    r.drop(r.message("PEAR-2"))


@shape
def missing_first(r: Rows) -> None:
    """The first prompt is missing."""
    r.drop(r.message("PLUM-1"))


@shape
def missing_last(r: Rows) -> None:
    """The last answer is missing."""
    r.drop(r.message("PEAR-3"))


@shape
def missing_part(r: Rows) -> None:
    """The part with the text of an answer is missing."""
    r.parts.remove(r.part("PEAR-2"))


@shape
def missing_message_of_parts(r: Rows) -> None:
    """The row of an answer is missing, and its parts are there."""
    r.messages.remove(r.message("PEAR-2"))


@shape
def missing_steps(r: Rows) -> None:
    """The parts that say where a step begins and ends are missing."""
    r.parts = [row for row in r.parts if not str(row["data"].get("type")).startswith("step-")]


@shape
def a_prompt_alone(r: Rows) -> None:
    """There is one prompt, which nothing answered."""
    first = r.message("PLUM-1")
    r.parts, r.messages = r.parts_of(first), [first]


# --- what messages say ---------------------------------------------------------------------------


@shape
def message_no_json(r: Rows) -> None:
    """The value of an answer in the middle is no JSON."""
    r.message("PEAR-2")["data"] = '{"role": "assis'


@shape
def message_of_nothing(r: Rows) -> None:
    """The value of an answer in the middle is an empty object."""
    r.message("PEAR-2")["data"] = "{}"


@shape
def message_a_list(r: Rows) -> None:
    """The value of an answer in the middle is a list."""
    r.message("PEAR-2")["data"] = "[1]"


@shape
def no_role(r: Rows) -> None:
    """An answer in the middle has no role."""
    del r.message("PEAR-2")["data"]["role"]


@shape
def an_unknown_role(r: Rows) -> None:
    """An answer in the middle is of a role that nobody knows."""
    r.message("PEAR-2")["data"]["role"] = "oracle"


@shape
def no_parent(r: Rows) -> None:
    """No answer names its prompt."""
    for row in r.messages:
        row["data"].pop("parentID", None)


@shape
def an_unknown_parent(r: Rows) -> None:
    """An answer names a prompt that is not there."""
    r.message("PEAR-3")["data"]["parentID"] = "msg_000000000000000000000000000"


@shape
def no_model(r: Rows) -> None:
    """No message names a model."""
    for row in r.messages:
        for name in ("model", "modelID", "providerID"):
            row["data"].pop(name, None)


@shape
def an_unknown_model(r: Rows) -> None:
    """Messages name a model that is not configured."""
    for row in r.messages:
        if "model" in row["data"]:
            row["data"]["model"] = {"providerID": "nobody", "modelID": "none"}
        else:
            row["data"] |= {"providerID": "nobody", "modelID": "none"}


@shape
def an_unknown_agent(r: Rows) -> None:
    """Messages name an agent that is not configured."""
    for row in r.messages:
        row["data"]["agent"] = "nobody"


@shape
def no_end(r: Rows) -> None:
    """The last answer has no end."""
    row = r.message("PEAR-3")
    row["data"]["time"].pop("completed", None)
    row["data"].pop("finish", None)


@shape
def an_error(r: Rows) -> None:
    """The last answer is an error of the provider."""
    error = {"name": "APIError", "data": {"message": "boom", "isRetryable": False}}
    r.message("PEAR-3")["data"]["error"] = error


@shape
def aborted(r: Rows) -> None:
    """A person stopped the last answer."""
    error = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    r.message("PEAR-3")["data"]["error"] = error


@shape
def no_times(r: Rows) -> None:
    """No message has a time in its value."""
    for row in r.messages:
        row["data"].pop("time", None)


@shape
def times_as_texts(r: Rows) -> None:
    """The times of messages are texts."""
    for row in r.messages:
        row["data"]["time"] = {"created": "2026-11-20T20:00:00.000Z"}


@shape
def one_time(r: Rows) -> None:
    """All messages have the same time."""
    for row in r.messages:
        row["time_created"] = r.messages[0]["time_created"]


@shape
def times_backwards(r: Rows) -> None:
    """The clock went back: each message is older than the message before it."""
    times = [row["time_created"] for row in r.messages]
    for row, at_ms in zip(r.messages, reversed(times), strict=True):
        row["time_created"] = at_ms


@shape
def ids_backwards(r: Rows) -> None:
    """The ids of messages go down while their times go up."""
    ids = [row["id"] for row in r.messages]
    new = dict(zip(ids, reversed(ids), strict=True))
    for row in r.messages:
        row["id"] = new[row["id"]]
        if row["data"].get("parentID") in new:
            row["data"]["parentID"] = new[row["data"]["parentID"]]
    for row in r.parts:
        row["message_id"] = new[row["message_id"]]


# --- parts ---------------------------------------------------------------------------------------


@shape
def part_no_json(r: Rows) -> None:
    """The value of a part in the middle is no JSON."""
    r.part("PEAR-2")["data"] = '{"type": "te'


@shape
def part_of_nothing(r: Rows) -> None:
    """The value of a part in the middle is an empty object."""
    r.part("PEAR-2")["data"] = "{}"


@shape
def part_null(r: Rows) -> None:
    """The value of a part in the middle is null."""
    r.part("PEAR-2")["data"] = "null"


@shape
def part_of_an_unknown_type(r: Rows) -> None:
    """A part in the middle is of a type that nobody knows."""
    r.part("PEAR-2")["data"]["type"] = "hologram"


@shape
def part_without_a_text(r: Rows) -> None:
    """A part of the type text has none."""
    del r.part("PEAR-2")["data"]["text"]


@shape
def part_ignored(r: Rows) -> None:
    """The text of a prompt is marked as ignored."""
    r.part("PLUM-2")["data"]["ignored"] = True


@shape
def part_synthetic(r: Rows) -> None:
    """The text of a prompt is marked as OpenCode's own."""
    r.part("PLUM-2")["data"]["synthetic"] = True


@shape
def part_of_another_session(r: Rows) -> None:
    """A part names another session than its message does."""
    r.part("PEAR-2")["session_id"] = "ses_000000000000000000000000000"


@shape
def half_a_character(r: Rows) -> None:
    """A text has half of a surrogate pair, as an escape."""
    row = r.part("PEAR-2")
    row["data"] = json.dumps(row["data"]).replace("PEAR-2", r"PEAR-2 \ud800")


@shape
def nul_in_a_text(r: Rows) -> None:
    """A text has a NUL, as an escape."""
    r.part("PEAR-2")["data"]["text"] = "PEAR-2 \0 and on"


@shape
def a_part_twice(r: Rows) -> None:
    """The part of an answer is there twice."""
    second = copy.deepcopy(r.part("PEAR-2"))
    r.parts.append(second | {"id": second["id"][:-4] + "z" + second["id"][-3:]})


@shape
def a_file_that_is_gone(r: Rows) -> None:
    """A prompt has a file that is not there any more."""
    prompt = r.part("PLUM-2")
    data = {"type": "file", "mime": "text/plain", "filename": "gone.txt"}
    data["url"] = "file:///nowhere/gone.txt"
    r.parts.append({**prompt, "id": prompt["id"][:-4] + "z" + prompt["id"][-3:], "data": data})


# --- calls ---------------------------------------------------------------------------------------


def _call(r: Rows) -> Row:
    return next(row for row in r.parts if row["data"].get("type") == "tool")


@shape
def call_running(r: Rows) -> None:
    """A call is running for ever: its OpenCode was killed."""
    state = _call(r)["data"]["state"]
    _call(r)["data"]["state"] = {
        "status": "running",
        "input": state["input"],
        "time": {"start": state["time"]["start"]},
    }


@shape
def call_pending(r: Rows) -> None:
    """A call was announced and never begun."""
    _call(r)["data"]["state"] = {"status": "pending", "input": {}, "raw": ""}


@shape
def call_without_a_state(r: Rows) -> None:
    """A call has no state."""
    del _call(r)["data"]["state"]


@shape
def call_of_an_unknown_state(r: Rows) -> None:
    """The state of a call is one that nobody knows."""
    _call(r)["data"]["state"]["status"] = "dreaming"


@shape
def call_without_an_id(r: Rows) -> None:
    """A call has no id."""
    del _call(r)["data"]["callID"]


@shape
def call_without_an_output(r: Rows) -> None:
    """A completed call has no output."""
    del _call(r)["data"]["state"]["output"]


@shape
def an_id_of_a_call_twice(r: Rows) -> None:
    """Two calls have the same id."""
    second = copy.deepcopy(_call(r))
    r.parts.append(second | {"id": second["id"][:-4] + "z" + second["id"][-3:]})


# --- the session ---------------------------------------------------------------------------------


@shape
def archived(r: Rows) -> None:
    """A person archived it."""
    assert r.session
    r.session["time_archived"] = r.session["time_updated"]


@shape
def another_directory(r: Rows) -> None:
    """The directory that it worked in is gone."""
    assert r.session
    r.session["directory"] = "/nowhere/at/all"


@shape
def a_child_of_nobody(r: Rows) -> None:
    """Its parent is a session that is not there."""
    assert r.session
    r.session["parent_id"] = "ses_000000000000000000000000000"


@shape
def an_old_version(r: Rows) -> None:
    """A version of before 1.0 began it."""
    assert r.session
    r.session["version"] = "0.3.58"


@shape
def no_version(r: Rows) -> None:
    """It names no version."""
    assert r.session
    r.session["version"] = ""


@shape
def reverted(r: Rows) -> None:
    """A person went back to the last prompt, and sent nothing since."""
    assert r.session
    r.session["revert"] = json.dumps({"messageID": r.message("PLUM-3")["id"]})


# --- compaction ----------------------------------------------------------------------------------


def _compaction(r: Rows, *, is_whole: bool) -> None:
    """Put a compaction with its summary before the last prompt."""
    prompt, answer = r.message("PLUM-3"), r.message("PEAR-1")
    at_ms = prompt["time_created"] - 2
    asked = copy.deepcopy(prompt) | {"id": prompt["id"][:10] + "00" + prompt["id"][12:]}
    asked["time_created"] = at_ms
    made = copy.deepcopy(answer) | {"id": prompt["id"][:10] + "01" + prompt["id"][12:]}
    made["time_created"] = at_ms + 1
    made["data"] |= {"parentID": asked["id"], "summary": True, "mode": "compaction"}
    made["data"]["agent"] = "compaction"
    r.messages += [asked, made]
    part = {
        **r.part("PLUM-3"),
        "message_id": asked["id"],
        "data": {"type": "compaction", "auto": False},
    }
    r.parts.append(part | {"id": part["id"][:10] + "00" + part["id"][12:]})
    if is_whole:
        said = copy.deepcopy(r.part("PEAR-1")) | {"message_id": made["id"]}
        said["data"]["text"] = "The summary so far: SLOE-1"
        r.parts.append(said | {"id": part["id"][:10] + "01" + part["id"][12:]})
    else:
        made["data"]["time"].pop("completed", None)
        made["data"].pop("finish", None)


@shape
def compacted(r: Rows) -> None:
    """It was compacted before the last prompt."""
    _compaction(r, is_whole=True)


@shape
def a_compaction_without_a_summary(r: Rows) -> None:
    """It was killed while it was compacted: the summary is missing."""
    _compaction(r, is_whole=False)


# --- size ----------------------------------------------------------------------------------------


@shape
def a_part_of_40_mib(r: Rows) -> None:
    """The output of a call has 40 MiB."""
    _call(r)["data"]["state"]["output"] = "FIG-2 " + "x" * (40 * 1024 * 1024)
