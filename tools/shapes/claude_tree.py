"""Shapes of a transcript of Claude Code: how its entries hang on each other."""

from __future__ import annotations

import copy
import json

from tools.shapes import SESSION, Stored, Table
from tools.shapes.claude_session import branched, new_id, tree_of, without_pointers

SHAPES = Table()


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
    s.line("PLUM-3")["parentUuid"] = new_id(1)


@SHAPES
def no_parents(s: Stored) -> None:
    """No entry names a parent."""
    for line in tree_of(s):
        del line["parentUuid"]


@SHAPES
def parents_all_null(s: Stored) -> None:
    """The parent of each entry is null."""
    for line in tree_of(s):
        line["parentUuid"] = None


@SHAPES
def parents_in_a_circle(s: Stored) -> None:
    """The first entry hangs on the last one."""
    tree = tree_of(s)
    tree[0]["parentUuid"] = tree[-1]["uuid"]


@SHAPES
def its_own_parent(s: Stored) -> None:
    """A prompt in the middle hangs on itself."""
    s.line("PLUM-3")["parentUuid"] = s.line("PLUM-3")["uuid"]


@SHAPES
def no_ids(s: Stored) -> None:
    """No entry has an id or a parent."""
    for line in tree_of(s):
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
    left = [branched(s, "SLOE-1", after, 1), branched(s, "SLOE-2", new_id(1), 2, kind="assistant")]
    s.lines[at:at] = left


@SHAPES
def a_late_branch(s: Stored) -> None:
    """A second process answered a prompt that hangs on an early answer, at the end of the file."""
    without_pointers(s)
    s.lines.append(branched(s, "SLOE-1", s.line("PEAR-1")["uuid"], 1))
    s.lines.append(branched(s, "SLOE-2", new_id(1), 2, kind="assistant"))


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
    without_pointers(s)
    leaf = s.line("PEAR-3")["uuid"]
    pointer = {"type": "last-prompt", "lastPrompt": "PLUM-3", "leafUuid": leaf}
    s.lines.append({**pointer, "sessionId": SESSION})
    s.lines.append(branched(s, "SLOE-1", s.line("PEAR-1")["uuid"], 1))
    s.lines.append(branched(s, "SLOE-2", new_id(1), 2, kind="assistant"))


@SHAPES
def a_pointer_to_nowhere(s: Stored) -> None:
    """The newest pointer names an entry that is not there."""
    without_pointers(s)
    pointer = {"type": "last-prompt", "lastPrompt": "PLUM-3", "leafUuid": new_id(9)}
    s.lines.append({**pointer, "sessionId": SESSION})


@SHAPES
def a_turn_after_the_pointer(s: Stored) -> None:
    """It was killed in a turn: the newest pointer names the end of the turn before."""
    without_pointers(s)
    pointer = {"type": "last-prompt", "lastPrompt": "PLUM-2", "leafUuid": s.line("PEAR-2")["uuid"]}
    s.lines.insert(s.at("PLUM-3"), {**pointer, "sessionId": SESSION})


@SHAPES
def two_branches_after_the_pointer(s: Stored) -> None:
    """Two turns hang on the message that the newest pointer names."""
    a_turn_after_the_pointer(s)
    s.lines.append(branched(s, "SLOE-1", s.line("PEAR-2")["uuid"], 1))
    s.lines.append(branched(s, "SLOE-2", new_id(1), 2, kind="assistant"))


@SHAPES
def two_writers(s: Stored) -> None:
    """Two processes wrote in turns, each on a branch of its own."""
    without_pointers(s)
    first = s.line("PEAR-1")["uuid"]
    s.lines.insert(s.at("PLUM-2") + 1, branched(s, "SLOE-1", first, 1))
    s.lines.insert(s.at("PEAR-2") + 1, branched(s, "SLOE-2", new_id(1), 2, kind="assistant"))


@SHAPES
def a_note_between(s: Stored) -> None:
    """An entry of an unknown kind stands in the chain between two messages."""
    line = s.line("PLUM-3")
    note = {"type": "weather", "uuid": new_id(1), "parentUuid": line["parentUuid"]}
    note |= {"timestamp": line["timestamp"], "sessionId": SESSION}
    line["parentUuid"] = new_id(1)
    s.lines.insert(s.at("PLUM-3"), note)


@SHAPES
def a_side_chain_between(s: Stored) -> None:
    """A prompt in the middle and its answer are marked as a sub-agent's."""
    for mark in ("PLUM-2", "FIG-2", "PEAR-2"):
        s.line(mark)["isSidechain"] = True


@SHAPES
def all_a_side_chain(s: Stored) -> None:
    """Every entry is marked as a sub-agent's."""
    for line in tree_of(s):
        line["isSidechain"] = True


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
        "uuid": new_id(number),
        **common,
        **more,
    }
    summary = {
        "parentUuid": new_id(number),
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": f"The summary so far: SLOE-{number}"},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": new_id(number + 50),
        **common,
    }
    line["parentUuid"] = new_id(number + 50)
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
    s.lines.append(branched(s, "PLUM-9", s.line("PEAR-3")["uuid"], 9))
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
