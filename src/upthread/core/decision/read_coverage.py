"""How much of what a session has read is known, for people. Pure; decides nothing.

Freshness compares the files that are known. What a test run, a script or a search through a
directory has shown of others is not, and whoever relies on it should see that it is not.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from upthread.core.decision.examined import ExaminedFile, directory_of, examination_of
from upthread.core.decision.examined_paths import kept_path
from upthread.core.outward.calls import commands_of
from upthread.core.shell.reads import is_reading_known
from upthread.core.types import ErasedPart, Part, ToolCallPart, ToolResultPart

_NAMING: Final = frozenset({"glob", "list", "ls"})
"""Tools for searching that return names alone."""


class Reading(Struct, frozen=True, kw_only=True):
    """What a session knows: `files` as they were when it read or wrote them, and what is left open.

    Of so many commands and searches it is not known what they read; of `calls_not_kept` the words
    are not on record.
    """

    files: int
    commands_not_known: int = 0
    searches_not_known: int = 0
    calls_not_kept: int = 0

    @property
    def in_words(self) -> str:
        """`12 files; 2 commands whose reading is not known`."""
        open_ = [
            *_counted(self.commands_not_known, "command", "commands"),
            *_counted(self.searches_not_known, "search", "searches"),
        ]
        lost = _counted(self.calls_not_kept, "call", "calls")
        pieces = [
            *(_counted(self.files, "file", "files") or ["no file"]),
            *([f"{' and '.join(open_)} whose reading is not known"] if open_ else []),
            *(f"{each} not kept" for each in lost),
        ]
        return "; ".join(pieces)


def reading_of(parts: Iterable[Part], known: Iterable[ExaminedFile], *, root: str) -> Reading:
    """Return how much of a session's reading is known.

    `parts` are all it said and did, `known` the files it knows, `root` its working tree.
    """
    parts = tuple(parts)
    paths = frozenset(each.path for each in known)
    failed = {
        part.call_id
        for part in parts
        if isinstance(part, ToolResultPart) and part.status == "failed"
    }
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    return Reading(
        files=len(paths),
        commands_not_known=sum(
            not _is_known(call, paths, root=root, has_failed=call.call_id in failed)
            for call in calls
            if _is_command(call, root)
        ),
        searches_not_known=sum(_is_search(call) and call.call_id not in failed for call in calls),
        calls_not_kept=sum(
            isinstance(part, ErasedPart) and part.kind == "tool_call" for part in parts
        ),
    )


def _is_command(call: ToolCallPart, root: str) -> bool:
    examination = examination_of(call, root=root)
    # A tool that names its file is known by that, whatever else is in its arguments.
    if examination is not None and examination.how != "shown":
        return False
    return call.tool_kind == "execute" or bool(commands_of(call.arguments))


def _is_search(call: ToolCallPart) -> bool:
    # One that is a command is counted there.
    if call.tool_kind != "search" or commands_of(call.arguments):
        return False
    return not _NAMING.intersection(call.title.casefold().split()[:1])


def _is_known(call: ToolCallPart, paths: frozenset[str], *, root: str, has_failed: bool) -> bool:
    lines = commands_of(call.arguments)
    directory = directory_of(call.arguments, root)

    def is_known(name: str) -> bool:
        # A command that failed showed nothing of the files it names.
        path = kept_path(posixpath.join(directory, name), root=root)
        return has_failed or path is None or path in paths or bool(fnmatch.filter(paths, path))

    # A command without words that we can read is not known, and not harmless.
    return bool(lines) and all(is_reading_known(line, is_known) for line in lines)


def _counted(number: int, one: str, many: str) -> list[str]:
    return [f"{number} {one if number == 1 else many}"] if number else []
