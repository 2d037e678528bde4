"""Freshness: what has changed around a session since it last worked, and the words that say it.

What a session examined is compared with the files as they are now, and what it worked in with what
there is now. What follows from it is decided in core/decision/rules.py; who looks at files and at
git is the runtime. Nothing is guessed: what could not be looked at says so. File names are
strangers' text and stay on their line. Hooks load this, without any library.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from upthread.core.decision.examined import ExaminedFile
from upthread.core.text import code, item, one_line

ChangeWord: TypeAlias = Literal["changed", "created", "deleted", "unreadable"]

LISTED_MAX: Final = 50
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
    """

    examined_count: int = 0
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


NOTHING_KNOWN: Final = Freshness()
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
        changed=tuple(listed),
        changed_count=len(changed),
        critical_count=sum(each.is_critical for each in changed),
        branch=moved.get("branch"),
        commit=moved.get("commit"),
        directory=moved.get("working_directory"),
        agent_version=moved.get("agent_version"),
        model=moved.get("model"),
        is_directory_missing=was is not None and _is_worktree_gone(was, places_gone),
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


_COMPARED: Final = ("working_directory", "agent_version", "model", "configuration")
_COMPARED_IN_GIT: Final = ("branch", "commit")


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


def _is_worktree_gone(was: Surroundings, places_gone: frozenset[str]) -> bool:
    """A renamed directory takes its repository along; a removed worktree leaves it behind."""
    return was.working_directory in places_gone and was.repository not in {None, *places_gone}


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


_TOKENS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


# --- in words -------------------------------------------------------------------------------------


HEADING: Final = "# What has changed since your last turn"
NEW_INSTRUCTIONS_HOLD: Final = "Your instructions have changed: those that you have now hold."
READ_AGAIN: Final = "Read these files again before you rely on what you remember of them."

CHANGED: Final = "What has changed"
"""The heading in a briefing."""

NO_CHANGES: Final = "No changes to the files that were known, the branch or the directory."
"""What a briefing says where it was looked, and nothing had changed."""

PATH_CHARACTERS_MAX: Final = 300


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
    if len(path) > PATH_CHARACTERS_MAX:
        # The end is what tells one file from another.
        path = f"…{path[-PATH_CHARACTERS_MAX:]}"
    return f"{code(path)}: {changed.how}"


def _more(found: Freshness) -> Iterator[str]:
    left = found.changed_count - len(found.changed)
    if left > 0:
        yield f"and {left} more of the files you had read"


def _shifts(found: Freshness) -> Iterator[str]:
    if found.branch is not None:
        yield f"the branch is {_named(found.branch.now)}; it was {_named(found.branch.was)}"
    if found.directory is not None:
        now, was = _named(found.directory.now), _named(found.directory.was)
        yield f"the working directory is {now}; it was {was}, and your paths lead there"


def _named(branch: str | None) -> str:
    return code(branch) if branch else "none"
