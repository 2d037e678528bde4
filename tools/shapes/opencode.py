"""Shapes of a session in OpenCode's database, and of the files that hold one."""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.shapes import DIRECTORY

Row = dict[str, Any]


@dataclass
class Rows:
    """The rows of a session; `data` of a message or part is an object, or a text as it is stored."""

    session: Row | None
    messages: list[Row]
    parts: list[Row]

    def message(self, mark: str) -> Row:
        """Return the first message with a part that says a mark."""
        owner = self.part(mark)["message_id"]
        return next(row for row in self.messages if row["id"] == owner)

    def part(self, mark: str) -> Row:
        """Return the first part that says a mark."""
        return next(row for row in self.parts if mark in json.dumps(row["data"]))

    def parts_of(self, message: Row) -> list[Row]:
        """Return the parts of a message."""
        return [row for row in self.parts if row["message_id"] == message["id"]]

    def drop(self, message: Row) -> None:
        """Take out a message with its parts."""
        self.messages.remove(message)
        self.parts = [row for row in self.parts if row["message_id"] != message["id"]]


Make = Callable[[Rows], None]
MakeFile = Callable[[Path], None]


@dataclass(frozen=True)
class RowShape:
    """One way in which the rows of a session may be."""

    name: str
    make: Make

    @property
    def what(self) -> str:
        """The shape in words."""
        return " ".join((self.make.__doc__ or "").split()).rstrip(".")


@dataclass(frozen=True)
class FileShape:
    """One way in which the files of a store may be; `make` is given the database's path."""

    name: str
    make: MakeFile

    @property
    def what(self) -> str:
        """The shape in words."""
        return " ".join((self.make.__doc__ or "").split()).rstrip(".")


SHAPES: list[RowShape] = []
FILES: list[FileShape] = []


def shape(make: Make) -> Make:
    SHAPES.append(RowShape(make.__name__, make))
    return make


def of_files(make: MakeFile) -> MakeFile:
    FILES.append(FileShape(make.__name__, make))
    return make


def recorded(raw: str, number: int, directory: str = DIRECTORY, project: str = "global") -> Rows:
    """Return the recorded rows with ids of their own, which keep their order."""
    rows = json.loads(raw.replace(DIRECTORY, directory))
    text = json.dumps(rows)
    for table in ("session", "message", "part"):
        for row in rows[table]:
            text = text.replace(row["id"], f"{row['id'][:-3]}{number:03}")
    rows = json.loads(text)
    (session,) = rows["session"]
    return Rows({**session, "project_id": project}, rows["message"], rows["part"])


def insert(connection: sqlite3.Connection, rows: Rows) -> None:
    """Write the rows of a session into a database that has the tables."""
    tables = {"session": [rows.session] if rows.session else [], "message": rows.messages}
    for table, found in {**tables, "part": rows.parts}.items():
        names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        for row in found:
            data = row.get("data")
            whole = {**row, "data": json.dumps(data)} if isinstance(data, dict) else row
            kept = {name: whole[name] for name in names if name in whole}
            marks = ", ".join("?" * len(kept))
            connection.execute(
                f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", [*kept.values()]
            )


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


# --- files ---------------------------------------------------------------------------------------


@of_files
def with_a_log(path: Path) -> None:
    """All is in the log of a process that was killed, with its index."""
    _leave_log(path, index=True)


@of_files
def with_a_log_without_its_index(path: Path) -> None:
    """All is in the log of a process that was killed, and its index is missing."""
    _leave_log(path, index=False)


def _leave_log(path: Path, *, index: bool) -> None:
    aside = path.with_name("aside")
    aside.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE session SET title = 'in the log'")
        connection.commit()
        for suffix in ("", "-wal", *(["-shm"] if index else [])):
            shutil.copy(f"{path}{suffix}", aside / f"{path.name}{suffix}")
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    for each in aside.iterdir():
        shutil.move(each, path.parent / each.name)
    aside.rmdir()


@of_files
def half_a_log(path: Path) -> None:
    """The log is cut in the middle."""
    _leave_log(path, index=False)
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


@of_files
def no_database(path: Path) -> None:
    """The database is empty."""
    path.write_bytes(b"")


@of_files
def not_a_database(path: Path) -> None:
    """The file is no database."""
    path.write_bytes(b"no database at all, only bytes" * 100)


@of_files
def cut(path: Path) -> None:
    """The database is cut in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])


@of_files
def a_damaged_page(path: Path) -> None:
    """A page of parts is overwritten with NUL bytes."""
    raw = bytearray(path.read_bytes())
    at = raw.find(b"PEAR-2") // 4096 * 4096
    raw[at : at + 4096] = bytes(4096)
    path.write_bytes(raw)


@of_files
def another_name(path: Path) -> None:
    """The database is called after a channel, as development builds do."""
    path.rename(path.with_name("opencode-dev.db"))


@of_files
def a_table_missing(path: Path) -> None:
    """The table of parts is missing."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE part")


@of_files
def json_of_before_1_2(path: Path) -> None:
    """The session is in JSON files, as versions before 1.2 stored it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in ("session", "message", "part")
        }
    storage = path.with_name("storage")
    for session in rows["session"]:
        told = {"id": session["id"], "version": "1.1.65", "projectID": session["project_id"]}
        told |= {"directory": session["directory"], "title": session["title"]}
        times = {"created": session["time_created"], "updated": session["time_updated"]}
        _write(storage / "session" / session["project_id"], session["id"], {**told, "time": times})
    for message in rows["message"]:
        whole = {**json.loads(message["data"]), "id": message["id"]}
        whole["sessionID"] = message["session_id"]
        _write(storage / "message" / message["session_id"], message["id"], whole)
    for part in rows["part"]:
        whole = {**json.loads(part["data"]), "id": part["id"], "messageID": part["message_id"]}
        whole["sessionID"] = part["session_id"]
        _write(storage / "part" / part["message_id"], part["id"], whole)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def _write(directory: Path, name: str, value: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps(value))
