"""Which project of a store a directory is, asked when it is opened.

In a file of one person's own a path is enough. In a store that several share, a path is its
owner's: another account or host has other files there. What was recorded there before paths had
owners may be anybody's, so it is given to nobody until a person says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from upthread.config import Settings
from upthread.core.commands import RecordProject
from upthread.core.names import shown
from upthread.core.project import (
    is_anybodys,
    is_unrelated,
    match_project,
    project_id_for,
    roots_before,
)
from upthread.core.types import ProjectId, ProjectIdentity
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.system import path_owner
from upthread.runtime.working_tree.repository import find_repository, has_commit
from upthread.store.address import is_postgres
from upthread.store.log import LogStore

PROJECT_VARIABLE: Final = "UPTHREAD_PROJECT"
NEW: Final = "new"
"""In place of a project's id: none of those that were recorded under the path."""


class Known(Struct, frozen=True, kw_only=True):
    """The project of a directory; `notice` is for the person, empty without one."""

    project_id: ProjectId
    notice: str = ""


class Said(Struct, frozen=True, kw_only=True):
    """Which project a person says it is, an id or `new`. Kept where it was said for this once."""

    project: str
    is_kept: bool


def said_project(option: str | None, variable: str | None) -> Said | None:
    """Return what is said, by `--project` or UPTHREAD_PROJECT; None where nothing is."""
    if option:
        return Said(project=option, is_kept=True)
    return Said(project=variable, is_kept=False) if variable else None


def identity_in(database: str, identity: ProjectIdentity) -> ProjectIdentity:
    """Return a directory's identity as a database is asked for it."""
    # A file is one person's own: there a path needs no owner (ADR 64).
    return structs.replace(identity, owner=path_owner()) if is_postgres(database) else identity


def is_of_another_repository(settings: Settings, others: tuple[ProjectIdentity, ...]) -> bool:
    """Return whether a directory is certainly no release of the project known by `others`.

    Blocking. Starts git. Raises as `find_repository`.
    """
    found = find_repository(Path(settings.working_directory), home=Path(settings.home))
    roots = {each.root_commit for each in (found.identity, *others)}
    held = {root for root in roots if root and has_commit(found.root, root)}
    return found.has_all_history and is_unrelated(found.identity, others, held=held)


def know_project(
    store: LogStore,
    identity: ProjectIdentity,
    said: Said | None,
    *,
    has_commit: Callable[[str], bool],
) -> Known:
    """Return the project of a directory, remember it under this identity, and act for it.

    `has_commit` tells whether its repository has a commit. UsageError where it could be several, or
    anybody's; NotFoundError for an id that is none.
    """
    known = [(each.project_id, each.identity) for each in store.projects(identity)]
    # Named by its id: nothing has to be guessed from the path.
    if said is not None and said.project != NEW:
        return _said(store, identity, said, known)
    held = frozenset(filter(has_commit, roots_before(identity, known)))
    found = _match(store, identity, known, held)
    if found is None:
        return _new(store, identity, known, is_said=said is not None)
    if said is not None:
        raise UsageError(
            f"{identity.path} is the project {found} already", hint="leave `--project new` out"
        )
    store.act_for(found)
    # Another path or clone of a project that is known: found by it from now on.
    if (found, identity) not in known:
        _remember(store, found, identity)
    return Known(project_id=found)


def _match(
    store: LogStore,
    identity: ProjectIdentity,
    known: list[tuple[ProjectId, ProjectIdentity]],
    held: frozenset[str],
) -> ProjectId | None:
    """As `match_project`; of several, the only one that somebody has worked in.

    To look is enough to make a project, and what was recorded elsewhere may be moved here later.
    """
    try:
        return match_project(identity, known, held=held)
    except UsageError:
        worked_in = [pair for pair in known if _is_worked_in(store, pair[0])]
        found = match_project(identity, worked_in, held=held)
        if found is None:
            raise
        return found


def _is_worked_in(store: LogStore, project_id: ProjectId) -> bool:
    store.act_for(project_id)
    return bool(store.workstreams(project_id))


def _said(
    store: LogStore,
    identity: ProjectIdentity,
    said: Said,
    known: list[tuple[ProjectId, ProjectIdentity]],
) -> Known:
    project_id = ProjectId(said.project)
    store.act_for(project_id)
    # Any text can be acted for: only its row says that there is such a project.
    if store.head("project", project_id) is None:
        raise NotFoundError(
            f"there is no project {shown(said.project)} in this database",
            hint="its id is in `upthread audit WS --json`, where it is known",
            project_id=said.project,
        )
    others = {pid for pid, other in known if other == identity and pid != project_id}
    # Else the path would be two projects', and each later opening would have to ask.
    if said.is_kept and not others:
        _remember(store, project_id, identity)
    return Known(project_id=project_id)


def _new(
    store: LogStore,
    identity: ProjectIdentity,
    known: list[tuple[ProjectId, ProjectIdentity]],
    *,
    is_said: bool,
) -> Known:
    anybodys = is_anybodys(identity, known)
    # Neither opened nor passed over: the one would show it to a stranger, the other begin afresh.
    if anybodys and not is_said:
        raise UsageError(
            f"{identity.path} was recorded before paths had owners, as {', '.join(anybodys)}: "
            "whether that is yours nobody knows",
            hint=f"if it is, say so once: upthread ls --project {anybodys[0]}; if it is another's: "
            "upthread ls --project new",
            path=identity.path,
        )
    project_id = project_id_for(identity)
    store.act_for(project_id)
    _remember(store, project_id, identity)
    # Found again by its commit, from anywhere: only a path's owner can be mistaken.
    if identity.owner is None or identity.root_commit is not None:
        return Known(project_id=project_id)
    return Known(
        project_id=project_id,
        notice=f"{identity.path} of {identity.owner} is a new project here, {project_id}; was it "
        "known under another host's or account's name, as a container's, say --project ID once, or "
        f"{PROJECT_VARIABLE}=ID each time",
    )


def _remember(store: LogStore, project_id: ProjectId, identity: ProjectIdentity) -> None:
    store.commit((RecordProject(project_id=project_id, identity=identity),))
