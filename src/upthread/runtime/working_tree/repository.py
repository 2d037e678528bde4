"""Which repository a directory is in, what is checked out there, and the worktrees of workstreams.

Reads only, and runs nothing of the repository: see `upthread.boundary.git`. What must not or cannot
be read is an error or a fault, never taken for "no repository". To tell a repository by the commit
it began with, git walks through all of its history; what it found is remembered in our own home.
"""

import contextlib
import hashlib
import os
import shlex
import stat
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from upthread.boundary import files as opener
from upthread.boundary import own_files as files
from upthread.boundary.git.files import GitFileError
from upthread.boundary.git.places import (
    GitDirectories,
    LinkedTree,
    find_place,
    find_reference,
    list_trees,
    read_head,
    symbolic,
)
from upthread.core.names import directory_name, normalise_remote, shown
from upthread.core.types import Environment, ProjectIdentity, ready
from upthread.errors import ConfigError, NotFoundError, RefusedError, UsageError

_HEADS = "refs/heads/"
_REMOTE = "refs/remotes/origin/"
_CURE = "mend or remove it, then try again"


class Roots(Struct, frozen=True):
    """A commit, and those without a parent that its history leads to, the newest first, as git.

    `repository` are the marks of the very repository.
    """

    commit: str
    roots: tuple[str, ...]
    repository: dict[str, str]


class Repository(Struct, frozen=True, kw_only=True):
    """A directory's identity and the root agents work in: the worktree's, else itself.

    `has_all_history` is False for a shallow clone, and outside of git.
    """

    identity: ProjectIdentity
    root: Path
    has_all_history: bool = False


class WorkingTree(Struct, frozen=True, kw_only=True):
    """The root agents work in, and the path of the repository, which all its worktrees share."""

    root: Path
    repository: str


def find_repository(
    directory: Path, *, home: Path | None = None, is_remembered: bool = True
) -> Repository:
    """Return where a directory belongs.

    `home` is where it is remembered which commit a repository began with, None for nowhere; what
    is found is not written there unless it `is_remembered`.
    Raises UsageError when it is none, or in a repository that must not be read, and ConfigError for
    one that cannot be: by its path alone it would be another project.
    """
    real, place = _place_of(directory)
    if not place:
        return Repository(identity=ProjectIdentity(path=str(real)), root=real)
    try:
        root_commit = _root_commit(place, home, is_remembered=is_remembered)
    except GitFileError as error:
        raise ConfigError(str(error), hint=_CURE) from error
    remote = place.configuration.last("remote.origin.url")
    identity = ProjectIdentity(
        path=_shared_path(place),
        root_commit=root_commit,
        remote=normalise_remote(remote) if remote else None,
    )
    is_shallow = os.path.lexists(f"{place.common_directory}/shallow")
    return Repository(identity=identity, root=Path(place.top), has_all_history=not is_shallow)


def has_commit(directory: Path, commit: str) -> bool:
    """Return whether the repository that a directory is in has a commit; False outside of any.

    Raises as `find_repository`.
    """
    from upthread.runtime.working_tree.root_commits import has_object  # starts git

    _, place = _place_of(directory)
    try:
        return place is not None and has_object(place, f"{commit}^{{commit}}")
    except GitFileError as error:
        raise ConfigError(str(error), hint=_CURE) from error


def find_working_tree(directory: Path) -> WorkingTree:
    """Return where a directory belongs by its files alone: git is not asked for its history.

    Raises as `find_repository`.
    """
    real, place = _place_of(directory)
    if not place:
        return WorkingTree(root=real, repository=str(real))
    return WorkingTree(root=Path(place.top), repository=_shared_path(place))


def _place_of(directory: Path) -> tuple[Path, GitDirectories | None]:
    """Return the real path of a directory, and its git directories, None outside of any."""
    try:
        real = directory.resolve()
    except FileNotFoundError:  # a path that is not absolute, in a directory that was removed
        raise UsageError(
            "the working directory is not there any more", hint="change into the project's folder"
        ) from None
    if not real.is_dir():
        raise UsageError(f"{directory} is not a directory", hint="run inside a project")
    try:
        return real, find_place(str(real))
    except GitFileError as error:
        raise ConfigError(str(error), hint=_CURE) from error


_OF_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES")


def ignored_git_variables(directory: Path, environment: Environment) -> str:
    """Return the notice that git, by its variables, would see another repository; else empty.

    A hook of git's has some of them set to what we find, too, for example `GIT_DIR=.git`.
    """
    if not any(map(environment.get, _OF_GIT)):
        return ""
    real, place = _place_of(directory)
    top = place.top if place else ""
    ours = (place and place.git_directory, top, place and place.common_directory)
    named = ((name, environment.get(name), path) for name, path in zip(_OF_GIT, ours, strict=False))
    ignored = [name for name, at, path in named if at and os.path.realpath(real / at) != path]
    # Git finds a repository only below a ceiling, unless it starts at the ceiling.
    ceilings = map(Path, environment.get(_OF_GIT[-1], "").split(os.pathsep))
    if top and any(each in real.parents and each not in Path(top).parents for each in ceilings):
        ignored.append(_OF_GIT[-1])
    where = f"the repository {top}" if top else f"{real}, which is in no repository"
    what = f"{', '.join(ignored)} ignored: upthread goes by the working directory, here {where}"
    return what if ignored else ""


def _shared_path(place: GitDirectories) -> str:
    return str(Path(place.common_directory).parent)


def require_readable(directory: Path) -> GitDirectories | None:
    """Return the working tree a directory is in, None outside of any; raises UsageError."""
    try:
        return find_place(str(directory))
    except GitFileError as error:
        raise UsageError(str(error), hint=_CURE) from error


def _root_commit(place: GitDirectories, home: Path | None, *, is_remembered: bool) -> str | None:
    """Return the oldest commit without a parent, None where history does not lead to one.

    Raises GitFileError.
    """
    commit = read_head(place).commit
    if commit is None:
        return None
    known = _remembered(place, home) if home else None
    if known and known.commit == commit:
        roots = known.roots
    else:
        roots = _found(place, commit, known, home if is_remembered else None)
    # Git tells the newest first; a history merged in later must not make it another project.
    return roots[-1] if roots else None


def _found(
    place: GitDirectories, commit: str, before: Roots | None, home: Path | None
) -> tuple[str, ...]:
    """Ask git, and remember it; nothing without a git."""
    from upthread.runtime.working_tree.root_commits import find_roots  # starts git

    known = (before.commit, before.roots) if before else None
    roots = find_roots(place, commit, known) or ()
    if home and roots:
        _remember(place, home, Roots(commit, roots, _marks(place)))
    return roots


# --- what is remembered of a repository --------------------------------------------------------


def _remembered(place: GitDirectories, home: Path) -> Roots | None:
    """Return what was found of this very repository when it was last looked through."""
    path = _memory_path(place, home)
    try:
        # Who else could write it could make this repository pass for another project.
        if not _is_private(path) or not _is_private(path.parent):
            return None
        known = convert(files.read(str(path)), ready(Roots))
    except (OSError, files.UnreadableError, ValidationError):
        return None
    return known if known.roots and known.repository == _marks(place) else None


def _remember(place: GitDirectories, home: Path, known: Roots) -> None:
    path = _memory_path(place, home)
    # A home that is not there, or that others can enter, is made and put right by who opens it; and
    # a link in the folder's place leads to what is not ours.
    if not _is_private(home) or path.parent.is_symlink():
        return
    with contextlib.suppress(OSError):  # it only spares the next look
        files.replace(str(path), to_builtins(known))


def _memory_path(place: GitDirectories, home: Path) -> Path:
    # Names are any text, lone surrogates among it (S8).
    named = place.common_directory.encode("utf-8", "surrogatepass")
    return home / "repositories" / f"{hashlib.blake2b(named, digest_size=16).hexdigest()}.json"


def _marks(place: GitDirectories) -> dict[str, str]:
    """Return what tells a repository from one that took its place, or that ends elsewhere."""
    common = place.common_directory
    marks = {"path": common}
    for name, path in (("directory", common), ("objects", place.objects)):
        found = Path(path).stat()
        marks[name] = f"{found.st_dev}:{found.st_ino}"
    # Where a shallow history ends its commits have no parents; when more is fetched, others.
    with contextlib.suppress(FileNotFoundError):
        found = Path(common, "shallow").lstat()
        marks["shallow"] = f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
    return marks


def _is_private(path: Path) -> bool:
    """Whether a file or directory is there, ours, and nobody else's to read or write."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


class GitFacts(Struct, frozen=True, kw_only=True):
    """What is checked out. All None outside of a repository; `branch` also on a detached HEAD.

    `fault` is why it could not be told.
    """

    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    fault: str = ""


def git_facts(directory: Path) -> GitFacts:
    """Return branch and commit of a directory's working tree. Blocking; runs nothing.

    Never raises: what must not or cannot be read is a fault, and the decision is made without it.
    """
    try:
        place = find_place(str(directory))
        return _facts(place) if place else _facts_without_repository(directory)
    except (UsageError, OSError) as error:
        return GitFacts(fault=str(error))


def _facts(place: GitDirectories) -> GitFacts:
    repository = _shared_path(place)
    try:
        head = read_head(place)
    except GitFileError as error:
        fault = f"git cannot read HEAD of {repository}: {error}"
        return GitFacts(repository=repository, fault=fault)
    named = head.reference or ""
    branch = named.removeprefix(_HEADS) if named.startswith(_HEADS) else None
    return GitFacts(repository=repository, branch=branch, commit=head.commit)


def _facts_without_repository(directory: Path) -> GitFacts:
    """Tell a damaged repository from none."""
    is_damaged = any(_holds_a_git(place) for place in (directory, *directory.parents))
    fault = f"git sees no repository in {directory}, though there is a .git"
    return GitFacts(fault=fault if is_damaged else "")


def _holds_a_git(place: Path) -> bool:
    """Whether a place was a repository: git too passes by the empty `.git` that sandboxes leave."""
    git = place / ".git"
    return git.is_file() or (git.is_dir() and any(git.iterdir()))


def default_branch(directory: Path) -> str | None:
    """Return the branch work starts from: the remote's, else main, master or git's own default.

    None where none of them exists. Blocking; raises UsageError where it must not be read.
    """
    place = require_readable(directory)
    if not place:
        return None
    try:
        remote = symbolic(place, f"{_REMOTE}HEAD")
        if remote is not None:
            return remote.removeprefix(_REMOTE)
        from upthread.boundary.git.process import person_configuration  # starts git

        found = place.configuration.over(person_configuration(place.untrusted))
        for branch in filter(None, (found.last("init.defaultbranch"), "main", "master")):
            if find_reference(place, _HEADS + branch):
                return branch
    except GitFileError as error:
        raise UsageError(str(error), hint=_CURE) from error
    return None


# --- working trees of their own -------------------------------------------------------------------
# A git worktree and a branch for one workstream. Nothing of it is kept by us: git knows its
# worktrees, and a workstream's is the one at its place or on its branch. A workstream that has one
# is worked on there, whoever asks. It is removed only when a person says so, never with uncommitted
# work, and its branch stays.


BRANCH_PREFIX = "upthread/"


class Worktree(Struct, frozen=True, kw_only=True):
    """A workstream's own working tree. `branch` is empty while none is checked out there.

    `is_missing` when git knows it and its directory is gone, `is_half_made` when git was killed
    while it made it. `left_behind` counts what was not committed where it was branched off, just
    then; 0 for one that was there. `unfiltered` counts the files that are as git stores them,
    because the programs that `filters` names would have made them and were not run.
    """

    path: str
    branch: str
    is_missing: bool = False
    is_half_made: bool = False
    is_new: bool = False
    left_behind: int = 0
    unfiltered: int = 0
    filters: tuple[str, ...] = ()


class Worktrees(Struct, frozen=True):
    """The worktrees of one repository. Blocking; `folder` is where new ones are made."""

    root: Path
    folder: Path

    def find(self, workstream: str) -> Worktree | None:
        """Return a workstream's worktree, None where it has none, or it cannot be told."""
        try:
            found = self._linked(workstream)
        except (UsageError, OSError):
            return None
        return _worktree(found) if found else None

    def require(self, workstream: str) -> Worktree | None:
        """As `find`; raises UsageError for one whose directory is gone."""
        found = self.find(workstream)
        if found and (found.is_missing or found.is_half_made):
            raise UsageError(
                f"the working tree of {shown(workstream)} is gone: {found.path}",
                hint=f"make it again: upthread run {shlex.quote(workstream)} --worktree; "
                "or let git forget it: git worktree prune",
                workstream=workstream,
            )
        return found

    def ensure(self, workstream: str) -> Worktree:
        """Return a workstream's worktree, made from HEAD if there is none.

        Work that was committed on its branch before is there. UsageError where git cannot make it.
        For one process at a time.
        """
        try:
            return self._ensured(workstream)
        except OSError as error:
            raise UsageError(
                f"no working tree could be made for {shown(workstream)}: {error}",
                hint="mend it, then try again",
                workstream=workstream,
            ) from error

    def _ensured(self, workstream: str) -> Worktree:
        found = self._linked(workstream)
        if found and not found.is_missing and not found.is_half_made:
            return _worktree(found)
        repository = require_readable(self.root)
        if not repository or read_head(repository).commit is None:
            raise UsageError(
                f"there is no commit in {self.root} to branch off from",
                hint="commit something first, or run without --worktree",
            )
        # What starts git is loaded by who needs it: most only ask whether there is a worktree.
        from upthread.boundary.git.worktree_changes import add_tree, forget_tree, remove_tree

        # Made anew: half of a checkout may lie there, and nobody was let in to work on it.
        if found and found.is_half_made:
            remove_tree(found)
        elif found:
            forget_tree(found.record)
        place, branch = self._place(workstream), _branch(workstream)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        filtered = add_tree(repository, str(place), branch)
        return Worktree(
            path=str(place),
            branch=branch,
            is_new=True,
            left_behind=uncommitted(self.root),
            unfiltered=len(filtered),
            filters=tuple(sorted({os.fsdecode(name) for name in filtered.values()})),
        )

    def remove(self, workstream: str) -> Worktree:
        """Remove a workstream's worktree, and leave its branch; returns what it was.

        Raises NotFoundError for none, RefusedError while something in it is not committed.
        """
        try:
            linked = self._linked(workstream)
        except OSError as error:
            raise UsageError(str(error), hint="mend it, then try again") from error
        if not linked:
            raise NotFoundError(
                f"{shown(workstream)} has no working tree of its own",
                hint="see `upthread worktree`",
                workstream=workstream,
            )
        found = _worktree(linked)
        left = 0 if found.is_missing else uncommitted(Path(found.path))
        if left:
            raise RefusedError(
                f"{found.path} has {left} uncommitted change{'' if left == 1 else 's'}",
                reasons=("uncommitted",),
                hint="commit them there, or throw them away yourself, then remove it",
                workstream=workstream,
            )
        from upthread.boundary.git.worktree_changes import remove_tree

        remove_tree(linked)
        return found

    def _linked(self, workstream: str) -> LinkedTree | None:
        """Return what git knows of a workstream's tree. Raises UsageError, GitFileError."""
        repository = require_readable(self.root)
        known = list_trees(repository) if repository else []
        place, branch = str(self._place(workstream)), _branch(workstream)
        at_place = [each for each in known if each.path == place]
        # Not the main one: that is the person's own, whatever branch they look at.
        on_branch = [each for each in known[1:] if each.branch == branch]
        return next(iter([*at_place, *on_branch]), None)

    def _place(self, workstream: str) -> Path:
        return self.folder / directory_name(workstream)


def uncommitted(directory: Path) -> int:
    """Return how many paths of a working tree are not as they were committed. Blocking.

    Raises UsageError where git cannot tell: what is not known is not thrown away.
    """
    place = require_readable(directory)
    if not place:
        raise UsageError(f"{directory} is in no repository", hint="see `git status` there")
    from upthread.runtime.working_tree.digest import changed_paths

    try:
        return len(changed_paths(place))
    except OSError as error:
        raise UsageError(str(error), hint=f"see `git status` in {directory}") from error


def _branch(workstream: str) -> str:
    return BRANCH_PREFIX + directory_name(workstream)


def _worktree(tree: LinkedTree) -> Worktree:
    return Worktree(
        path=tree.path,
        branch=tree.branch,
        is_missing=tree.is_missing,
        is_half_made=tree.is_half_made,
    )


# --- which workstream a person said that a tree is on ---------------------------------------------
# A file of one line in upthread's home, of this machine as the tree is: `upthread use` writes the
# file, and hooks read it.


FOLDER = "used"
BYTES_MAX = 4096


def used_workstream(home: Path, root: str) -> str | None:
    """Return the workstream that a working tree is on, None where nobody said one. Blocking."""
    path = _path(home, root)
    try:
        raw = opener.read_all(opener.direct(str(path)), str(path), bytes_max=BYTES_MAX)
        return raw.decode("utf-8") or None
    except (OSError, UnicodeDecodeError):
        return None


def use_workstream(home: Path, root: str, name: str | None) -> None:
    """Say which workstream a working tree is on, None for none. Blocking. Raises OSError."""
    path = _path(home, root)
    if name is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, name.encode("utf-8"))
    finally:
        os.close(descriptor)
    written.replace(path)


def _path(home: Path, root: str) -> Path:
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return home / FOLDER / digest
