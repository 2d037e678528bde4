"""Claude Code: hooks in the user's own settings, beside those that are there already."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from upthread.surfaces.cli.setup.changes import Change, as_json_object, read_file

AGENT: Final = "claude"
HOOK_AGENT: Final = "claude-code"
TIMEOUT_S: Final = 5
TOOLS: Final = "Agent|Task|SendMessage"

EVENTS: Final[Mapping[str, str]] = {
    "SessionStart": "",
    "UserPromptSubmit": "",
    "PreToolUse": TOOLS,
    "PostToolUse": TOOLS,
    "PostToolUseFailure": TOOLS,
    "SubagentStop": "",
    "SessionEnd": "",
}
"""The events and the tools they are asked for; none on Read, Bash or Edit, which come too often."""

_MARK: Final = "upthread/surfaces/hook/__main__.py"
_INDENT: Final = re.compile(rb"^\{\s*?\n([ \t]+)\"")


def changes(environment: Mapping[str, str], command: tuple[str, ...]) -> tuple[Change, ...]:
    """Return what setting Claude Code up changes."""
    path = _folder(environment) / "settings.json"
    before = read_file(path)
    settings = as_json_object(path, before)
    hooks = cast("dict[str, Any]", _without_ours(settings).get("hooks", {}))
    for event, matcher in EVENTS.items():
        hooks = {**hooks, event: [*hooks.get(event, []), _entry(matcher, command)]}
    after = _written({**settings, "hooks": hooks}, like=before)
    return (Change(path=path, before=before, after=after),)


def taken_out(path: Path, content: bytes) -> bytes | None:
    """Return the settings without our hooks, everything else as it is now."""
    return _written(_without_ours(as_json_object(path, content)), like=content)


def hook_line(command: tuple[str, ...]) -> str:
    """Return the shell line of a hook: nothing at all once upthread is not there any more."""
    python, program = shlex.quote(command[0]), shlex.quote(command[-3])
    return f"[ -x {python} ] && [ -f {program} ] && exec {shlex.join(command)} || exit 0"


def _entry(matcher: str, command: tuple[str, ...]) -> dict[str, Any]:
    hook = {"type": "command", "command": hook_line(command), "timeout": TIMEOUT_S}
    return {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}


def _without_ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without entries of ours; an event that is left empty is left out."""
    hooks = {
        event: kept
        for event, entries in settings.get("hooks", {}).items()
        if (kept := [entry for entry in entries if _MARK not in json.dumps(entry)])
    }
    others = {name: value for name, value in settings.items() if name != "hooks"}
    return {**others, "hooks": hooks} if hooks else others


def _written(settings: Mapping[str, Any], *, like: bytes | None) -> bytes:
    """Return settings as text, indented as the file was."""
    found = _INDENT.match(like or b"")
    indent = found[1].decode() if found else "  "
    end = "\n" if like is None or like.endswith(b"\n") else ""
    return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()


def _folder(environment: Mapping[str, str]) -> Path:
    chosen, home = environment.get("CLAUDE_CONFIG_DIR"), environment.get("HOME")
    return Path(chosen) if chosen else (Path(home) if home else Path.home()) / ".claude"
