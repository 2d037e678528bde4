"""Hooks in a JSON file of the user's own, beside those that are there already.

Claude Code and Codex read the same form: events, each with entries that say for which tools and run
commands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct, ValidationError, convert

from upthread.core.lazy_regex import regex
from upthread.errors import UsageError
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import as_json_object
from upthread.surfaces.cli.terminal.phrases import one_line

STARTING: Final = "SessionStart"
BEFORE: Final = "PreToolUse"
GUARD: Final = "Guard"
"""What the launcher is called with for the guard's hook: surfaces/hook/program.py."""

_INDENT: Final = regex(rb"^\{\s*?\n([ \t]+)\"")


TIMEOUT_S: Final = 5
"""What an agent gives a hook of ours, far more than it takes."""

TIMEOUT_S_OF: Final[Mapping[str, int]] = {"PreToolUse": 10, "SessionEnd": 3}
"""A call that begins may have to read back the call before it. At a session's end
Codex gives no more than 3 s, and tells the person where more was asked for (0.169.0)."""


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls: an agent as a person sets it up, as its hooks name it, and upthread's home."""

    agent: str
    hook_agent: str
    home: Path


def with_hooks(
    path: Path,
    before: bytes | None,
    *,
    events: Mapping[str, str],
    guarded: str,
    caller: Caller,
) -> bytes:
    """Return a file with our command for each event, and the tools it is asked for, at its end.

    `guarded` are the tools that may act beyond this machine, about which the guard is asked.
    """
    settings = without_hooks(path, before)
    hooks = cast("dict[str, list[Any]]", settings.get("hooks", {}))
    for event, matcher in events.items():
        timeout_s = TIMEOUT_S_OF.get(event, TIMEOUT_S)
        entry = _entry(matcher, hook_line(caller, event), timeout_s)
        # At the end: hooks of the person's own come first, as they did.
        hooks = {**hooks, event: [*hooks.get(event, []), entry]}
    asked = _entry(guarded, hook_line(caller, GUARD), TIMEOUT_S_OF[BEFORE])
    hooks = {**hooks, BEFORE: [*hooks.get(BEFORE, []), asked]}
    return written({**settings, "hooks": hooks}, like=before)


def without_hooks(path: Path, content: bytes | None) -> dict[str, Any]:
    """Return a file's settings without our hooks, everything else as it is now.

    An event that is left empty is left out. Raises UsageError for hooks of another form.
    """
    settings = as_json_object(path, content)
    try:
        known = convert(settings.pop("hooks", {}), dict[str, list[Any]])
    except ValidationError as error:
        raise UsageError(f"{path}: hooks: {error}", hint="mend it first") from error
    hooks = {
        event: kept
        for event, entries in known.items()
        if (kept := [entry for entry in entries if not launcher.is_ours(json.dumps(entry))])
    }
    return {**settings, "hooks": hooks} if hooks else settings


def hook_line(caller: Caller, event: str) -> str:
    """Return the shell line of a hook. Without a launcher a session is told so at its start."""
    words = launcher.command(caller.home, caller.hook_agent, event)
    path = shlex.quote(words[1])
    # Looked for each time: a launcher that is gone must cost the agent nothing.
    line = f"[ -f {path} ] && exec {shlex.join(words)}"
    return f"{line} || " + (_told_gone(caller, words[1]) if event == STARTING else "exit 0")


def _told_gone(caller: Caller, path: str) -> str:
    setup = f"upthread setup {caller.agent}"
    told = (
        f"upthread: {one_line(path)} is gone, so this session goes on without it; "
        f"{setup} mends it, {setup} --remove takes the hooks away"
    )
    return f"printf '%s\\n' {shlex.quote(json.dumps({'systemMessage': told}))}"


def _entry(matcher: str, line: str, timeout_s: int) -> dict[str, Any]:
    hook = {"type": "command", "command": line, "timeout": timeout_s}
    return {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}


def written(settings: Mapping[str, Any], *, like: bytes | None) -> bytes:
    """Return settings as text, indented as the file was."""
    found = _INDENT.match(like or b"")
    indent = found[1].decode() if found else "  "
    end = "\n" if like is None or like.endswith(b"\n") else ""
    # As it was indented and without escapes, so that the diff shows our lines and no others.
    return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()
