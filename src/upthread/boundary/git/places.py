"""Which repository a directory is in, whether it may be read, and what it has checked out.

It is found as git finds it. A `.git` that cannot be read is an error, not passed by: the project
would be another one. Not everything git accepts counts: a folder that only looks like a git
directory (a bare one, which a clone can bring along) never does, `core.worktree` does not move a
working tree, and a `.git` file counts where the other side names the folder too. What belongs to
somebody else is refused unless the person's own configuration trusts it.

All is read from git's files, and nothing of the repository is run. How linked working trees are
made and removed is `worktree_changes`: most looks only ask whether there is one.
"""

import os
import re
import stat
from contextlib import suppress
from os.path import (
    basename,
    dirname,
    exists,
    expanduser,
    isdir,
    isfile,
    islink,
    join,
    lexists,
    realpath,
)

from msgspec import Struct

from upthread.boundary import programs
from upthread.boundary.git.files import (
    Configuration,
    GitFileError,
    common_of,
    named_in,
    points_back,
    read_configuration,
    read_line,
    read_plain,
)
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
        return join(self.common_directory, "objects")

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The folders that nothing is started from: its repository's trees, and those around."""
        return untrusted_around(self.top, dirname(self.common_directory))


def untrusted_around(*paths: str) -> tuple[str, ...]:
    """Return these folders, and the outermost repository around each, but never a whole home."""
    home = expanduser("~")
    around = (programs.working_tree_of(path, home=home) for path in paths)
    return (*paths, *filter(None, around))


def find_place(directory: str) -> GitDirectories | None:
    """Return the working tree a directory is in, None outside of any.

    Raises UsageError for one that must not be read, with the cure, and GitFileError for one that
    cannot be.
    """
    at = realpath(directory)
    try:
        device = os.stat(at).st_dev
        for _ in range(UP_MAX):
            found = place_at(at)
            if found is None and _is_bare(at):
                _require_owned(at, (at,))
            above = dirname(at)
            # Git stops where another file system begins, and so the project stays what it was.
            if found is not None or above == at or os.stat(above).st_dev != device:
                return found
            at = above
    except (FileNotFoundError, NotADirectoryError):
        pass
    return None


def place_at(top: str) -> GitDirectories | None:
    """Return the working tree whose top a directory is, None where it is none. Raises as above."""
    dot_git = join(top, ".git")
    try:
        mode = os.lstat(dot_git).st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    git_directory = named_in(dot_git) if stat.S_ISREG(mode) else realpath(dot_git)
    if git_directory is None or not isdir(git_directory):
        raise GitFileError(f"{dot_git} leads to no git directory")
    if stat.S_ISDIR(mode) and not _was_begun(git_directory):
        return None
    common = common_of(git_directory)
    if common is None:
        raise _forged(top, git_directory, "names a repository that does not hold it")
    _require_git_directory(dot_git, common)
    is_own = stat.S_ISDIR(mode) or git_directory.startswith(f"{top}/")
    # A link as well as a file: either can be laid by whoever may write in the folder.
    if not is_own and not points_back(git_directory, top):
        raise _forged(top, git_directory, "does not name this folder")
    # Such a folder would pass for another project with nothing on that one's side to say so.
    if is_own and common != git_directory:
        raise _forged(top, git_directory, "is a folder's own and shares another's")
    # Each of them: who owns the folder need not own what its `.git` leads to.
    _require_owned(top, (dot_git, top, git_directory, common))
    return GitDirectories(
        top=top,
        git_directory=git_directory,
        common_directory=common,
        configuration=_configuration(git_directory, common),
    )


def _is_bare(path: str) -> bool:
    """Whether git would take a folder itself for a repository, which is refused if foreign."""
    return basename(path) != ".git" and all(
        exists(join(path, name)) for name in ("HEAD", "objects", "refs")
    )


def _forged(top: str, git_directory: str, why: str) -> UsageError:
    kept = join(git_directory, "config")
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
        if not isdir(join(common, name)):
            raise GitFileError(f"{dot_git} is no git directory: {common} has no folder {name}")


def _require_owned(top: str, paths: tuple[str, ...]) -> None:
    own = {os.geteuid()}
    # As git has it: with sudo, what belongs to whoever called it is still theirs.
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        own.add(int(os.environ["SUDO_UID"]))
    if all(os.lstat(path).st_uid in own for path in paths):
        return
    # Loaded and asked only here: this runs git.
    from upthread.boundary.git.process import is_trusted_by_the_person

    if not is_trusted_by_the_person(top, untrusted_around(top)):
        raise UsageError(
            f"detected dubious ownership in repository at '{top}'",
            hint=f"the repository belongs to another user; if you trust it: {_trusting(top)}",
        )


def _trusting(top: str) -> str:
    persons = os.environ.get("GIT_CONFIG_GLOBAL") or expanduser("~/.gitconfig")
    # Git puts another file in its place, also in that of a device.
    if os.access(dirname(persons), os.W_OK) and (isfile(persons) or not exists(persons)):
        return command("git", "config", "--global", "--add", "safe.directory", top)
    number = os.environ.get("GIT_CONFIG_COUNT", "")
    at = int(number) if number.isdecimal() else 0
    known = f"export GIT_CONFIG_COUNT={at + 1} GIT_CONFIG_KEY_{at}=safe.directory"
    return f"{known} {command(f'GIT_CONFIG_VALUE_{at}={top}')}"


def _configuration(git_directory: str, common: str) -> Configuration:
    """Return the repository's own values, the working tree's over them, where git reads them so."""
    shared = read_configuration(join(common, "config"))
    version = shared.last("core.repositoryformatversion") or "0"
    # In format 0 git passes by the extensions that it does not know.
    if version == "1":
        _require_known_extensions(shared, common)
    elif version != "0":
        raise GitFileError(f"{common} has the format {version!r}, which is not known")
    if not shared.is_true("extensions.worktreeconfig"):
        return shared
    return read_configuration(join(git_directory, "config.worktree")).over(shared)


def _require_known_extensions(shared: Configuration, common: str) -> None:
    for name in shared.values:
        section, _, key = name.partition(".")
        is_files = key == "refstorage" and shared.last(name) == "files"
        if section == "extensions" and key not in _KNOWN_EXTENSIONS and not is_files:
            raise GitFileError(f"{common} has the extension {key}, which is not known")


# --- HEAD, and the references it leads to ---------------------------------------------------------


PACKED_BYTES_MAX = 256 << 20
"""How large `packed-refs` may be: about three million references."""

STEPS_MAX = 5
"""How many symbolic references may lead on to each other; git's own limit."""

_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NOT_IN_A_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$")
_LEADS_TO = "ref:"


class Head(Struct, frozen=True, kw_only=True):
    """What is checked out: the reference, None when detached; the commit, None before the first."""

    reference: str | None
    commit: str | None


def read_head(place: GitDirectories) -> Head:
    """Return what HEAD names. Raises GitFileError where it cannot be told."""
    path = join(place.git_directory, "HEAD")
    line = read_line(path)
    if line is not None and not line.startswith(_LEADS_TO):
        return Head(reference=None, commit=_object(line, path))
    for _ in range(STEPS_MAX):
        name = (line or "").removeprefix(_LEADS_TO).strip()
        if not is_reference(name):
            raise GitFileError(f"HEAD of {place.git_directory} names no reference git would make")
        line = _read(place, name)
        if line is None or not line.startswith(_LEADS_TO):
            commit = None if line is None else _named(place, name, line)
            return Head(reference=name, commit=commit)
    raise GitFileError(f"HEAD of {place.git_directory} leads in a circle")


def find_reference(place: GitDirectories, name: str) -> str | None:
    """Return the object a reference names, None where there is none. Raises GitFileError."""
    line = _read(place, name) if is_reference(name) else None
    return None if line is None else _named(place, name, line)


def symbolic(place: GitDirectories, name: str) -> str | None:
    """Return the reference that another one names, None where it names none."""
    line = _read(place, name)
    if line is None or not line.startswith(_LEADS_TO):
        return None
    named = line.removeprefix(_LEADS_TO).strip()
    return named if is_reference(named) else None


def is_reference(name: str) -> bool:
    """Whether a text is a full name of a reference that git takes, and so a path below `refs`."""
    return name.startswith("refs/") and not _NOT_IN_A_NAME.search(name)


def _read(place: GitDirectories, name: str) -> str | None:
    loose = join(place.common_directory, name)
    _require_plain_way(loose)
    # An empty folder may be left where a reference was.
    if islink(loose) or not isdir(loose):
        line = read_line(loose)
        # Before what is packed: that may hold where it was before it moved.
        if line is not None:
            return line
    return _packed(place.common_directory, os.fsencode(name))


def _require_plain_way(loose: str) -> None:
    """Refuse what is no folder on the way to a reference; it is not just not there."""
    above = dirname(loose)
    while not lexists(above):
        above = dirname(above)
    # It may be a reference itself; none is below it then.
    is_reference_itself = isfile(above) and not islink(above)
    if not isdir(above) and not is_reference_itself:
        raise GitFileError(f"{above} is no folder of references")


def _packed(common_directory: str, name: bytes) -> str | None:
    packed = read_plain(join(common_directory, "packed-refs"), bytes_max=PACKED_BYTES_MAX)
    # Whole to the end of its line: a name may be the beginning of another one.
    at = (packed or b"").find(b" " + name + b"\n")
    if packed is None or at < 0:
        return None
    return os.fsdecode(packed[packed.rfind(b"\n", 0, at) + 1 : at])


def _named(place: GitDirectories, name: str, text: str) -> str:
    return _object(text, join(place.common_directory, name))


def _object(text: str, path: str) -> str:
    if not _OBJECT.fullmatch(text.strip()):
        raise GitFileError(f"{path} names no commit")
    return text.strip()


# --- linked working trees -------------------------------------------------------------------------


HEADS = "refs/heads/"

WORKTREES_MAX = 10_000
"""How many linked working trees of one repository are looked at."""

BEING_MADE = "initializing"
"""Why one is locked that somebody is making, or was killed over."""


class LinkedTree(Struct, frozen=True, kw_only=True):
    """A working tree git knows. `record` is git's folder about it, empty for the main tree's.

    `branch` is empty while none is checked out. `is_missing` when its folder is gone, or does not
    say that it belongs here; `lock` is why it must not be removed, empty for none.
    """

    path: str
    branch: str
    record: str = ""
    is_missing: bool = False
    lock: str = ""

    @property
    def is_half_made(self) -> bool:
        """Whether whoever made it was killed over it."""
        return self.lock == BEING_MADE


def list_trees(place: GitDirectories) -> list[LinkedTree]:
    """Return the working trees of a repository, the main one first. Raises GitFileError."""
    main = dirname(place.common_directory)
    found = [LinkedTree(path=main, branch=_branch(place.common_directory))]
    folder = join(place.common_directory, "worktrees")
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(os.listdir(folder))
        # Each is some reads: without a limit a clone could have one look at it take for ever.
        if len(names) > WORKTREES_MAX:
            raise GitFileError(f"{folder} holds more than {WORKTREES_MAX} working trees")
        read = (_linked(join(folder, name)) for name in names)
        found += [tree for tree in read if tree is not None]
    return found


def _linked(record: str) -> LinkedTree | None:
    if islink(record) or not isdir(record):
        return None
    dot_git = read_line(join(record, "gitdir"))
    if not dot_git:
        return None
    path = dirname(join(record, dot_git))
    lock = read_line(join(record, "locked"))
    return LinkedTree(
        path=path,
        branch=_branch(record),
        record=record,
        is_missing=not _belongs(path, record),
        # An empty file locks as well; git asks for no reason.
        lock="" if lock is None else lock or "locked",
    )


def _belongs(path: str, record: str) -> bool:
    # What a record says is not enough to work in, or to remove, any folder that it names.
    try:
        return named_in(join(path, ".git")) == realpath(record)
    except GitFileError:
        return False


def _branch(git_directory: str) -> str:
    try:
        line = read_line(join(git_directory, "HEAD")) or ""
    except GitFileError:
        return ""
    prefix = f"ref: {HEADS}"
    return line.removeprefix(prefix) if line.startswith(prefix) else ""
