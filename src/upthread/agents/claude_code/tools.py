"""Claude Code's tools in ACP's words: kind, title and places of a call. Pure.

Names are those of Claude Code 2.1; an unknown tool, an MCP server's for one, is of kind `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json import objects_at, text_at
from upthread.agents.claude_code.entries import PATHS
from upthread.core.text import one_line

TITLE_CHARACTERS_MAX: Final = 200

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Read", "LS", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Bash", "PowerShell", "KillShell"), "execute"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    # What a sub-agent does is announced as its own calls.
    **dict.fromkeys(("Task", "Agent", "TodoWrite"), "think"),
}
_PATHS: Final = (*PATHS, "path")
_TELLING: Final = ("command", *_PATHS, "pattern", "url", "query", "description")
"""The argument a title is made of, the first there is."""


def kind_of(tool: str) -> str:
    """Return the kind of a tool by its name."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: object) -> str:
    """Return what a person is shown of a call: a command as it is, else the tool and its object."""
    told = next((text for name in _TELLING if (text := text_at(arguments, name))), "")
    if told and told == text_at(arguments, "command"):
        return one_line(told)[:TITLE_CHARACTERS_MAX]
    return one_line(f"{tool} {told}".strip())[:TITLE_CHARACTERS_MAX]


def locations_of(arguments: object) -> tuple[str, ...]:
    """Return the paths a call names, as given."""
    return tuple(path for name in _PATHS if (path := text_at(arguments, name)))


def plan_of(tool: str, arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """Return the (text, status) pairs of a to-do list, None for any other call."""
    if tool != "TodoWrite":
        return None
    todos = objects_at(arguments, "todos")
    return tuple((text_at(one, "content"), text_at(one, "status") or "pending") for one in todos)
