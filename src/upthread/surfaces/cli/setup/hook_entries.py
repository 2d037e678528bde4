"""Hooks in a JSON file of the user's own, beside those that are there already.

Claude Code and Codex read the same form: events, each with entries that say for which tools and run
commands.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from upthread.surfaces.cli.setup.changes import as_json_object

PROGRAM: Final = "upthread/surfaces/hook/__main__.py"
"""How the path of our program ends, wherever it is installed."""

_INDENT: Final = re.compile(rb"^\{\s*?\n([ \t]+)\"")


def with_hooks(
    path: Path,
    before: bytes | None,
    *,
    events: Mapping[str, str],
    command: tuple[str, ...],
    timeout_s: int,
) -> bytes:
    """Return a file with our command for each event, and the tools it is asked for, at its end."""
    settings = as_json_object(path, before)
    hooks = cast("dict[str, Any]", _without_ours(settings).get("hooks", {}))
    for event, matcher in events.items():
        hooks = {**hooks, event: [*hooks.get(event, []), _entry(matcher, command, timeout_s)]}
    return _written({**settings, "hooks": hooks}, like=before)


def without_hooks(path: Path, content: bytes) -> bytes:
    """Return a file without our hooks, everything else as it is now."""
    return _written(_without_ours(as_json_object(path, content)), like=content)


def hook_line(command: tuple[str, ...]) -> str:
    """Return the shell line of a hook: nothing at all once upthread is not there any more."""
    python, program = shlex.quote(command[0]), shlex.quote(command[-3])
    return f"[ -x {python} ] && [ -f {program} ] && exec {shlex.join(command)} || exit 0"


def _entry(matcher: str, command: tuple[str, ...], timeout_s: int) -> dict[str, Any]:
    hook = {"type": "command", "command": hook_line(command), "timeout": timeout_s}
    return {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}


def _without_ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without entries of ours; an event that is left empty is left out."""
    hooks = {
        event: kept
        for event, entries in settings.get("hooks", {}).items()
        if (kept := [entry for entry in entries if PROGRAM not in json.dumps(entry)])
    }
    others = {name: value for name, value in settings.items() if name != "hooks"}
    return {**others, "hooks": hooks} if hooks else others


def _written(settings: Mapping[str, Any], *, like: bytes | None) -> bytes:
    """Return settings as text, indented as the file was."""
    found = _INDENT.match(like or b"")
    indent = found[1].decode() if found else "  "
    end = "\n" if like is None or like.endswith(b"\n") else ""
    return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()
