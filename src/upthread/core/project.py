"""Which project a directory belongs to.

A project is known by its repository: root commit and remote, so a moved directory and a worktree
are the same project. A repository that gains a remote, or its first commit, stays the project it
was. Outside git the real path is all there is. Two candidates are an error, never a guess.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from upthread.core.types import ProjectId, ProjectIdentity
from upthread.errors import UsageError

_SCP_LIKE = re.compile(r"^(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*)$")
_URL = re.compile(r"^[a-z+]+://(?:[^@/]+@)?(?P<host>[^/]+)/(?P<path>.*)$", re.IGNORECASE)


def project_id_for(identity: ProjectIdentity) -> ProjectId:
    """Return the id of a new project; it follows from the identity, so no two processes differ."""
    known_by = (
        f"git\n{identity.root_commit}\n{identity.remote or ''}"
        if identity.root_commit
        else f"path\n{identity.path}"
    )
    digest = hashlib.sha256(known_by.encode("utf-8", "surrogatepass")).hexdigest()
    return ProjectId(f"prj_{digest[:24]}")


def match_project(
    identity: ProjectIdentity, known: Iterable[tuple[ProjectId, ProjectIdentity]]
) -> ProjectId | None:
    """Return the known project a directory belongs to, None for a new one.

    Raises UsageError when two projects fit equally well.
    """
    candidates = list(known)
    if identity.root_commit is None:
        return _only(
            {pid for pid, other in candidates if other.path == identity.path}, identity.path
        )
    same_root = [(pid, o) for pid, o in candidates if o.root_commit == identity.root_commit]
    exact = {pid for pid, other in same_root if other.remote == identity.remote}
    near = {pid for pid, other in same_root if other.remote is None or identity.remote is None} or {
        pid
        for pid, other in candidates
        if other.root_commit is None and other.path == identity.path
    }
    return _only(exact or near, identity.path)


def normalise_remote(url: str) -> str | None:
    """Return `host/path` of a git remote, so that ssh and https forms are one; None for blank.

    Credentials in the URL are dropped and never stored.
    """
    text = url.strip()
    found = _URL.match(text) or _SCP_LIKE.match(text)
    if not found:
        return text or None
    path = found["path"].strip("/").removesuffix(".git")
    return f"{found['host'].lower()}/{path}"


def _only(candidates: set[ProjectId], path: str) -> ProjectId | None:
    if len(candidates) > 1:
        listed = ", ".join(sorted(candidates))
        raise UsageError(
            f"{path} could belong to {len(candidates)} projects: {listed}",
            hint="say which with --project",
            path=path,
        )
    return next(iter(candidates), None)
