"""What a sub-agent's transcript of Claude Code tells: its last words and its files.

Entries as seen in 2.1.330. The file is written behind the events' back: its end may be missing.
"""

from __future__ import annotations

import os

from upthread.agents.claude_code.entries import (
    EXAMINING,
    PATHS,
    SUBAGENTS,
    file_of,
    is_put_in,
)
from upthread.runtime.bindings.light_json import (
    NotJsonError,
    loads,
    object_in,
    objects_in,
    text_in,
)
from upthread.surfaces.hook.call import end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def transcript_of(main: str, child: str) -> str:
    """Return where a sub-agent's transcript lies; empty for an id that is no name of a file."""
    # The id is a model's word where it comes from `SendMessage`: "../" must lead nowhere.
    if not child or not child.replace("-", "").replace("_", "").isalnum():
        return ""
    return os.path.join(main.removesuffix(".jsonl"), SUBAGENTS, file_of(child))


class Told:
    """What a transcript's end tells.

    `reply` is the last text since the newest prompt, empty for none; `examinations` are the files
    of all prompts, each as `path` and `how`, oldest first.
    """

    def __init__(self) -> None:
        self.reply = ""
        self.examinations: list[dict[str, Any]] = []


def told_by(transcript: str) -> Told:
    """Return what the end of a sub-agent's transcript tells; nothing of one that is not there."""
    told = Told()
    for line in end_of(transcript).split(b"\n"):
        # Decoding is what takes the time, and most lines are the agent's own notes.
        if b'"user"' not in line and b'"assistant"' not in line:
            continue
        entry = _entry(line)
        content = object_in(entry, "message")
        match text_in(entry, "type"):
            case "user" if _is_asked(entry):
                # What stands before the newest prompt answers an earlier one.
                told.reply = ""
            case "assistant":
                parts = objects_in(content, "content")
                texts = (text_in(part, "text") for part in parts)
                # An entry of tool calls alone must not take away the words before it.
                told.reply = "\n".join(filter(None, texts)) or told.reply
                # Over all prompts, unlike the reply: what the session has read it still rests on.
                told.examinations += [
                    {"path": path, "how": EXAMINING[text_in(part, "name")]}
                    for part in parts
                    if (path := _examined_path(part))
                ]
            case _:
                pass  # the agent's own notes
    return told


def _is_asked(entry: dict[str, Any]) -> bool:
    """Return whether a user's entry is what the sub-agent was asked, not a tool's result."""
    content = object_in(entry, "message")
    # A prompt is a text, or a list of blocks with one; a tool's result is a block of another type.
    is_said = any(text_in(block, "type") == "text" for block in objects_in(content, "content"))
    return (is_said or bool(text_in(content, "content"))) and not is_put_in(entry)


def _entry(line: bytes) -> dict[str, Any]:
    """Return an entry of a transcript; nothing of one that was cut off where reading began."""
    try:
        return loads(line.decode("utf-8", "surrogateescape"))
    except NotJsonError:
        return {}


def _examined_path(part: dict[str, Any]) -> str:
    given = object_in(part, "input") if text_in(part, "name") in EXAMINING else {}
    return next((path for name in PATHS if (path := text_in(given, name))), "")
