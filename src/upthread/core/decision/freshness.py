"""Freshness: what has changed around a session since it last worked, and the words that say it.

What a session examined is compared with the files as they are now, and what it worked in with what
there is now. What follows from it is decided in core/decision/rules.py; who looks at files and at
git is the runtime. Nothing is guessed: what could not be looked at says so. File names are
strangers' text and stay on their line.

Which files a session has examined is decided from its calls alone; the files are looked at by
runtime/turns/recording.py. A session knows what it read as it was then, and what it wrote itself
in its new content. Commands name no files: what they changed is found by the time of the change.
A search names files in its output. Where no name is certain, the session knows files without names.
"""

import fnmatch
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from posixpath import join, normpath
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.names import rows_by_name
from upthread.core.outward.calls import commands_of
from upthread.core.shell.reads import directory_after, files_printed, files_read, is_reading_known
from upthread.core.text import code, item, one_line
from upthread.core.types import ErasedPart, JsonValue, Part, ToolCallPart, ToolResultPart

How: TypeAlias = Literal["read", "shown", "wrote", "ran"]
"""`shown` is read by a command, as far as its words say; `ran` changed by one."""

State: TypeAlias = Literal["hashed", "too_large", "unreadable", "missing", "no_file", "unknown"]

FILES_OF_CALL_MAX = 256
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


UNNAMED = ExaminedFile(path="", how="shown", state="unknown")
"""Stands for all files that a session may have read and that nobody can name."""


class Examination(Struct, frozen=True, kw_only=True):
    """What one call did to which files; `paths` as they are kept, without doubles.

    Of files that were `shown`, a path may hold a pattern of the shell's, and need not be a file.
    """

    how: How
    paths: tuple[str, ...]


_HOW_OF_KIND: Mapping[str, How] = rows_by_name(("read", "read"), ("edit delete move", "wrote"))
"""ACP's kinds of tools that examine or change files by name."""

_HOW_OF_TOOL: Mapping[str, How] = rows_by_name(
    ("read read_file notebookread", "read"),
    (
        "edit multiedit notebookedit write write_file replace apply_patch patch",
        "wrote",
    ),
)
"""The agents' own tools by name, lower case, where no kind is given: Claude Code 2.1, OpenCode
1.18, Codex 0.169, Gemini CLI 0.61."""

PATH_ARGUMENTS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
"""Where those tools have the file's path; Codex's patches have `changes`, a mapping by path."""

_DIRECTORY_ARGUMENTS = ("workdir", "cwd", "working_directory", "dir_path")
"""Where tools that run commands have the directory."""

_RANK = {"shown": 0, "read": 1, "wrote": 2, "ran": 2}

FAILED = "failed"
"""A tool with this result examined nothing; a command may have shown files before it failed."""

RUNNING_KINDS = frozenset({"execute", "other"})
"""Kinds of tools that may change files they do not name."""


def examination_of(
    call: ToolCallPart, *, root: str, directory: str = "", printed: str = ""
) -> Examination | None:
    """Return what a call examined in the tree at `root`, None for one that names no file.

    `directory` is where its shell is, empty for the root; `printed` is the call's result.
    """
    how = _HOW_OF_KIND.get(call.tool_kind)
    # A kind is the protocol's word; a title is anybody's, and counts only where no kind was told.
    if how is None and call.tool_kind == "other":
        how = _HOW_OF_TOOL.get(call.title.strip().lower())
    if how is None:
        return _shown_by(call, root, directory or root, printed)
    # Locations first: they are said for this, and arguments are each agent's own.
    named = call.locations or _paths_in(call.arguments)
    kept = dict.fromkeys(path for name in named if (path := kept_path(name, root=root)) is not None)
    paths = tuple(kept)[:FILES_OF_CALL_MAX]
    # Codex calls a command that only reads a read, and names no file beside it.
    if paths:
        return Examination(how=how, paths=paths)
    return _shown_by(call, root, directory or root, printed)


def known_after(examined: ExaminedFile, *, before: ExaminedFile | None) -> ExaminedFile | None:
    """Return how a session knows a file from now on, None where that says nothing new.

    Reading a file again does not undo having written it, nor a look through a command having read.
    """
    if not before:
        return examined
    # The content is the newest either way: what it is known by is all that may not go back.
    is_more = _RANK[before.how] > _RANK[examined.how]
    known = replace(examined, how=before.how) if is_more else examined
    return None if known == before else known


def _shown_by(call: ToolCallPart, root: str, directory: str, printed: str) -> Examination | None:
    lines = commands_of(call.arguments)
    directory = directory_of(call.arguments, directory)
    named = [name for line in lines for name in files_read(line)]
    named += _printed_by(call, printed) or ()
    kept = (kept_path(join(directory, name), root=root) for name in named)
    paths = tuple(dict.fromkeys(path for path in kept if path is not None))[:FILES_OF_CALL_MAX]
    return Examination(how="shown", paths=paths) if paths else None


def directory_of(arguments: JsonValue, root: str) -> str:
    """Return where a command is run, as far as its call says."""
    if not isinstance(arguments, Mapping):
        return root
    told = (arguments.get(name) for name in _DIRECTORY_ARGUMENTS)
    return next((each for each in told if isinstance(each, str) and each), root)


def left_in(call: ToolCallPart, directory: str, *, root: str) -> str:
    """Return where a call leaves a shell that keeps its directory: never outside of the tree."""
    for line in commands_of(call.arguments):
        directory = normpath(join(directory, directory_after(line)))
    return directory if f"{directory}/".startswith(f"{root}/") else root


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
    whole = normpath(join(root, name))
    if whole.startswith(NEVER_LOOKED_AT) or whole == normpath(root):
        return None
    prefix = normpath(root).rstrip("/") + "/"
    return whole.removeprefix(prefix)


# --- how much of it is known, for people ----------------------------------------------------------


_NAMING = frozenset({"glob", "list", "ls"})
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


def reading_of(
    turns: Iterable[Sequence[Part]],
    known: Iterable[ExaminedFile],
    *,
    root: str,
    keeps_directory: bool = False,
) -> Reading:
    """Return how much is known of what a session read.

    `turns` are what it said and did, `known` the files it knows, `root` its working tree.
    """
    paths = frozenset(each.path for each in known if each.path)
    open_: list[str] = []
    for parts in turns:
        directory = root
        results = {part.call_id: part for part in parts if isinstance(part, ToolResultPart)}
        for part in parts:
            if isinstance(part, ToolCallPart):
                result = results.get(part.call_id)
                open_.append(left_open(part, result, paths, root=root, directory=directory))
                if keeps_directory and (not result or result.status != FAILED):
                    directory = left_in(part, directory, root=root)
            elif isinstance(part, ErasedPart):
                open_.append(part.kind)
    return Reading(
        files=len(paths),
        commands_not_known=open_.count("command"),
        searches_not_known=open_.count("search"),
        calls_not_kept=open_.count("tool_call"),
    )


def left_open(
    call: ToolCallPart,
    result: ToolResultPart | None,
    paths: Set[str],
    *,
    root: str,
    directory: str,
) -> str:
    """Return `command` or `search` for a call that may have read more than the known `paths`.

    Empty for every other call.
    """
    examination = examination_of(call, root=root)
    # A tool that names its file is known by that, whatever else is in its arguments.
    if examination and examination.how != "shown":
        return ""
    has_failed = result is not None and result.status == FAILED
    lines = commands_of(call.arguments)
    directory = directory_of(call.arguments, directory)

    def is_known(name: str) -> bool:
        whole = join(root, directory, name)
        if normpath(whole).startswith(NEVER_LOOKED_AT):
            return True
        path = kept_path(whole, root=root)
        return path is not None and (path in paths or bool(fnmatch.filter(paths, path)))

    def is_missing(name: str) -> bool:
        # A command that failed showed nothing of a file that is not there.
        said = result.text if result and has_failed else "it did not fail"
        told = rf"(?<![\w./-]){re.escape(name)}(?![\w./-]).*No such file"
        return not said or re.search(told, said) is not None

    printed = _printed_by(call, result.text) if result else None
    if printed is not None and all(map(is_known, printed)):
        return ""
    if lines or call.tool_kind in {"execute", "read"}:
        # A command without words that we can read is not known, and not harmless.
        is_told = lines and all(
            is_reading_known(line, lambda name: is_known(name) or is_missing(name))
            for line in lines
        )
        return "" if is_told else "command"
    is_naming = _NAMING.intersection(call.title.casefold().split()[:1])
    return "search" if call.tool_kind == "search" and not (has_failed or is_naming) else ""


_MATCH = r"Found \d+ matches|No files found$|/.*:$|  Line \d+:|\(Results truncated|$"
"""A line of what OpenCode 1.18 prints of its `grep`: each file's name, then its matches."""


def _printed_by(call: ToolCallPart, printed: str) -> Sequence[str] | None:
    """Return the files whose lines a search printed, None where no name is certain."""
    lines = commands_of(call.arguments)
    if lines:
        return files_printed(lines[0], printed) if len(lines) == 1 else None
    rows = printed.split("\n")
    is_certain = call.tool_kind == "search" and all(re.match(_MATCH, each) for each in rows)
    return [each[:-1] for each in rows if each.startswith("/")] if is_certain else None


def _counted(number: int, one: str, many: str) -> list[str]:
    return [f"{number} {one if number == 1 else many}"] if number else []


ChangeWord: TypeAlias = Literal["changed", "created", "deleted", "unreadable"]

LISTED_MAX = 50
"""How many changed files are kept with a decision and told; all of them are counted."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a session works in, as it was at the end of a turn or as it is now.

    `repository` is the real path of the repository's main directory, `branch` and `commit` are
    git's; None outside of a repository, `branch` also on a detached HEAD. `git_fault` says why git
    could not tell. `configuration` is the digest of the role's instructions and tools.
    """

    working_directory: str
    agent: str
    agent_version: str = ""
    model: str | None = None
    configuration: str = ""
    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    git_fault: str = ""
    at_ms: int = 0


class ChangedFile(Struct, frozen=True, kw_only=True):
    """An examined file that is not as the session knows it."""

    path: str
    how: ChangeWord
    is_critical: bool = False


class Shift(Struct, frozen=True, kw_only=True):
    """Something that was one thing and is another; None where there was or is nothing."""

    was: str | None
    now: str | None


class Freshness(Struct, frozen=True, kw_only=True):
    """What has changed. `changed` lists LISTED_MAX files at most, critical ones first, by path.

    A shift is None where nothing moved. `is_directory_missing` is whether the session's working
    directory is gone while its repository is where it was: a worktree that was removed.
    `are_files_unknown` is whether the session may have read files whose names are not known.
    """

    examined_count: int = 0
    are_files_unknown: bool = False
    changed: tuple[ChangedFile, ...] = ()
    changed_count: int = 0
    critical_count: int = 0
    branch: Shift | None = None
    commit: Shift | None = None
    directory: Shift | None = None
    agent_version: Shift | None = None
    model: Shift | None = None
    is_directory_missing: bool = False
    is_configuration_changed: bool = False
    git_fault: str = ""


NOTHING_KNOWN = Freshness()
"""Of a session that never worked, or whose surroundings were never recorded."""


def freshness(
    *,
    known: Iterable[ExaminedFile],
    now: Iterable[ExaminedFile],
    was: Surroundings | None,
    here: Surroundings,
    critical: Sequence[str] = (),
    places_gone: frozenset[str] = frozenset(),
) -> Freshness:
    """Return what has changed around a session.

    `known` are the files as the session knows them, `now` the same paths as they are; `critical`
    are globs (see `matches`); `places_gone` are those of the recorded directories that exist no
    more. `was` is None for a session of which nothing was recorded.
    """
    examined = tuple(known)
    changed = changed_files(examined, now, critical=critical)
    # Critical ones first: they decide, and must not be among those that are only counted.
    listed = sorted(changed, key=lambda each: (not each.is_critical, each.path))[:LISTED_MAX]
    # Compared with itself where nothing was recorded: nothing moved that anybody knows of.
    moved = _moved(was or here, here)
    return Freshness(
        examined_count=len(examined),
        are_files_unknown=UNNAMED.path in {each.path for each in examined},
        changed=tuple(listed),
        changed_count=len(changed),
        critical_count=sum(each.is_critical for each in changed),
        branch=moved.get("branch"),
        commit=moved.get("commit"),
        directory=moved.get("working_directory"),
        agent_version=moved.get("agent_version"),
        model=moved.get("model"),
        # A renamed directory takes its repository along; a removed worktree leaves it behind.
        is_directory_missing=was is not None
        and was.working_directory in places_gone
        and was.repository not in {None, *places_gone},
        is_configuration_changed="configuration" in moved,
        git_fault=here.git_fault,
    )


def changed_files(
    known: Iterable[ExaminedFile], now: Iterable[ExaminedFile], *, critical: Sequence[str] = ()
) -> tuple[ChangedFile, ...]:
    """Return the files that are not as they are known; a path nobody looked at is left out."""
    found = {each.path: each for each in now}
    return tuple(
        ChangedFile(path=each.path, how=how, is_critical=is_critical(each.path, critical))
        for each in known
        # Not looked at is neither changed nor the same.
        if each.path in found and (how := _change(each, found[each.path])) is not None
    )


def _change(known: ExaminedFile, now: ExaminedFile) -> ChangeWord | None:
    # A state that is another says more than its content: gone is gone.
    if known.state == now.state:
        return None if _is_same(known, now) else "changed"
    if now.state == "missing":
        return "deleted"
    if known.state == "missing":
        return "created"
    return "unreadable" if now.state == "unreadable" else "changed"


def _is_same(known: ExaminedFile, now: ExaminedFile) -> bool:
    if known.state == "hashed":
        return known.digest == now.digest
    if known.state == "too_large":
        # An mtime that is too young to be told changes by is no word against it.
        is_same_time = None in {known.mtime_ns, now.mtime_ns} or known.mtime_ns == now.mtime_ns
        return known.size_bytes == now.size_bytes and is_same_time
    # Missing, unreadable or no file both times: what a session could not read cannot have changed.
    return True


_COMPARED = ("working_directory", "agent_version", "model", "configuration")
_COMPARED_IN_GIT = ("branch", "commit")


def _moved(was: Surroundings, here: Surroundings) -> Mapping[str, Shift]:
    """Return what moved. Git is compared only where it answered both times."""
    names = [*_COMPARED]
    if not was.git_fault and not here.git_fault:
        # Only these may be empty and still tell: no branch is a detached HEAD.
        names += _COMPARED_IN_GIT
    shifts = {name: Shift(was=getattr(was, name), now=getattr(here, name)) for name in names}
    return {name: shift for name, shift in shifts.items() if _is_known_to_differ(name, shift)}


def _is_known_to_differ(name: str, shift: Shift) -> bool:
    """A version, a model or a digest nobody told before is no change."""
    is_told = name in _COMPARED_IN_GIT or bool(shift.was and shift.now)
    return is_told and shift.was != shift.now


# --- critical files ----------------------------------------------------------------------------


def is_critical(path: str, globs: Sequence[str]) -> bool:
    """Return whether any of the globs matches a path."""
    return any(matches(glob, path) for glob in globs)


def matches(glob: str, path: str) -> bool:
    """Return whether a glob matches a path that is relative to the working tree.

    `*` and `?` stay within a name, `**` crosses directories; a glob without `/` matches names in
    any directory, and one that matches a directory matches all that is in it.
    """
    return _compiled(glob).match(path) is not None


@functools.lru_cache(maxsize=256)
def _compiled(glob: str) -> re.Pattern[str]:
    plain = glob.strip("/")
    anywhere = "" if "/" in plain else "(?:.*/)?"
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", plain)
    body = "".join(_TOKENS.get(token) or re.escape(token) for token in tokens)
    # `\Z` and DOTALL, for a name may have a line feed in it and `$` would match before a last one.
    return re.compile(f"{anywhere}{body}(?:/.*)?\\Z", re.DOTALL)


_TOKENS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


# --- in words -------------------------------------------------------------------------------------


HEADING = "# What has changed since your last turn"
NEW_INSTRUCTIONS_HOLD = "Your instructions have changed: those that you have now hold."
READ_AGAIN = "Read these files again before you rely on what you remember of them."

CHANGED = "What has changed"
"""The heading in a briefing."""

NO_CHANGES = "No changes to the files that were known, the branch or the directory."
"""What a briefing says where it was looked, and nothing had changed."""

SHOWN_CHARACTERS_MAX = 300


def change_lines(found: Freshness) -> tuple[str, ...]:
    """Return what has changed as sentences, files first; empty when nothing has."""
    return (*map(_file_line, found.changed), *_more(found), *_shifts(found))


def render_changes(found: Freshness) -> str:
    """Return the block that lists what has changed; empty when nothing has."""
    lines = [item(line) for line in change_lines(found)]
    pieces = ["\n".join([HEADING, *lines])] if lines else []
    if found.changed:
        pieces.append(READ_AGAIN)
    return "\n\n".join(pieces)


def _file_line(changed: ChangedFile) -> str:
    path = one_line(changed.path)
    if len(path) > SHOWN_CHARACTERS_MAX:
        # The end is what tells one file from another.
        path = f"…{path[-SHOWN_CHARACTERS_MAX:]}"
    return f"{code(path)}: {changed.how}"


def _more(found: Freshness) -> Iterator[str]:
    left = found.changed_count - len(found.changed)
    if left > 0:
        yield f"and {left} more of the files you had read"


def _shifts(found: Freshness) -> Iterator[str]:
    if found.branch:
        yield f"the branch is {_named(found.branch.now)}; it was {_named(found.branch.was)}"
    if found.directory:
        now, was = _named(found.directory.now), _named(found.directory.was)
        yield f"the working directory is {now}; it was {was}, and your paths lead there"


def _named(branch: str | None) -> str:
    return code(branch) if branch else "none"
