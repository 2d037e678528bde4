"""How a file that is not ours is opened: an ordinary one, at once, and no more of it than asked.

A name in a repository, in an agent's store or in a hook's request may lead anywhere: to a device
that never ends, a pipe that nobody writes to, `/proc`, or out of the tree by a link. Nothing here
waits, nothing takes a terminal over, and what was opened is looked at again, since a name may have
been given to something else meanwhile.

Three ways, by whose the name is. `within` is for a repository: each part of the path is opened in
the directory before it, and a link is followed by us, only to what is within the tree. `direct` is
for places we were told of: the last part may be no link. `through_links` is for a person's own
files, which may be kept elsewhere. What runs, or decides what runs, is asked for who else may
write it. Light enough for a hook: `os`, `stat` and `errno` alone.
"""

from __future__ import annotations

import errno
import os
import stat
from os.path import abspath, expanduser, isabs, join, lexists, normpath, realpath, relpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import BinaryIO

NOWHERE = "/"
"""Where what needs no place of its own is started: nothing in there is a repository's."""

OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""With these an open never waits, takes no terminal over and is not handed on."""

LINKS_MAX = 40
"""How many links one path may lead through; what Linux itself follows."""

PIECE_BYTES = 1024 * 1024

_GIT_DIRECTORY = ".git"

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP = _DIRECTORY | getattr(os, "O_PATH", OPEN_FLAGS)
"""A directory that is only gone through need not be one that may be listed, where that is known."""

_KINDS = (
    (stat.S_ISDIR, "it is a directory"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISLNK, "it is a link"),
)


class FileRefusedError(OSError):
    """A file is there and is not read. `strerror` says why, `cure` what helps."""

    def __init__(self, path: str, why: str, cure: str) -> None:
        super().__init__(errno.EINVAL, why, path)
        self.cure = cure


def direct(path: str) -> int:
    """Return a descriptor of an ordinary file whose name is no link. Raises OSError."""
    try:
        _refuse_kind(os.lstat(path).st_mode, path)  # to open a device may already do something
        return _ordinary(os.open(path, OPEN_FLAGS | os.O_NOFOLLOW), path)
    except OSError as error:
        raise _said(error, path) from error


def through_links(path: str) -> int:
    """Return a descriptor of an ordinary file of a person's own. Raises OSError."""
    try:
        _refuse_kind(os.stat(path).st_mode, path)
        return _ordinary(os.open(path, OPEN_FLAGS), path)
    except OSError as error:
        raise _said(error, path) from error


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, is_new: bool = False) -> None:
    """Write a file that is there whole or not at all, in another's place unless it `is_new`.

    Raises FileExistsError for a new one whose name is taken.
    """
    aside = f"{path}.{os.urandom(8).hex()}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, mode)
            # Before it has its name: after a crash a name must not lead to an empty file.
            os.fsync(descriptor)
        (os.link if is_new else os.rename)(aside, path)
    finally:
        if lexists(aside):
            os.unlink(aside)


def within(tree: str, path: str) -> int:
    """Return a descriptor of an ordinary file in a tree, by its path there. Raises OSError.

    A link counts for what it leads to, as long as that is in the tree as well.
    """
    shown = join(tree, path)
    walk = _Walk(tree, shown)
    try:
        last = walk.to_parent_of(path)
        _refuse_kind(os.stat(last, dir_fd=walk.place, follow_symlinks=False).st_mode, shown)
        descriptor = os.open(last, OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=walk.place)
        return _ordinary(descriptor, shown)
    except OSError as error:
        raise _said(error, shown) from error
    finally:
        walk.close()


def place_within(trees: Iterable[str], path: str) -> tuple[str, str] | None:
    """Return the tree a path was named in and its path there, None where it is in none of them.

    By the directories on the way as they were named: a link in the tree makes it no less the
    tree's. Another name of the tree itself is still the tree.
    """
    tops = {realpath(each): each for each in trees}
    *above, _ = parts = [part for part in abspath(path).split(os.sep) if part]
    for length in range(len(above) + 1):
        top = tops.get(realpath(os.sep + os.sep.join(parts[:length])))
        # The shortest first: of two trees, one in the other, it is the outer that named it.
        if top is not None:
            return top, os.sep.join(parts[length:])
    return None


def is_beyond(tree: str, place: str) -> bool:
    """Return whether a path, as it was named in a tree, leads out of it or to git's own files."""
    top = realpath(tree)
    try:
        # An agent may take `~` for the home, as a shell does: judged as if it did.
        found = realpath(join(top, expanduser(place)))
    except ValueError:  # a NUL in it: nothing that could be looked at
        return True
    if found != top and not found.startswith(top.rstrip(os.sep) + os.sep):
        return True
    # Without case: to a file system that knows none, `.GIT/hooks` is git's own as well.
    return _GIT_DIRECTORY in relpath(found, top).casefold().split(os.sep)


def names_from(tree: str, path: str) -> tuple[str, ...]:
    """Return what a path is called from a tree on: as it was named, and where links lead.

    One that is not in the tree is called by its whole path.
    """
    top = realpath(tree)
    named = join(top, expanduser(path))
    try:
        found = [normpath(named), realpath(named)]
    except ValueError:  # a NUL in it
        return (path,)
    inside = top.rstrip(os.sep) + os.sep
    return tuple(dict.fromkeys(each.removeprefix(inside) for each in found))


def names_within(tree: str, path: str, *, names_max: int) -> list[str]:
    """Return the names in a directory of a tree, unsorted. Raises OSError, also for too many."""
    shown = join(tree, path)
    walk = _Walk(tree, shown)
    try:
        last = walk.to_parent_of(path)
        directory = os.open(last, _DIRECTORY | OPEN_FLAGS, dir_fd=walk.place)
    except OSError as error:
        raise _said(error, shown) from error
    finally:
        walk.close()
    try:
        return _names(directory, shown, names_max)
    finally:
        os.close(directory)


def read_all(descriptor: int, path: str, *, bytes_max: int) -> bytes:
    """Return what a descriptor holds, which it closes. Raises FileRefusedError for more."""
    pieces: list[bytes] = []
    left = bytes_max
    try:
        # One byte more than allowed shows that there is more; the size says nothing of what grows.
        while piece := os.read(descriptor, min(left + 1, PIECE_BYTES)):
            left -= len(piece)
            if left < 0:
                raise FileRefusedError(path, f"it has more than {bytes_max} bytes", "shorten it")
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def read_start(path: str, bytes_max: int) -> bytes:
    """Return the beginning of an ordinary file, wherever its links lead. Raises OSError."""
    descriptor = through_links(path)
    try:
        return os.read(descriptor, bytes_max)
    finally:
        os.close(descriptor)


def streamed(path: str) -> BinaryIO:
    """Open an ordinary file for reading piece by piece. Raises OSError."""
    return os.fdopen(through_links(path), "rb")


def is_ordinary(descriptor: int) -> bool:
    """Return whether what was opened is an ordinary file."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


class _Walk:
    """Goes down a path one directory after the other; `place` is the one it is in.

    Each step is taken in a directory that is held open, so that nobody can put a link in its way.
    """

    def __init__(self, tree: str, shown: str) -> None:
        self._tree = realpath(tree)
        self._shown = shown
        self._held = [os.open(self._tree, _STEP)]
        self._links = 0

    @property
    def place(self) -> int:
        return self._held[-1]

    def close(self) -> None:
        for each in self._held:
            os.close(each)

    def to_parent_of(self, path: str) -> str:
        """Go to the directory that a path's last part is in; return that part, which is no link.

        It may have become one when it is opened: that has to refuse links itself.
        """
        parts = self._parts(path)
        while parts:
            part = parts.pop(0)
            if part == os.pardir:
                if len(self._held) == 1:
                    raise self._leads_out()
                os.close(self._held.pop())
            elif target := self._link(part):
                parts = [*self._parts(target), *parts]
            elif not parts:
                return part
            else:
                # Follows no link: one that was put there since it was looked at is refused.
                self._held.append(os.open(part, _STEP, dir_fd=self.place))
        return os.curdir

    def _parts(self, path: str) -> list[str]:
        """Return a path's parts from where we are; of an absolute one, from the tree's top."""
        if isabs(path):
            # By its words alone: a look at what is out there may already mount something.
            if path != self._tree and not path.startswith(self._tree + os.sep):
                raise self._leads_out()
            while len(self._held) > 1:
                os.close(self._held.pop())
            path = path[len(self._tree) :]
        return [part for part in path.split(os.sep) if part not in {"", os.curdir}]

    def _link(self, part: str) -> str:
        """Return what a link leads to, empty for what is none."""
        try:
            target = os.readlink(part, dir_fd=self.place)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return ""
            raise
        self._links += 1
        if self._links > LINKS_MAX:
            raise FileRefusedError(self._shown, "its links go round in a circle", "remove the link")
        return target

    def _leads_out(self) -> FileRefusedError:
        why = f"a link leads out of {self._tree}"
        return FileRefusedError(self._shown, why, "put the file itself there, or remove the link")


def _names(directory: int, shown: str, names_max: int) -> list[str]:
    found: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(found) >= names_max:
                cure = "remove what does not belong there"
                raise FileRefusedError(shown, f"it holds more than {names_max} names", cure)
            found.append(entry.name)
    return found


def _ordinary(descriptor: int, path: str) -> int:
    try:
        _refuse_kind(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_kind(mode: int, path: str) -> None:
    for is_kind, why in _KINDS:
        if is_kind(mode):
            raise FileRefusedError(path, f"{why}, no ordinary file", "put an ordinary file there")


def _said(error: OSError, path: str) -> OSError:
    """Return an error in words: O_NOFOLLOW and a socket say so by numbers of their own."""
    if isinstance(error, FileRefusedError):
        return error
    if error.errno == errno.ELOOP:
        return FileRefusedError(path, "it is a link", "put the file itself there")
    if error.errno == errno.ENXIO:
        return FileRefusedError(
            path, "it is a socket, no ordinary file", "put an ordinary file there"
        )
    return error


def stamp_of(path: str) -> str:
    """Return what tells whether a file has been written since, empty for none; opens nothing."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    # The number too: what takes a file's place may have its size, and its time if it was kept. And
    # when the file was changed at all: the time of its last write can be put back (`touch -r`).
    return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}:{found.st_ctime_ns}"


def changed_since(stamps: Mapping[str, str]) -> str:
    """Return a path that has another stamp by now than it had, empty for none. Blocking."""
    return next((path for path, stamp in stamps.items() if stamp_of(path) != stamp), "")


# --- who else may write a file --------------------------------------------------------------------


_OTHERS = 0o022
ROOT_UID = 0


def written_by_others(path: Path, *, within: Path) -> str:
    """Return who else may write a file, in words; empty when nobody may.

    The file and the directories up to and with `within` are the person's alone. Above, whatever
    anybody may write is told as well, unless what is in there is kept from others (as in `/tmp`).
    A file that is not there yet is asked by its directories. Raises OSError.
    """
    for place in (path, *path.parents):
        try:
            found = place.lstat()
        except FileNotFoundError:
            continue
        is_inner = place == path or place.is_relative_to(within)
        # Root may write everything as it is, and owns what is above a home.
        if found.st_uid not in {os.geteuid(), ROOT_UID} and (is_inner or not _is_sticky(found)):
            return f"{place} belongs to user {found.st_uid}"
        # What a link's own mode says binds nobody, so it is not asked.
        if stat.S_ISLNK(found.st_mode):
            if is_inner and place == path:
                return f"{place} is a symlink"
            continue
        open_to = found.st_mode & (_OTHERS if is_inner else stat.S_IWOTH)
        if open_to and not (_is_sticky(found) and not is_inner):
            return f"{place} can be written by others"
    return ""


def _is_sticky(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISVTX)
