"""The private directory git runs in: a repository of ours around somebody else's objects.

It holds a HEAD, a configuration and patterns that we wrote, and copies of the index and of the list
where a shallow history ends. The objects and the working tree are the real ones. Whatever anybody
writes into the real git directory meanwhile, git does not look there.

Of the real configuration it gets the settings that change what a file's content is, as plain values
that name no program: the person's own come from `process`, the repository's from its file. A filter
is a program that git would run on a file's content: it is said which files have one, and none runs.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from os.path import exists, expanduser, join, realpath

from msgspec import Struct

from upthread.boundary.git import process
from upthread.boundary.git.files import Configuration, GitFileError, open_plain, read_plain
from upthread.boundary.git.places import GitDirectories
from upthread.boundary.git.process import (
    UNCONFIGURED,
    Done,
    person_configuration,
    private_parent,
    run_git,
)

PATTERNS_BYTES_MAX = 4 << 20
"""How large a file of patterns (ignored paths, attributes) may be."""

_WORDS = (
    *("autocrlf", "checkstat", "eol", "filemode", "ignorecase", "precomposeunicode"),
    *("sparsecheckout", "sparsecheckoutcone", "symlinks", "trustctime"),
)
"""Settings that are words, and change what a file's content is."""

_PATTERNS = ("attributesfile", "excludesfile")


def _settings(place: GitDirectories, found: Configuration, at: str) -> dict[str, str]:
    """Return git's `core` for a working tree; files of patterns that it names are copied."""
    values = {name: found.last(f"core.{name}") or "" for name in _WORDS}
    values = {name: word for name, word in values.items() if re.fullmatch("[A-Za-z0-9]+", word)}
    for name in _PATTERNS:
        if named := found.last(f"core.{name}"):
            path = realpath(join(place.top, expanduser(named)))
            # A copy: where the real one lies there may be a pipe by the time git opens it.
            _write(at, name, read_plain(path, bytes_max=PATTERNS_BYTES_MAX) or b"")
            values[name] = join(at, name)
    return values


# --- the directory --------------------------------------------------------------------------------


INDEX_BYTES_MAX = 1 << 30
"""How large an index may be: about ten million files."""

SHALLOW_BYTES_MAX = 16 << 20

ALTERNATES_BYTES_MAX = 1 << 16

_COPY_BYTES = 1 << 20
# Without a HEAD that names something, git takes the directory for no repository at all.
_UNBORN = "ref: refs/heads/none\n"


class PrivateGit(Struct, frozen=True, kw_only=True):
    """Git for one place, with nothing of that place's configuration. Blocking."""

    place: GitDirectories
    directory: str
    environment: dict[str, str]
    until_s: float

    def ask(self, *arguments: str) -> bytes | None:
        """Return what git says, None where it says no. Raises UsageError when it takes too long."""
        done = self._run(arguments, b"")
        return done.said if done.code == 0 else None

    def do(self, *arguments: str, given: bytes = b"") -> bytes:
        """Return what git says; raises UsageError with git's own words when it fails."""
        return self._run(arguments, given).answer(arguments[0], self.place.top)

    def _run(self, arguments: tuple[str, ...], given: bytes) -> Done:
        return run_git(
            arguments,
            directory=self.place.top,
            outside=self.place.untrusted,
            environment=self.environment,
            given=given,
            until_s=self.until_s,
        )


@contextmanager
def objects_of(place: GitDirectories) -> Generator[PrivateGit]:
    """Give git the objects of a place alone: for questions about commits and what they hold."""
    with _private(place, None) as git:
        _write(git.directory, "HEAD", _UNBORN)
        _write(git.directory, "config", _configuration(place, {}))
        yield git


@contextmanager
def tree_of(
    place: GitDirectories, commit: str | None, *, timeout_s: float | None = None, index: str = ""
) -> Generator[PrivateGit]:
    """Give git the working tree of a place too, and a copy of its index, for reading.

    `commit` is what HEAD is to be, None before the first. All calls together have `timeout_s`
    seconds, TIMEOUT_S without. `index` names an index to write instead, for a tree that is being
    made. Raises GitFileError for what git would wait for or could not read.
    """
    # The repository's last, as git reads them.
    found = place.configuration.over(person_configuration(place.untrusted))
    with _private(place, timeout_s) as git:
        at = git.directory
        # The commit itself: of the branch there is no reference in here.
        _write(at, "HEAD", f"{commit}\n" if commit else _UNBORN)
        os.mkdir(join(at, "info"))
        for name in ("exclude", "attributes"):
            path = join(place.common_directory, "info", name)
            _write(at, f"info/{name}", read_plain(path, bytes_max=PATTERNS_BYTES_MAX) or b"")
        _write(at, "config", _configuration(place, _settings(place, found, at)))
        if not index:
            _copy_index(place.git_directory, at)
        git.environment["GIT_INDEX_FILE"] = index or join(at, "index")
        git.environment["GIT_WORK_TREE"] = place.top
        yield git


@contextmanager
def _private(place: GitDirectories, timeout_s: float | None) -> Generator[PrivateGit]:
    # Before git: on a pipe it would wait for as long as it is given.
    _require_plain_objects(place.objects)
    until_s = time.monotonic() + (process.TIMEOUT_S if timeout_s is None else timeout_s)
    parent = private_parent(place.untrusted)
    with tempfile.TemporaryDirectory(prefix="upthread-git-", dir=parent) as directory:
        # Empty: they make it a repository to git, which takes objects from where it is told.
        for name in ("objects", "refs"):
            os.mkdir(join(directory, name))
        environment = {**UNCONFIGURED, "GIT_DIR": directory, "GIT_OBJECT_DIRECTORY": place.objects}
        shallow = join(place.common_directory, "shallow")
        ends = read_plain(shallow, bytes_max=SHALLOW_BYTES_MAX)
        # Without it, what a shallow clone left out would look like damage to git.
        if ends is not None:
            _write(directory, "shallow", ends)
        yield PrivateGit(place=place, directory=directory, environment=environment, until_s=until_s)


def _configuration(place: GitDirectories, values: dict[str, str]) -> str:
    kind = place.configuration.last("extensions.objectformat") or "sha1"
    if kind not in {"sha1", "sha256"}:
        raise GitFileError(
            f"{place.common_directory} names objects by {kind!r}, which is not known"
        )
    # Format 1: git refuses a repository of format 0 that says how its objects are named.
    lines = ["[core]", "repositoryformatversion = 1", f"hooksPath = {os.devnull}"]
    for name, value in values.items():
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{name} = "{quoted}"')
    return "\n".join([*lines, "[extensions]", f"objectFormat = {kind}", ""])


def _write(directory: str, name: str, content: bytes | str) -> None:
    raw = content if isinstance(content, bytes) else os.fsencode(content)
    with open(join(directory, name), "xb") as file:
        file.write(raw)


def _require_plain_objects(objects: str) -> None:
    """Refuse what git would wait for: every index of a pack as it begins, and loose objects."""
    read_plain(join(objects, "info", "alternates"), bytes_max=ALTERNATES_BYTES_MAX)
    loose = [name for name in os.listdir(objects) if re.fullmatch("[0-9a-f]{2}", name)]
    for below in ("", "info", "pack", *loose):
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in list(os.scandir(join(objects, below))):
                # A link that leads nowhere is none that git would wait for.
                is_there = not entry.is_symlink() or exists(entry.path)
                if is_there and not entry.is_file() and not entry.is_dir():
                    raise GitFileError(f"{entry.path} is not a plain file")


def _copy_index(git_directory: str, to: str) -> None:
    _copy(git_directory, "index", to)
    shared = re.compile(r"sharedindex\.((?:[0-9a-f]{2})+)")
    parts = list(filter(None, map(shared.fullmatch, os.listdir(git_directory))))
    if not parts:
        return
    content = read_plain(join(to, "index"), bytes_max=INDEX_BYTES_MAX) or b""
    for part in parts:
        # A split index names its other part in its own bytes; parts of others may lie about.
        if bytes.fromhex(part[1]) in content:
            _copy(git_directory, part[0], to)


def _copy(git_directory: str, name: str, to: str) -> None:
    """Copy a file of a git directory, with its time."""
    descriptor = open_plain(join(git_directory, name), bytes_max=INDEX_BYTES_MAX)
    if descriptor is None:
        return
    copied = join(to, name)
    with open(descriptor, "rb") as source, open(copied, "xb") as copy:
        seen = os.fstat(descriptor)
        shutil.copyfileobj(source, copy, _COPY_BYTES)
    # Git takes an entry that is as old as the index for one that may have changed since.
    os.utime(copied, ns=(seen.st_atime_ns, seen.st_mtime_ns))


# --- filters --------------------------------------------------------------------------------------


_NONE = {b"unspecified", b"unset", b"set", b""}


def filters_of(git: PrivateGit, paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the name of the filter of each path that has one. Blocking."""
    given = b"".join(path + b"\0" for path in paths)
    if not given:
        return {}
    told = git.do("check-attr", "-z", "--stdin", "filter", given=given).split(b"\0")
    # The last NUL leaves one empty piece, so the lengths differ by one.
    named = zip(told[0::3], told[2::3], strict=False)
    return {path: name for path, name in named if name not in _NONE}
