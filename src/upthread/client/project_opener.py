"""A project, opened: the repository found, the configuration read, the store opened."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from upthread.client.encryption import key_of
from upthread.client.file_permissions import redaction_key, secure_home
from upthread.client.parts import ProjectParts
from upthread.client.project import Project
from upthread.client.project_identity import (
    PROJECT_VARIABLE,
    identity_in,
    know_project,
    said_project,
)
from upthread.client.stores import key_path, lease_times_for, open_store
from upthread.config import Settings, home_directory, load_settings
from upthread.core.actors import PROGRAM, Actor
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.rules import rules_of
from upthread.core.types import RecordMode
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import ProjectStore
from upthread.runtime.record.record_filter import RecordPolicy
from upthread.runtime.system import System, user_name
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

    `project` says which one it is where its path does not: an id, or `new`
    (client/project_identity.py). `environment` stands in for the process's own. Without
    `ask_person`, a permission request that no rule answers parks the turn. What the repository says
    and no person agreed to does not count: it is `settings.pending`, named in `notices`; `agree` is
    for a person. `system` stands in for the machine's clock, ids and waiting. `actor` is who
    answers and acts, as the record names them; only a surface that sees a person may say that it is
    one. Raises ConfigError, StoreError and UsageError.
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
