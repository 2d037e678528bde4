"""A remembered opening: which project a directory is, as it was found when it was last opened.

Opening a project asks git for its first commit and reads and checks all of the configuration. A
script that asks for an id before each of its commands would pay for that each time, so what was
found is kept in our own home, 0600, with what it was found by: the commit that is checked out, the
stamp of each file that was looked into, the environment, who owns the repository, our version.
Where one of these is another now, or cannot be told, nothing is remembered and all is found anew;
so what must be refused, or told to a person, always is.

Light, for `surfaces/cli/quick_id.py`: the standard library alone, and none of its slow modules.
"""

from __future__ import annotations

import os
import stat
import time

from upthread.boundary.files import changed_since, stamp_of
from upthread.boundary.own_home import home_path
from upthread.runtime.bindings import files
from upthread.runtime.bindings.light_json import list_in, object_in
from upthread.runtime.bindings.places import Place, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

OPENINGS = "openings"
OPENINGS_MAX = 256
"""How many directories are remembered; then all are found anew."""

SETTLED_NS = 1_000_000_000
"""How long a file must have been left alone: one written twice within a tick keeps its stamp."""

VARIABLES = (
    *("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "SUDO_UID"),
    *("UPTHREAD_HOME", "UPTHREAD_DB", "UPTHREAD_PROJECT"),
)
"""The environment that decides which project, configuration and database these are."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = ("__init__.py", "defaults", "defaults/roles", "store/sql/sqlite/migrations")
"""What is another file once another version is installed."""
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO


class Opening:
    """What was found. `database` is a SQLite file that is not encrypted.

    `place` is the working tree as hooks see it, `identity` path, root commit and remote of the
    repository, `identities` what the database had of these.
    """

    def __init__(self, place: Place, fields: Mapping[str, Any]) -> None:
        self.place = place
        self.database: str = fields["database"]
        self.project_id: str = fields["project_id"]
        self.identity: tuple[str, str | None, str | None] = tuple(fields["identity"])
        self.identities: list[Any] = fields["identities"]


class Openings:
    """What is remembered of one directory, for one environment and what `--db` says.

    Made before anything is read: what changes while it is read must not be remembered as it was.
    """

    def __init__(
        self, directory: str, environment: Mapping[str, str], database: str | None = None
    ) -> None:
        self._began_ns = time.time_ns()
        self._home = home_path(environment)
        self._place: Place | None = None
        self._found_by: dict[str, Any] | None = None
        try:
            real = os.path.realpath(directory)
            self._place = Place(self._home, real)
            self._found_by = _found_by(self._place, real)
        except OSError:  # a directory that is not there any more: what opens it says so
            real = directory
        said = [f"{name}={environment.get(name)}" for name in VARIABLES]
        key = key_of("\0".join([real, str(database), *said]))
        self._path = os.path.join(self._home, OPENINGS, f"{key}.json")

    def recall(self) -> Opening | None:
        """Return what the last opening found, None unless all of it still holds."""
        try:
            fields = files.read(self._path) if self._found_by else None
            if not fields or self._place is None:
                return None
            if fields["found_by"] != self._found_by or not _holds(self._home, fields):
                return None
            self._place.known = {"project_id": fields["project_id"]}
            assert self._place.project, "what is no name of a project is unreadable"
            return Opening(self._place, fields)
        # Whatever is wrong with it: the project is opened as if there were none.
        except (files.UnreadableError, OSError, ValueError, KeyError, TypeError):
            return None

    def remember(self, *, stamps: Mapping[str, str], key: str, **found: Any) -> None:
        """Keep what an opening has found, if files can tell whether it still holds.

        `found` are the members of `Opening` but its place, `stamps` those of the configuration as
        it was read, `key` the path of the store's key.
        """
        place, found_by = self._place, self._found_by
        if place is None or found_by is None or found["home"] != self._home:
            return
        # Hooks see repositories as git does but for rare ones, which are found anew each time.
        path, root_commit, _ = found["identity"]
        if (place.root, place.repository) != (found["root"], path):
            return
        if place.is_repository and root_commit is None:  # git was not there to be asked
            return
        try:
            owned = _of_repository(place)
            stamps = {**stamps, **{each: stamp_of(each) for each in (key, *_looked_into(place))}}
            if not all(map(_is_own, owned)) or not self._are_settled(stamps.values()):
                return
            fields = {**found, "found_by": found_by, "stamps": stamps, "owned": owned, "key": key}
            directory = os.path.dirname(self._path)
            files.make_directory(directory)
            # A link, or what others may enter, is not where we keep this: let be, and not followed.
            if _is_private(directory, stat.S_ISDIR):
                _make_room(directory)
                files.replace(self._path, fields)
        # Nothing is lost by it: the next opening takes its time again, as this one did.
        except OSError:
            return

    def _are_settled(self, stamps: Iterable[str]) -> bool:
        last_ns = max((int(each.partition(":")[0]) for each in stamps if each), default=0)
        return last_ns < self._began_ns - SETTLED_NS


def _holds(home: str, fields: dict[str, Any]) -> bool:
    """Return whether what an opening was found by is still as it was."""
    # What others may enter is put right, and told about, by a real opening.
    directories = (home, os.path.join(home, OPENINGS))
    if not all(_is_private(each, stat.S_ISDIR) for each in directories):
        return False
    if not _is_private(fields["key"], stat.S_ISREG):
        return False
    is_same = not changed_since(object_in(fields, "stamps"))
    return is_same and all(map(_is_own, list_in(fields, "owned")))


def _found_by(place: Place, real: str) -> dict[str, Any] | None:
    """Return what a project is found by, None where a repository is or may be damaged."""
    commit = place.commit if place.is_repository else None
    if place.is_repository and commit is None:
        return None
    # A `.git` of any kind that is nearer may be another project, or one that is refused.
    above = real
    while not (place.is_repository and above == place.root):
        if os.path.lexists(os.path.join(above, ".git")):
            return None
        if above == os.path.dirname(above):
            break
        above = os.path.dirname(above)
    return {"root": place.root, "repository": place.repository, "commit": commit}


def _of_repository(place: Place) -> list[str]:
    """Return the paths of a repository that must be the person's own, and be there."""
    if not place.is_repository:
        return []
    within = [os.path.join(place.common, name) for name in ("objects", "refs")]
    return [
        os.path.join(place.root, ".git"),
        place.root,
        place.git_directory,
        place.common,
        *within,
    ]


def _looked_into(place: Place) -> list[str]:
    """Return the files beside the configuration that decide which project it is."""
    ours = [os.path.join(_PACKAGE, name) for name in _OWN]
    if not place.is_repository:
        return ours
    shared = [os.path.join(place.common, name) for name in ("config", "shallow")]
    return [*ours, *shared, os.path.join(place.git_directory, "config.worktree")]


def _is_own(path: str) -> bool:
    return os.lstat(path).st_uid == os.geteuid()


def _is_private(path: str, is_kind: Any) -> bool:
    found = os.lstat(path)
    is_own = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_MAY
    return bool(is_own and is_kind(found.st_mode))


def _make_room(directory: str) -> None:
    kept = [name for name in os.listdir(directory) if name.partition(".")[2].startswith("json")]
    if len(kept) >= OPENINGS_MAX:
        for name in kept:
            files.remove(os.path.join(directory, name))
