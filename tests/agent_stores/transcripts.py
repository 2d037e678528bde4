"""Transcripts of Claude Code and Codex, written by hand in the forms seen in November 2026.

Not recorded: their fields are those that public issues and the agents' own sources show.
"""

import json
from pathlib import Path


class ClaudeTranscript:
    """Entries of one session, each hanging on the one before it unless said otherwise."""

    def __init__(self, *, version: str = "2.1.329", is_sidechain: bool = False) -> None:
        self.lines: list[str] = []
        self.last: str | None = None
        self._common = {
            "isSidechain": is_sidechain,
            "userType": "external",
            "cwd": "/work",
            "sessionId": "89c27846-9eb8-4808-ae3c-23e64d425760",
            "version": version,
            "timestamp": "2026-11-20T20:00:00.000Z",
        }

    def entry(self, kind: str, message: object = None, **more: object) -> str:
        uuid = f"u{len(self.lines) + 1}"
        entry = {"parentUuid": self.last, **self._common, "type": kind, "uuid": uuid, **more}
        if message is not None:
            entry["message"] = message
        self.lines.append(json.dumps(entry))
        self.last = uuid
        return uuid

    def user(self, content: object, **more: object) -> str:
        return self.entry("user", {"role": "user", "content": content}, **more)

    def assistant(
        self, *blocks: object, message_id: str = "", usage: object = None, **more: object
    ) -> str:
        made = {
            "id": message_id or f"m{len(self.lines)}",
            "role": "assistant",
            "content": [*blocks],
            **({"usage": usage} if usage else {}),
        }
        return self.entry("assistant", made, **more)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines) + "\n")
        return path


def said(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def use(use_id: str, name: str = "Bash") -> dict[str, object]:
    return {"type": "tool_use", "id": use_id, "name": name, "input": {"command": "ls"}}


def result(use_id: str, content: object = "out", **more: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": use_id, "content": content, **more}


def rollout(path: Path, *items: object, version: str = "0.169.0") -> Path:
    """A Codex thread; an item that is a pair is a line of another type."""
    meta = {"id": "thr_1", "cwd": "/work", "cli_version": version, "originator": "codex_exec"}
    moment = "2026-11-20T20:00:00Z"
    lines: list[object] = [{"timestamp": moment, "type": "session_meta", "payload": meta}]
    for item in items:
        kind, payload = item if isinstance(item, tuple) else ("response_item", item)
        lines.append({"timestamp": moment, "type": kind, "payload": payload})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def spoken(role: str, words: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def function_call(call_id: str, arguments: str = '{"cmd": "ls"}') -> dict[str, object]:
    return {
        "type": "function_call",
        "name": "exec_command",
        "arguments": arguments,
        "call_id": call_id,
    }


def function_output(call_id: str, output: object = "out") -> dict[str, object]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}
