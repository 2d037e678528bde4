"""Places: which repository a directory is in, seen without asking git, and where its files lie.

As `runtime.working_tree.repository` sees it: a worktree belongs to the repository it was made from,
and a `.git` file counts where what it names points back. A place that nobody has set up for hooks
has no file, and nothing happens there.
"""

from __future__ import annotations

# `hashlib` loads OpenSSL, which costs a hook as much as starting the interpreter.
import _blake2
import os

from upthread.boundary.git.directory_files import GitFileError, read_line, read_plain
from upthread.boundary.git.linkage import common_of, named_in, points_back
from upthread.runtime.bindings import files
from upthread.runtime.bindings.files import Lock, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_HEADS = "ref: refs/heads/"

PACKED_BYTES_MAX = 16 << 20
"""How much of `packed-refs` a hook looks through: some 200,000 references."""

INSTALLED = "installed.json"
"""In the directory of hooks: what `setup` wrote down of itself, such as how a drain is started."""

UP_MAX = 64
"""How many directories up a repository is looked for."""


class Place:
    """A working tree and the files of its project.

    `root` is the working tree's directory, `repository` the directory of the repository it belongs
    to, `branch` what is checked out: None on a detached HEAD and outside of git. `is_repository` is
    whether there is one, `git_directory` and `common` its own directory and the one it shares,
    empty without one. `known` is the place's file, None when nobody has set it up.
    """

    def __init__(self, home: str, directory: str) -> None:
        self.home = hooks_directory(home)
        real = os.path.realpath(directory)
        head = git_directory = None
        try:
            self.root, git_directory = _working_tree(real)
            common = _common_directory(self.root, git_directory) if git_directory else None
            head = _head(git_directory) if git_directory and common else None
        # A hook never fails its agent: as a place that nobody has set up, where nothing happens.
        except GitFileError:
            common = None
        if common is None:
            self.root, git_directory = real, None
        self.common, self.git_directory, self._head = common or "", git_directory or "", head
        self.branch = _branch(head)
        self.is_repository = common is not None
        self.repository = os.path.dirname(common) if common else self.root
        self.path = os.path.join(self.home, "places", f"{key_of(self.repository)}.json")
        self.known: dict[str, Any] | None = None

    @property
    def commit(self) -> str | None:
        """What is checked out, None before the first commit and where it cannot be told lightly."""
        if not self.common or self._head is None:
            return None
        try:
            return _commit(self.common, self._head)
        except GitFileError:
            return None

    def read(self) -> dict[str, Any] | None:
        """Read the place's file again. Raises UnreadableError."""
        self.known = files.read(self.path)
        return self.known

    @property
    def project(self) -> str:
        """The directory of the project's files. Only of a place that was read and is known."""
        name = (self.known or {}).get("project_id")
        # It becomes a part of a path, and a file that was damaged may hold anything.
        if not isinstance(name, str) or not name.replace("_", "").isalnum():
            raise UnreadableError(f"{self.path}: it names no project")
        return os.path.join(self.home, "projects", name)

    def binding_path(self, workstream: str, role: str, slot: int) -> str:
        """Return where a conversation's binding lies. Names are data: never part of a path."""
        return self._file("bindings", workstream, role, str(slot))

    def session_path(self, agent: str, session: str) -> str:
        """Return where the workstream of an agent's main session is kept."""
        return self._file("sessions", agent, session)

    def call_path(self, agent: str, session: str, call_id: str) -> str:
        """Return where it is kept that a call was seen to begin."""
        return self._file("calls", agent, session, call_id)

    def _file(self, folder: str, *names: str) -> str:
        key = key_of("\0".join(names))
        return os.path.join(self.project, folder, f"{key}.json")

    def lock(self, *, wait_s: float = files.LOCK_WAIT_S) -> Lock:
        """Return the lock under which the project's bindings and spool are changed."""
        return Lock(os.path.join(self.project, "lock"), wait_s=wait_s)

    def drain_lock(self) -> Lock:
        """Return the lock that a drain holds while it works. Nobody waits for it."""
        return Lock(os.path.join(self.project, "drain"), wait_s=0.0)


def published_place(home: Path, root: Path, project_id: str) -> Place | None:
    """Return the place hooks read of a project, None where there is nothing of it. Blocking."""
    # One look is all that a turn costs more where there are no hooks (ADR 44).
    if not os.path.isdir(os.path.join(hooks_directory(str(home)), "projects", project_id)):
        return None
    place = Place(str(home), str(root))
    place.known = {"project_id": project_id}
    return place


def installed_path(home: Path) -> str:
    """Return where `setup` writes down how a drain is started."""
    return os.path.join(hooks_directory(str(home)), INSTALLED)


def read_binding(path: str) -> dict[str, Any]:
    """Return a binding; one that cannot be read is made anew, as publishing does."""
    try:
        return files.read(path) or {}
    except UnreadableError:
        return {}


def hooks_directory(home: str) -> str:
    """Return where hooks have their files, in upthread's home."""
    return os.path.join(home, "hooks")


def key_of(text: str) -> str:
    """Return a name for a file, made from a text that must not be one."""
    # Names are any text, lone surrogates among it (S8).
    return _blake2.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _working_tree(directory: str) -> tuple[str, str | None]:
    """Return the root and its git directory; the directory itself and None outside of git."""
    place = directory
    for _ in range(UP_MAX):
        inside = os.path.join(place, ".git")
        if os.path.isdir(inside):
            return place, os.path.realpath(inside)
        named = named_in(inside) if os.path.lexists(inside) else None
        if named is not None:
            return place, named
        parent = os.path.dirname(place)
        if parent == place:
            break
        place = parent
    return directory, None


def _common_directory(root: str, git_directory: str) -> str | None:
    """Return what the git directory shares, None where it and the root do not name each other."""
    common = common_of(git_directory)
    # What names another repository's directory would pass for that project (ADR 58).
    is_own = git_directory == os.path.join(root, ".git")
    if is_own:
        return common if common == git_directory else None
    return common if common is not None and points_back(git_directory, root) else None


def _head(git_directory: str) -> str:
    return read_line(os.path.join(git_directory, "HEAD")) or ""


def _branch(head: str | None) -> str | None:
    return head.removeprefix(_HEADS) if head and head.startswith(_HEADS) else None


def _commit(common: str, head: str) -> str | None:
    """Return the object that HEAD leads to, by its loose file, else by the packed references."""
    name = head.removeprefix("ref: ")
    if name == head:
        return _object(head)
    # HEAD is a file of the repository's, and what it names becomes a part of a path.
    if not name.startswith("refs/") or ".." in name:
        return None
    loose = read_line(os.path.join(common, name))
    if loose is not None:
        return _object(loose)
    # Second, as git looks: a packed one is older than a loose one of the same name.
    packed = read_plain(os.path.join(common, "packed-refs"), bytes_max=PACKED_BYTES_MAX) or b""
    end = packed.find(b" " + os.fsencode(name) + b"\n")
    start = packed.rfind(b"\n", 0, max(end, 0)) + 1
    return _object(packed[start:end].decode("ascii", "replace")) if end > 0 else None


def _object(text: str) -> str | None:
    return text if len(text) in {40, 64} and not text.strip("0123456789abcdef") else None
