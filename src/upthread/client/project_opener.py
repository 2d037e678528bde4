"""A project, opened: the repository found, the configuration read, the store opened.

Which project of the store a directory is, is asked each time. In a file of one person's own a path
is enough. In a store that several share, a path is its owner's: another account or host has other
files there. What was recorded there before paths had owners may be anybody's, so it is given to
nobody until a person says whose it is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from msgspec import Struct

from upthread.client.file_permissions import redaction_key, secure_home
from upthread.client.parts import ProjectParts
from upthread.client.project import Project
from upthread.client.stores import is_postgres, key_of, key_path, lease_times_for, open_store
from upthread.config import Settings, home_directory, load_settings
from upthread.core.actors import PROGRAM, Actor
from upthread.core.commands import RecordProject
from upthread.core.names import shown
from upthread.core.project import is_anybodys, match_project, project_id_for
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.rules import rules_of
from upthread.core.types import ProjectId, ProjectIdentity, RecordMode
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import ProjectStore, RecordPolicy
from upthread.runtime.system import System, path_owner, user_name
from upthread.runtime.working_tree.repository import find_repository
from upthread.store.base import WholeStore

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from upthread.runtime.permissions.policy import AskPerson

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@asynccontextmanager
async def open_project(
    directory: str | Path = ".",
    *,
    database: str | None = None,
    project: str | None = None,
    environment: Mapping[str, str] | None = None,
    ask_person: AskPerson | None = None,
    lease_times: LeaseTimes | None = None,
    actor: Actor = PROGRAM,
    system: System | None = None,
) -> AsyncGenerator[Project]:
    """Open the project a directory belongs to; a SQLite store is created on first use.

    `project` says which one it is where its path does not: an id, or `new`. `environment` stands in
    for the process's own. Without `ask_person`, a permission request that no rule answers parks the
    turn. What the repository says and no person agreed to does not count: it is `settings.pending`,
    named in `notices`; `agree` is for a person. `system` stands in for the machine's clock, ids and
    waiting. `actor` is who answers and acts, as the record names them; only a surface that sees a
    person may say that it is one. Raises ConfigError, StoreError and UsageError.
    """
    env = dict(os.environ if environment is None else environment)
    system = replace(system or System(), end_process_group=_end_process_group)
    home = home_directory(env)
    repository = await system.in_thread(lambda: find_repository(Path(directory), home=home))
    settings = load_settings(
        repository.root,
        environment=env,
        database=database,
        repository=repository.identity.path,
    )
    # Off the event loop: it opens, makes and may migrate a file.
    redactor, notice, opened = await system.in_thread(lambda: _open_store(settings))
    policy = record_policy(settings)
    try:
        said = said_project(project, env.get(PROJECT_VARIABLE))
        identity = identity_in(settings.database, repository.identity)
        known = await system.in_thread(lambda: know_project(opened, identity, said))
        project_id = known.project_id
        store = ProjectStore(
            opened,
            project_id,
            by_user=actor.for_user(user_name(env)),
            now_ms=system.now_ms,
            policy=policy,
            redactor=redactor,
        )
        parts = ProjectParts(
            store=store,
            system=system,
            settings=settings,
            project_id=project_id,
            environment=env,
            ask_person=ask_person,
            actor=actor,
            lease_times=lease_times or lease_times_for(settings.database),
            redactor=redactor,
            policy=policy,
            notices_at_rest=tuple(filter(None, (notice, known.notice))),
        )
        yield Project(parts)
    finally:
        # Closed for whoever is cancelled as well: an open file holds its log and its locks.
        with system.shield():
            await system.in_thread(opened.close)


async def _end_process_group(pid: int, ticks: int) -> bool:
    from upthread.agents.registry import end_process_group

    return await end_process_group(pid, ticks)


def record_policy(settings: Settings) -> RecordPolicy:
    """Return what is recorded in a project, by role."""
    roles: dict[str, RecordMode] = {
        name: role.record for name, role in settings.roles.items() if role.record is not None
    }
    return RecordPolicy(mode=settings.record, roles=roles)


def redactor_for(settings: Settings, key: bytes) -> Redactor:
    """Return a project's redactor. Raises ConfigError for a rule that is none."""
    rules = rules_of(settings.redaction.rules)
    return Redactor(key, rules=rules, allowed=settings.redaction.allow)


def _open_store(settings: Settings) -> tuple[Redactor, str, WholeStore]:
    """The rules are read before the store is opened, its key after: it lies beside the file."""
    redactor_for(settings, b"")  # a rule that is none is refused before there is anything of ours
    home = Path(settings.home)
    # Before the file is opened, which may make it: never in a directory that others can enter.
    notice = secure_home(home)
    store = open_store(settings.database, key=key_of(settings))
    try:
        key = redaction_key(key_path(settings.database, home))
        return redactor_for(settings, key), notice, store
    except BaseException:
        # A key that cannot be read is found last: the file must not stay open for it.
        store.close()
        raise


class Wait:
    """Runs one async call to its end and returns what it returns."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    def __call__(
        self,
        call: Callable[Parameters, Awaitable[Result]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        async def awaited() -> Result:
            return await call(*args, **kwargs)

        return self._portal.call(awaited)


@contextmanager
def open_blocking(
    directory: str | Path = ".", *, database: str | None = None
) -> Generator[tuple[Project, Wait]]:
    """Open a project for code that is not async: `wait(up.tell, "spec-42/planner", "…")`."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        opening = portal.wrap_async_context_manager(open_project(directory, database=database))
        with opening as project:
            yield project, Wait(portal)


# --- which project it is -------------------------------------------------------------------------


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
    return replace(identity, owner=path_owner()) if is_postgres(database) else identity


def know_project(store: WholeStore, identity: ProjectIdentity, said: Said | None) -> Known:
    """Return the project of a directory, remember it under this identity, and act for it.

    UsageError where it could be several, or anybody's; NotFoundError for an id that is none.
    """
    known = [(each.project_id, each.identity) for each in store.projects(identity)]
    # Named by its id: nothing has to be guessed from the path.
    if said is not None and said.project != NEW:
        return _said(store, identity, said, known)
    found = _match(store, identity, known)
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
    store: WholeStore, identity: ProjectIdentity, known: list[tuple[ProjectId, ProjectIdentity]]
) -> ProjectId | None:
    """As `match_project`; of several, the only one that somebody has worked in.

    To look is enough to make a project, and what was recorded elsewhere may be moved here later.
    """
    try:
        return match_project(identity, known)
    except UsageError:
        worked_in = [pair for pair in known if _is_worked_in(store, pair[0])]
        found = match_project(identity, worked_in)
        if found is None:
            raise
        return found


def _is_worked_in(store: WholeStore, project_id: ProjectId) -> bool:
    store.act_for(project_id)
    return bool(store.workstreams(project_id))


def _said(
    store: WholeStore,
    identity: ProjectIdentity,
    said: Said,
    known: list[tuple[ProjectId, ProjectIdentity]],
) -> Known:
    project_id = ProjectId(said.project)
    store.act_for(project_id)
    # Any text can be acted for: only its row says that there is such a project.
    if not store.recorded("project", project_id, limit=1):
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
    store: WholeStore,
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


def _remember(store: WholeStore, project_id: ProjectId, identity: ProjectIdentity) -> None:
    store.commit((RecordProject(project_id=project_id, identity=identity),))
