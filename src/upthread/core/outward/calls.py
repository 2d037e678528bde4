"""The outward actions of a call, whatever the agent says it with: command, title, tool. Pure.

The kind is no part of it: that is the agent's word, and a push is the same under another one.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from upthread.core.names import folded
from upthread.core.outward.actions import Action
from upthread.core.outward.programs import actions_of_command
from upthread.core.outward.shell_commands import commands_in
from upthread.core.shell.call_commands import COMMAND_KEYS
from upthread.core.types import JsonValue

ARGUMENTS_LEFT_OUT: Final = frozenset({"description", "cwd", "timeout", "workdir"})
"""Arguments that differ between two calls of the same action."""

QUIET: Final = frozenset({"-q", "--quiet", "-v", "--verbose", "--silent", "-s"})
"""Words of a command that change what is told of it, and nothing else."""

_SENDING: Final = (
    r"(?:^|_)(add|append|approve|cancel|close|comment|commit|create|delete|deploy|dispatch|edit"
    r"|fork|insert|invite|merge|patch|post|publish|push|release|remove|reply|run|send|submit"
    r"|trigger|update|upload|write)(?:_|$)"
)
_TOOL: Final = r"(?:mcp__)?[\w.-]{1,128}__[\w.-]{1,128}"
_BETWEEN: Final = r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+"


def actions_of_call(
    title: str, arguments: JsonValue, patterns: Sequence[str] = ()
) -> tuple[Action, ...]:
    """Return what a call does beyond this machine, each action once; empty for nothing.

    `patterns` are shell patterns over the command or the title that somebody added: a call they
    match is outward whatever it is, and the same as another one with the same words.
    """
    lines = commands_of(arguments)
    # A title may be a command, in backquotes, as agents show one, or plain.
    found = [each for line in lines or (title.strip().strip("`"),) for each in _of_line(line)]
    if not lines:
        found += _of_tool(title, arguments)
    # Only where nothing else is known of it: an action by its parts is told apart more closely.
    if not found and any(
        fnmatch.fnmatchcase(text, pattern)
        for text in (title, *lines)
        if text
        for pattern in patterns
    ):
        found = [_by_words(title, arguments, lines)]
    return tuple(dict.fromkeys(found))


def commands_of(arguments: JsonValue) -> tuple[str, ...]:
    """Return the command lines in a call's arguments, under any name agents have for them."""
    if not isinstance(arguments, Mapping):
        return ()
    found = (_line(value) for name, value in arguments.items() if folded(name) in COMMAND_KEYS)
    return tuple(line for line in found if line)


def command_of(arguments: JsonValue) -> str:
    """Return the command line in a call's arguments; empty where there is none."""
    return next(iter(commands_of(arguments)), "")


def _line(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        return ""
    return shlex.join(str(word) for word in value)


@lru_cache(maxsize=1024)
def _of_line(line: str) -> tuple[Action, ...]:
    return tuple(each for command in commands_in(line) for each in actions_of_command(command))


def _of_tool(title: str, arguments: JsonValue) -> tuple[Action, ...]:
    """A tool of a server whose name says that it changes something there."""
    tool = next(iter(title.split()), "")
    spoken = "_".join(re.split(_BETWEEN, tool)).casefold()
    # A title in words, such as `Create a file`, is no tool of a server.
    if not re.fullmatch(_TOOL, tool) or not re.search(_SENDING, spoken):
        return ()
    return (Action(family=tool, words=(_digest(arguments),)),)


def _by_words(title: str, arguments: JsonValue, lines: Sequence[str]) -> Action:
    words = [word for line in lines for each in commands_in(line) for word in each.words]
    told = " ".join(word or "?" for word in words if word not in QUIET)
    return Action(family="configured", words=(told if lines else _digest(arguments) or title,))


def _digest(arguments: JsonValue) -> str | None:
    """Return a digest of what a tool is given; None where that is not known."""
    if not isinstance(arguments, Mapping) or not arguments:
        return None
    meant = {name: value for name, value in arguments.items() if name not in ARGUMENTS_LEFT_OUT}
    # In one order: the same arguments in another one are the same action.
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(canonical.encode()).hexdigest()
