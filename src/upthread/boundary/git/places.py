"""Which repository a directory is in, found as git finds it, and whether it may be read.

A `.git` that cannot be read is an error, not passed by: the project would be another one.
Not everything git accepts counts: a folder that only looks like a git directory (a bare one, which
a clone can bring along) never does, `core.worktree` does not move a working tree, and a `.git` file
counts where the other side names the folder too. What belongs to somebody else is refused unless
the person's own configuration trusts it.
"""

from __future__ import annotations

import os
import stat

from msgspec import Struct

from upthread.boundary import programs
from upthread.boundary.git.configuration import Configuration, read_configuration
from upthread.boundary.git.directory_files import GitFileError
from upthread.boundary.git.linkage import common_of, named_in, points_back
from upthread.core.text import command
from upthread.errors import UsageError

UP_MAX = 256
"""How many directories up a repository is looked for."""

# What another one means for the files that are read here is not known; git refuses it as well.
_KNOWN_EXTENSIONS = {
    "compatobjectformat",
    "noop",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "relativeworktrees",
    "worktreeconfig",
}
_BEGINNINGS = {"HEAD", "objects", "refs"}


class GitDirectories(Struct, frozen=True, kw_only=True):
    """A working tree, its git directory and the one it shares with others of its repository."""

    top: str
    git_directory: str
    common_directory: str
    configuration: Configuration

    @property
    def objects(self) -> str:
        """Where the objects are."""
        return os.path.join(self.common_directory, "objects")

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The folders that nothing is started from: its repository's trees, and those around."""
        return untrusted_around(self.top, os.path.dirname(self.common_directory))


def untrusted_around(*paths: str) -> tuple[str, ...]:
    """Return these folders, and the outermost repository around each, but never a whole home."""
    home = os.path.expanduser("~")
    around = (programs.working_tree_of(path, home=home) for path in paths)
    return (*paths, *filter(None, around))


def find_place(directory: str) -> GitDirectories | None:
    """Return the working tree a directory is in, None outside of any.

    Raises UsageError for one that must not be read, with the cure, and GitFileError for one that
    cannot be.
    """
    at = os.path.realpath(directory)
    try:
        device = os.stat(at).st_dev
        for _ in range(UP_MAX):
            found = place_at(at)
            above = os.path.dirname(at)
            # Git stops where another file system begins, and so the project stays what it was.
            if found is not None or above == at or os.stat(above).st_dev != device:
                return found
            at = above
    except (FileNotFoundError, NotADirectoryError):
        pass
    return None


def place_at(top: str) -> GitDirectories | None:
    """Return the working tree whose top a directory is, None where it is none. Raises as above."""
    dot_git = os.path.join(top, ".git")
    try:
        mode = os.lstat(dot_git).st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    git_directory = named_in(dot_git) if stat.S_ISREG(mode) else os.path.realpath(dot_git)
    if git_directory is None or not os.path.isdir(git_directory):
        raise GitFileError(f"{dot_git} leads to no git directory")
    if stat.S_ISDIR(mode) and not _was_begun(git_directory):
        return None
    common = common_of(git_directory)
    if common is None:
        raise _forged(top, git_directory, "names a repository that does not hold it")
    _require_git_directory(dot_git, common)
    # A link as well as a file: either can be laid by whoever may write in the folder.
    if not stat.S_ISDIR(mode) and not points_back(git_directory, top):
        raise _forged(top, git_directory, "does not name this folder")
    # Such a folder would pass for another project with nothing on that one's side to say so.
    if stat.S_ISDIR(mode) and common != git_directory:
        raise _forged(top, git_directory, "is a folder's own and shares another's")
    # Each of them: who owns the folder need not own what its `.git` leads to.
    _require_owned(top, (dot_git, top, git_directory, common))
    return GitDirectories(
        top=top,
        git_directory=git_directory,
        common_directory=common,
        configuration=_configuration(git_directory, common),
    )


def _forged(top: str, git_directory: str, why: str) -> UsageError:
    kept = os.path.join(git_directory, "config")
    cure = command("git", "config", "--file", kept, "core.worktree", top)
    return UsageError(
        f"{top}/.git leads to {git_directory}, which {why}",
        hint="do not work there if it came with a clone; a worktree of yours that was moved: "
        f"git worktree repair; a git directory kept apart: {cure}",
    )


def _was_begun(git_directory: str) -> bool:
    """Tell a repository, damaged or not, from what sandboxes leave where they allow no `.git`."""
    try:
        return not _BEGINNINGS.isdisjoint(os.listdir(git_directory))
    except OSError as error:
        raise GitFileError(f"{git_directory} cannot be read: {error}") from error


def _require_git_directory(dot_git: str, common: str) -> None:
    # Git passes a damaged one by, up to the next; the project would be another all of a sudden.
    for name in ("objects", "refs"):
        if not os.path.isdir(os.path.join(common, name)):
            raise GitFileError(f"{dot_git} is no git directory: {common} has no folder {name}")


def _require_owned(top: str, paths: tuple[str, ...]) -> None:
    own = {os.geteuid()}
    # As git has it: with sudo, what belongs to whoever called it is still theirs.
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        own.add(int(os.environ["SUDO_UID"]))
    if all(os.lstat(path).st_uid in own for path in paths):
        return
    # Loaded and asked only here: this runs git.
    from upthread.boundary.git.person import is_trusted_by_the_person

    if not is_trusted_by_the_person(top, untrusted_around(top)):
        raise UsageError(
            f"detected dubious ownership in repository at '{top}'",
            hint="the repository belongs to another user; if you trust it: "
            + command("git", "config", "--global", "--add", "safe.directory", top),
        )


def _configuration(git_directory: str, common: str) -> Configuration:
    """Return the repository's own values, the working tree's over them, where git reads them so."""
    shared = read_configuration(os.path.join(common, "config"))
    version = shared.last("core.repositoryformatversion") or "0"
    # In format 0 git passes by the extensions that it does not know.
    if version == "1":
        _require_known_extensions(shared, common)
    elif version != "0":
        raise GitFileError(f"{common} has the format {version!r}, which is not known")
    if not shared.is_true("extensions.worktreeconfig"):
        return shared
    return read_configuration(os.path.join(git_directory, "config.worktree")).over(shared)


def _require_known_extensions(shared: Configuration, common: str) -> None:
    for name in shared.values:
        section, _, key = name.partition(".")
        is_files = key == "refstorage" and shared.last(name) == "files"
        if section == "extensions" and key not in _KNOWN_EXTENSIONS and not is_files:
            raise GitFileError(f"{common} has the extension {key}, which is not known")
