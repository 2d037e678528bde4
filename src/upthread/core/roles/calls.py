"""A call as a role's limits judge it: what their patterns compare, and what does nothing but read.

A pattern of OpenCode's or Claude Code's is about a command, a path, an address or the role of a
sub-agent. A line of shell is taken apart, so that what stands behind a `&&` is compared as well.
Pure; nothing is looked up.

An agent that has no tool to read with is given lines of shell that only read, where its role may
read but run no commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from upthread.core.outward.calls import commands_of
from upthread.core.outward.nested_commands import SHELLS, Word, name_of
from upthread.core.outward.repeatable import only_reads
from upthread.core.outward.shell_commands import commands_in, commands_written
from upthread.core.roles.limits import BASH, tools_named
from upthread.core.shell.call_commands import EXECUTE
from upthread.core.shell.expected_call import Foreseen, places_of
from upthread.core.shell.reads import files_read

_NAMED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "skill": ("name", "skill"),
    "task": ("subagent_type", "agent_type"),
    "webfetch": ("url",),
}
"""The arguments that name what such a tool is called with."""

_SHELL: Final = re.compile(r"(?:/(?:usr/)?bin/)?(?:ba|da|k|z)?sh")
_NAMING_WORDS: Final = re.compile(
    r"(?<![-\w.])\w+\+?=|\b(?:set\s+--|for|function|mapfile|read\w*)\s|\(\)|\$\{\w+:?[-=]|sh\s+-\w*c"
)
"""A part of a line that gives a variable or a positional parameter its value."""
_UNKNOWN: Final = "?"
"""What stands for a word that only running the line would tell."""


class CalledWith(Struct, frozen=True, kw_only=True):
    """What is known of a call: its `words`, or the `places` it names, as they were said.

    Nothing of either where it is not known. `only_reads`: it is a command and certainly reads only.
    """

    words: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    only_reads: bool = False


def called_with(will_happen: Foreseen, *, tool: str, reads_by_commands: bool) -> CalledWith:
    """Return what a call is called with. `tool` is its own name, empty where it is not known."""
    tools = tools_named(tool)
    if tools == (BASH,) or (not tools and EXECUTE in will_happen.kinds):
        return _of_command(will_happen, reads_by_commands=reads_by_commands)
    named = [name for each in tools for name in _NAMED_BY.get(each, ())]
    if named:
        return CalledWith(words=tuple(_named(will_happen, named)))
    return CalledWith(places=places_of(will_happen))


def _of_command(will_happen: Foreseen, *, reads_by_commands: bool) -> CalledWith:
    told = (line for each in will_happen.tellings for line in commands_of(each.arguments))
    lines = tuple(dict.fromkeys(told))
    # To an agent that has no tool to read with, commands denied would be reading denied.
    if reads_by_commands and lines and all(map(only_reads, lines)):
        places = tuple(place for line in lines for place in files_read(line))
        return CalledWith(places=places, only_reads=True)
    commands = [words for line in lines for words in _commands(line)]
    # Any pattern may fit a program that only running the line would tell, and after `V=push;` any
    # word may be one that the line itself made.
    end = None if any(map(_NAMING_WORDS.search, lines)) else 1
    if any(None in words[:end] or _hides(words) for words in commands):
        return CalledWith()
    return CalledWith(words=tuple(dict.fromkeys(map(_text, commands))))


def _commands(line: str) -> Iterator[Sequence[Word]]:
    """Yield the commands of a line as they are written, and those within them."""
    # Both as written and without a wrapper: a rule may be about `sudo *` or about what it runs.
    yield from (words for words in commands_written(line) if not _is_shell(words))
    yield from (command.words for command in commands_in(line))


def _hides(words: Sequence[Word]) -> bool:
    """Whether a command runs another one that its words do not tell: `echo git push | sh`."""
    name, rest = name_of(words[0]), [word or "" for word in words[1:]]
    if name in SHELLS:
        return all(word.startswith("-") and "c" not in word for word in rest)
    is_split = name == "env" and any(word.startswith(("-S", "--split")) for word in rest)
    is_alias = name == "git" and any(word.startswith("alias.") for word in rest)
    return name in _HIDING or is_split or is_alias or (name == "flock" and "-c" in rest)


_HIDING: Final = frozenset({"alias", "busybox", "script", "trap", "xargs"})


def _text(words: Sequence[Word]) -> str:
    return " ".join(_UNKNOWN if word is None else word for word in words)


def _is_shell(words: Sequence[Word]) -> bool:
    """`bash -lc LINE` is the line, whose commands are all there beside it."""
    is_line = len(words) == len(("sh", "-c", "LINE")) and words[1] in {"-c", "-lc"} and words[2]
    return bool(is_line and _SHELL.fullmatch(words[0] or ""))


def _named(will_happen: Foreseen, names: Sequence[str]) -> Iterator[str]:
    for told in will_happen.tellings:
        if isinstance(told.arguments, Mapping):
            found = (told.arguments.get(name) for name in names)
            yield from (each for each in found if isinstance(each, str) and each)
