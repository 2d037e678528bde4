"""Which project a directory belongs to.

A project is known by its repository: root commit and remote, so a moved directory and a worktree
are the same project, and so are two clones on two hosts. A repository that gains a remote, its
first commit, or a root commit older than that by which it was known (another history merged in,
more of a shallow one fetched, a branch begun anew) stays the project it was. Outside git the real
path is all there is, and whose it is: a path of another account or host is another place. Two
candidates are an error, never a guess.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

from upthread.core.types import ProjectId, ProjectIdentity
from upthread.errors import UsageError

_SCP_LIKE = r"^(?:[^/]*@)?(?P<host>[^:/]+):(?P<path>.+)$"
_URL = r"(?i)^(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/]*@)?(?P<host>[^/?#]*)(?P<path>[^?#]*)"
_DEFAULT_PORTS = {"ssh": ":22", "https": ":443", "http": ":80", "git": ":9418"}


def project_id_for(identity: ProjectIdentity) -> ProjectId:
    """Return the id of a new project; it follows from the identity, so no two processes differ."""
    known_by = (
        f"git\n{identity.root_commit}\n{identity.remote or ''}"
        if identity.root_commit
        else f"path\n{identity.path}"
        if identity.owner is None
        else f"owned path\n{identity.owner}\n{identity.path}"
    )
    digest = hashlib.sha256(known_by.encode("utf-8", "surrogatepass")).hexdigest()
    return ProjectId(f"prj_{digest[:24]}")


def roots_before(
    identity: ProjectIdentity, known: Iterable[tuple[ProjectId, ProjectIdentity]]
) -> frozenset[str]:
    """Return the root commits by which this very place was known, where none is what it has now.

    Those of them that its repository still has are `held` for `match_project`.
    """
    here = {other.root_commit for _, other in known if _is_same_place(other, identity)}
    if identity.root_commit is None or identity.root_commit in here:
        return frozenset()
    return frozenset(filter(None, here))


def match_project(
    identity: ProjectIdentity,
    known: Iterable[tuple[ProjectId, ProjectIdentity]],
    *,
    held: Collection[str] = (),
) -> ProjectId | None:
    """Return the known project a directory belongs to, None for a new one.

    `held` are commits of `roots_before` that its repository still has: it is the one it was by
    them, though its history now leads to an older one. Raises UsageError when two projects fit
    equally well.
    """
    candidates = list(known)
    if identity.root_commit is None:
        return _only(
            {pid for pid, other in candidates if _is_same_place(other, identity)}, identity.path
        )
    still = {
        pid
        for pid, other in candidates
        if other.root_commit in held and _is_same_place(other, identity)
    }
    # Before all that has the same root: what was merged in may be a project that is known as well.
    if still:
        return _only(still, identity.path)
    same_root = [(pid, o) for pid, o in candidates if o.root_commit == identity.root_commit]
    exact = {pid for pid, other in same_root if other.remote == identity.remote}
    here = {pid for pid, other in same_root if _is_same_place(other, identity)}
    with_remote = {pid for pid, other in same_root if other.remote is not None}
    # A project that has a remote is not the fork with another one, whatever it was known by before.
    near = {pid for pid, _ in same_root if identity.remote is None or pid not in with_remote}
    without_commit = {
        pid
        for pid, other in candidates
        if other.root_commit is None and _is_same_place(other, identity)
    }
    return _only((exact & here) or exact or here or near or without_commit, identity.path)


def is_unrelated(
    own: ProjectIdentity, others: Collection[ProjectIdentity], *, held: Collection[str]
) -> bool:
    """Return whether a repository is another than the project that is known by `others`.

    `held` are the root commits among all these that a whole clone of the repository has. Its own
    is among them if git answers. A project with the same remote, or with a path outside of git, is
    never unrelated, because the repository may be its next release.
    """
    roots = {each.root_commit for each in others}
    remotes = {each.remote for each in others}
    if own.root_commit not in held or not roots.isdisjoint({None, *held}):
        return False
    return own.remote is None or own.remote not in remotes


def is_anybodys(
    identity: ProjectIdentity, known: Iterable[tuple[ProjectId, ProjectIdentity]]
) -> tuple[ProjectId, ...]:
    """Return the projects recorded under a path before paths had owners: whose, nobody knows.

    To be asked where `match_project` found none.
    """
    if identity.owner is None:
        return ()
    found = {
        pid
        for pid, other in known
        if other.owner is None
        and other.path == identity.path
        and (identity.root_commit is None or other.root_commit in {None, identity.root_commit})
    }
    return tuple(sorted(found))


def _is_same_place(one: ProjectIdentity, other: ProjectIdentity) -> bool:
    return (one.owner, one.path) == (other.owner, other.path)


def normalise_remote(url: str) -> str | None:
    """Return `host/path` of a git remote, so that ssh and https forms are one; None for blank.

    Credentials in the URL, its query and the scheme's own port are dropped and never stored. What
    is no URL, such as a path, is returned as it is.
    """
    text = url.strip()
    found = re.match(_URL, text)
    if found:
        return _host_and_path(found["scheme"].lower(), found["host"], found["path"])
    found = re.match(_SCP_LIKE, text)
    if found:
        return _host_and_path("ssh", found["host"], found["path"])
    return text or None


def _host_and_path(scheme: str, host: str, path: str) -> str:
    host = host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ":"))
    path = path.strip("/").removesuffix(".git")
    return f"{host}/{path}"


def _only(candidates: set[ProjectId], path: str) -> ProjectId | None:
    if len(candidates) > 1:
        listed = ", ".join(sorted(candidates))
        raise UsageError(
            f"{path} could belong to {len(candidates)} projects: {listed}",
            hint="say which with --project",
            path=path,
        )
    return next(iter(candidates), None)
