"""What a session has examined: which files a tool call read or wrote, and how one is known.

Decides from a call alone; the files are looked at by runtime/turns/examination.py. A session knows
what it read as it was then, and what it wrote itself in its new content. Commands name no files:
what they changed is found by the time of the change. What a script or a search has shown of other
files is not known, and people are told so.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from upthread.core.outward.calls import commands_of
from upthread.core.shell.reads import files_read, is_reading_known
from upthread.core.types import ErasedPart, JsonValue, Part, ToolCallPart, ToolResultPart

How: TypeAlias = Literal["read", "shown", "wrote", "ran"]
"""`shown` is read by a command, as far as its words say; `ran` changed by one."""

State: TypeAlias = Literal["hashed", "too_large", "unreadable", "missing", "no_file"]

FILES_OF_CALL_MAX: Final = 256
"""A call that names more files is one that lists, not one that reads."""


class ExaminedFile(Struct, frozen=True):
    """A file as a session knows it, or as it is now.

    `path` is relative to the working tree where it lies inside of it, else absolute. `digest` is
    the SHA-256 of its content in hex, text with its line ends as LF; None unless `state` is
    `hashed`. `mtime_ns` is None where it is too young to tell a change by it.
    """

    path: str
    how: How
    state: State
    size_bytes: int | None = None
    mtime_ns: int | None = None
    digest: str | None = None


class Examination(Struct, frozen=True, kw_only=True):
    """What one call did to which files; `paths` as they are kept, without doubles.

    Of files that were `shown`, a path may hold a pattern of the shell's, and need not be a file.
    """

    how: How
    paths: tuple[str, ...]


_HOW_OF_KIND: Final[Mapping[str, How]] = MappingProxyType(
    {"read": "read", "edit": "wrote", "delete": "wrote", "move": "wrote"}
)
"""ACP's kinds of tools that examine or change files by name."""

_HOW_OF_TOOL: Final[Mapping[str, How]] = MappingProxyType(
    {
        "read": "read",
        "read_file": "read",
        "notebookread": "read",
        "edit": "wrote",
        "multiedit": "wrote",
        "notebookedit": "wrote",
        "write": "wrote",
        "write_file": "wrote",
        "replace": "wrote",
        "apply_patch": "wrote",
        "patch": "wrote",
    }
)
"""The agents' own tools by name, lower case, where no kind is given: Claude Code 2.1, OpenCode
1.18, Codex 0.169, Gemini CLI 0.61."""

PATH_ARGUMENTS: Final = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
"""Where those tools have the file's path; Codex's patches have `changes`, a mapping by path."""

_DIRECTORY_ARGUMENTS: Final = ("workdir", "cwd", "working_directory", "dir_path")
"""Where tools that run commands have the directory."""

_RANK: Final[Mapping[How, int]] = MappingProxyType({"shown": 0, "read": 1, "wrote": 2, "ran": 2})

RUNNING_KINDS: Final = frozenset({"execute", "other"})
"""Kinds of tools that may change files they do not name."""


def examination_of(call: ToolCallPart, *, root: str) -> Examination | None:
    """Return what a call examined in the tree at `root`, None for one that names no file."""
    how = _HOW_OF_KIND.get(call.tool_kind)
    # A kind is the protocol's word; a title is anybody's, and counts only where no kind was told.
    if how is None and call.tool_kind == "other":
        how = _HOW_OF_TOOL.get(call.title.strip().lower())
    if how is None:
        return _shown_by(call, root)
    # Locations first: they are said for this, and arguments are each agent's own.
    named = call.locations or _paths_in(call.arguments)
    kept = dict.fromkeys(path for name in named if (path := kept_path(name, root=root)) is not None)
    paths = tuple(kept)[:FILES_OF_CALL_MAX]
    # Codex calls a command that only reads a read, and names no file beside it.
    return Examination(how=how, paths=paths) if paths else _shown_by(call, root)


def known_after(examined: ExaminedFile, *, before: ExaminedFile | None) -> ExaminedFile | None:
    """Return how a session knows a file from now on, None where that says nothing new.

    Reading a file again does not undo having written it, nor a look through a command having read.
    """
    if before is None:
        return examined
    # The content is the newest either way: what it is known by is all that may not go back.
    is_more = _RANK[before.how] > _RANK[examined.how]
    known = structs.replace(examined, how=before.how) if is_more else examined
    return None if known == before else known


def _shown_by(call: ToolCallPart, root: str) -> Examination | None:
    lines = commands_of(call.arguments)
    directory = directory_of(call.arguments, root)
    named = (name for line in lines for name in files_read(line))
    kept = (kept_path(posixpath.join(directory, name), root=root) for name in named)
    paths = tuple(dict.fromkeys(path for path in kept if path is not None))[:FILES_OF_CALL_MAX]
    return Examination(how="shown", paths=paths) if paths else None


def directory_of(arguments: JsonValue, root: str) -> str:
    """Return where a command is run, as far as its call says."""
    if not isinstance(arguments, Mapping):
        return root
    told = (arguments.get(name) for name in _DIRECTORY_ARGUMENTS)
    return next((each for each in told if isinstance(each, str) and each), root)


def _paths_in(arguments: JsonValue) -> Sequence[str]:
    if not isinstance(arguments, Mapping):
        return ()
    changes = arguments.get("changes")
    if isinstance(changes, Mapping):
        return tuple(changes)
    named = (arguments.get(name) for name in PATH_ARGUMENTS)
    return [path for path in named if isinstance(path, str)]


PATH_CHARACTERS_MAX = 4_096

NEVER_LOOKED_AT = ("/dev/", "/proc/", "/sys/")
"""Places where opening a file can do something, or gives something else each time."""

HASHED_BYTES_MAX = 16 * 1024 * 1024
"""Of one file; a larger one is known by its size and time alone. A hook has to be quick, and what
one of the two hashes the other must hash as well: a file known in two ways counts as changed."""


def kept_path(name: str, *, root: str) -> str | None:
    """Return a path as it is kept, None for one that names no file we would look at."""
    if not name or "\0" in name or len(name) > PATH_CHARACTERS_MAX:
        return None
    # By text alone: to resolve links would be a look at the disk.
    whole = posixpath.normpath(posixpath.join(root, name))
    if whole.startswith(NEVER_LOOKED_AT) or whole == posixpath.normpath(root):
        return None
    prefix = posixpath.normpath(root).rstrip("/") + "/"
    return whole.removeprefix(prefix)


# --- how much of it is known, for people ----------------------------------------------------------


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
