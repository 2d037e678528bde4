"""The recorded session of Claude Code from which its shapes are made."""

from __future__ import annotations

import copy
import json
import re
import uuid

from tools.shapes import DIRECTORY, SESSION, Line, Stored, encoded

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


def new_id(number: int) -> str:
    """Return an id of an entry that the recorded session does not have."""
    return str(uuid.UUID(int=(0xBEAD << 112) + (4 << 76) + (8 << 60) + number))


def messages_of(s: Stored) -> list[Line]:
    """Return the lines of prompts, answers and results."""
    return [line for line in s.lines if line.get("type") in {"user", "assistant"}]


def tree_of(s: Stored) -> list[Line]:
    """Return the lines that name a parent."""
    return [line for line in s.lines if "parentUuid" in line]


def branched(s: Stored, mark: str, after: str, number: int, *, kind: str = "user") -> Line:
    """Return a message of another branch, after the line with a mark."""
    made = copy.deepcopy(s.line("PLUM-3" if kind == "user" else "PEAR-3"))
    made |= {"uuid": new_id(number), "parentUuid": after}
    content = mark if kind == "user" else [{"type": "text", "text": mark}]
    made["message"] = {**made["message"], "content": content}
    if kind == "assistant":
        made["message"]["id"] = f"msg_{number}"
    return made


def without_pointers(s: Stored) -> None:
    """Take out the lines that name the last message."""
    s.lines = [line for line in s.lines if line.get("type") != "last-prompt"]
