"""Changes to files that are not ours: shown, made whole, and undone byte for byte.

A target says what set-up changes for one agent; in a TOML file our lines are a block at its end.

What was there before is kept with what was written. As long as nobody else has changed the file
since, taking the change back restores it exactly; if somebody has, only our part is taken out.
"""

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, convert, to_builtins

from upthread.boundary import files as opener
from upthread.boundary import own_files
from upthread.boundary.own_files import installed_path
from upthread.config import PROJECT_FILE
from upthread.errors import UpthreadError, UsageError

FILE_BYTES_MAX = 4 * 1024 * 1024
NEW_FILE_MODE = 0o600


class Change(Struct, frozen=True, kw_only=True):
    """A file as it is and as it shall be; None: it is not there. `what` says it in a few words."""

    path: Path
    before: bytes | None
    after: bytes | None
    what: str = ""

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff."""
        old, new = (
            (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
            for content in (self.before, self.after)
        )
        names = [
            str(self.path) if each is not None else os.devnull for each in (self.before, self.after)
        ]
        for line in difflib.unified_diff(old, new, names[0], names[1], lineterm=""):
            yield line.rstrip("\n")

    def make(self) -> None:
        """Bring the file to what it shall be, in one step. Raises UpthreadError."""
        try:
            if self.after is None:
                self.path.unlink(missing_ok=True)
                return
            # A link of the person's own, to a file kept elsewhere, stays one.
            target = self.path if is_of_repository(self.path) else self.path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else NEW_FILE_MODE
            opener.write_whole(target, self.after, mode=mode)
        except OSError as error:
            raise UpthreadError(
                f"{self.path} cannot be written: {error.strerror}",
                hint="make it writable for you; nothing else was changed",
            ) from error


Changes: TypeAlias = tuple[Change, ...]

Environment: TypeAlias = Mapping[str, str]

TakeOut: TypeAlias = Callable[[Path, bytes], bytes | None]
"""Takes our part out of a file; returns what is left of it, None for nothing."""


def read_file(path: Path) -> bytes | None:
    """Return a file's bytes, None without one. Raises UsageError for one that is no plain file."""
    try:
        # A clone's link may lead to any file of the
        # person's; a person's own link is theirs (ADR 66).
        if is_of_repository(path):
            descriptor = opener.within(str(path.parent), path.name)
        else:
            descriptor = opener.through_links(str(path))
        return opener.read_all(descriptor, str(path), bytes_max=FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    except opener.FileRefusedError as error:
        raise UsageError(
            f"{path} is not a file of settings: {error.strerror}", hint=error.cure
        ) from error
    except OSError as error:
        raise UpthreadError(
            f"{path} cannot be read: {error.strerror}", hint="make it readable for you"
        ) from error


def is_of_repository(path: Path) -> bool:
    """Return whether a file is a repository's: its links are nobody's we know, and not followed."""
    return path.name == PROJECT_FILE


# --- what was installed, written down ----------------------------------------------------------


FORM = 2
"""The form of what `setup` writes. Raised with each new event, so that older set-ups are told."""


class _Kept(Struct, frozen=True, kw_only=True):
    """A file before and after the set-up, and the directories that were made for it."""

    before: bytes | None
    after: bytes | None
    made: tuple[str, ...] = ()


class _Written(Struct):
    """What is kept of set-ups: the files of each agent, by their paths, and the form of each."""

    agents: dict[str, dict[str, _Kept]] = {}
    forms: dict[str, int] = {}


class Installed:
    """What `setup` has done on this machine, by agent."""

    def __init__(self, home: Path) -> None:
        self._path = installed_path(home)
        self._written = convert(own_files.read(self._path) or {}, _Written)

    def agents(self) -> tuple[str, ...]:
        """Return the agents that are set up."""
        return tuple(self._written.agents)

    def outdated(self) -> Iterator[str]:
        """Yield what is to be said of agents whose hooks an earlier version wrote."""
        for agent in self._written.agents:
            if self._written.forms.get(agent, 0) < FORM:
                yield f"the hooks of {agent} are of an earlier version: upthread setup {agent}"

    def write_down(self, agent: str, changes: Iterable[Change]) -> None:
        """Remember changes before they are made; the first `before` of a file stands."""
        kept = self._written.agents.setdefault(agent, {})
        for change in changes:
            # The innermost first.
            missing_above = tuple(str(each) for each in change.path.parents if not each.exists())
            # The first one stands: set up twice, `--remove` would else restore what we wrote.
            earlier = kept.get(str(change.path))
            kept[str(change.path)] = _Kept(
                before=earlier.before if earlier else change.before,
                after=change.after,
                made=earlier.made if earlier else missing_above,
            )
        self._written.forms[agent] = FORM
        own_files.replace(self._path, to_builtins(self._written))

    def undoing(self, agent: str, taken_out: TakeOut) -> Changes:
        """Return the changes that undo an agent's set-up; `taken_out` takes our part of a file."""
        return tuple(
            _undone(Path(path), kept, taken_out)
            for path, kept in self._written.agents.get(agent, {}).items()
        )

    def forget(self, agent: str) -> None:
        """Remember no longer that an agent is set up; directories made for it go, if empty."""
        for kept in self._written.agents.pop(agent, {}).values():
            for directory in kept.made:
                with suppress(OSError):  # somebody else has put something there, or removed it
                    Path(directory).rmdir()
        if self._written.agents:
            own_files.replace(self._path, to_builtins(self._written))
        else:
            own_files.remove(self._path)

    def expected(self, agent: str) -> Iterator[tuple[Path, bytes | None]]:
        """Yield the files of an agent's set-up with what was written to them."""
        for path, kept in self._written.agents.get(agent, {}).items():
            yield Path(path), kept.after


def _undone(path: Path, kept: _Kept, taken_out: TakeOut) -> Change:
    now = read_file(path)
    # Somebody took it away: to put it back would undo what they did.
    if now is None:
        return Change(path=path, before=None, after=None)
    if now == kept.after:
        what = "as it was before" if kept.before is not None else "taken away"
        return Change(path=path, before=now, after=kept.before, what=what)
    what = "changed since, so only what is upthread's is taken out"
    left = without_block(now) if is_of_repository(path) else taken_out(path, now)
    return Change(path=path, before=now, after=left, what=what)


def as_json_object(path: Path, content: bytes | None) -> dict[str, Any]:
    """Return a settings file's object. Raises UsageError for one that is no plain JSON."""
    if content is None or not content.strip():
        return {}
    try:
        value: object = json.loads(content)
    except ValueError as error:
        raise UsageError(
            f"{path} is not plain JSON: {error}",
            hint="mend it first; upthread changes no other form",
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no object", hint="mend it first")
    return cast("dict[str, Any]", value)


class Trust(Struct, frozen=True):
    """What an agent said of its trust in our hooks: None where it was not asked or said nothing."""

    is_given: bool | None = None
    fault: str = ""
    cure: str = ""


class Target(Struct, frozen=True, kw_only=True):
    """How one agent is set up: `name` is its own in the store, `then` what a person does next.

    `trust` asks an agent that leaves out hooks a person has not trusted, in a working directory.
    """

    name: str
    changes: Callable[..., Changes]
    taken_out: TakeOut
    then: str = ""
    trust: Callable[[str], Awaitable[Trust]] | None = None


BEGIN = "# begin: written by `upthread setup`"
END = "# end: written by `upthread setup`"

_BLOCK = re.compile(rb"\n?" + BEGIN.encode() + rb"\n.*?" + END.encode() + rb"\n", re.DOTALL)


def with_block(path: Path, content: bytes | None, lines: tuple[str, ...]) -> bytes:
    """Return a file with these lines as its block. Raises UsageError when that would not be TOML.

    A table that is there already would be there twice, and is somebody else's to change.
    """
    # Ours is taken out first: written again it stands once, and at the end.
    kept = without_block(content or b"")
    between = b"" if not kept else b"\n" if kept.endswith(b"\n") else b"\n\n"
    block = "\n".join((BEGIN, *lines, END, ""))
    after = kept + between + block.encode()
    try:
        # Before it is shown, and long before it is written:
        # a broken file would stop the agent itself.
        tomllib.loads(after.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} would be no valid TOML with upthread's lines: {error}",
            hint="mend it, or take out what names upthread there",
        ) from error
    return after


def block_of(content: bytes) -> bytes:
    """Return our block of a file, empty when there is none."""
    found = _BLOCK.search(content)
    return found[0] if found else b""


def without_block(content: bytes) -> bytes:
    """Return a file without our block, everything else as it is."""
    return _BLOCK.sub(b"", content)
