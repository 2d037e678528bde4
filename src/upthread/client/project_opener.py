"""A project, opened: the repository found, the configuration read, the store opened.

Or only looked at, by whatever reads no more than the agents' own stores: `surroundings`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.registry import agents_on_path, end_process_group
from upthread.boundary.own_files import home_directory
from upthread.client.agent_calls import AgentCalls
from upthread.client.consent import load_trusting
from upthread.client.file_permissions import KEY_BYTES, read_key, redaction_key, secure_home
from upthread.client.parts import ProjectParts
from upthread.client.stores import (
    PROJECT_VARIABLE,
    identity_in,
    key_of,
    know_project,
    lease_times_for,
    open_store,
    said_project,
)
from upthread.config import Settings, load_settings
from upthread.core.agents import AGENTS, PROGRAM, Actor, name_of
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import Environment
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import ProjectStore, RecordPolicy
from upthread.runtime.system import System, user_name
from upthread.runtime.working_tree.repository import (
    find_repository,
    has_commit,
    ignored_git_variables,
)
from upthread.store.address import database_files, file_path, is_postgres, key_path
from upthread.store.log import LogStore

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from upthread.client.project import Project
    from upthread.runtime.permissions import AskPerson

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@asynccontextmanager
async def open_project(
    directory: str | Path = ".",
    *,
    database: str | None = None,
    project: str | None = None,
    environment: Environment | None = None,
    ask_person: AskPerson | None = None,
    lease_times: LeaseTimes | None = None,
    actor: Actor = PROGRAM,
    system: System | None = None,
) -> AsyncGenerator[Project]:
    """Open the project a directory belongs to; a SQLite store is created on first use.

    `project` says which one it is where its path does not: an id, or `new`
    (client/stores.py). `environment` stands in for the process's own. Without
    `ask_person`, a permission request that no rule answers parks the turn. What the repository says
    and no person agreed to does not count: it is `settings.pending`, named in `notices`; `agree` is
    for a person. `system` stands in for the machine's clock, ids and waiting. `actor` is who
    answers and acts, as the record names them; only a surface that sees a person may say that it is
    one. Raises ConfigError, StoreError and UsageError.
    """
    system = system or System()
    opening = partial(
        open_parts,
        Path(directory),
        environment=dict(os.environ if environment is None else environment),
        database=database,
        project=project,
        actor=actor,
        system=system,
    )
    parts = await system.in_thread(opening)
    times = lease_times or parts.lease_times
    parts = replace(parts, ask_person=ask_person, lease_times=times)
    try:
        from upthread.client.project import Project  # noqa: PLC0415  # a hook needs none

        yield Project(parts)
    finally:
        # Closed for whoever is cancelled as well: an open file holds its log and its locks.
        with system.shield():
            await system.in_thread(parts.store.close)


@contextmanager
def open_agent_calls(
    directory: Path, *, environment: Environment, wait_s: float
) -> Generator[AgentCalls]:
    """Open the record behind a directory for one step of an agent's hook. Blocking.

    A store that is in use is waited for `wait_s`. Raises NotFoundError for a project that nobody
    has used upthread in; ConfigError, StoreError and UsageError as `open_project`.
    """
    parts = open_parts(directory, environment=environment, is_known_only=True, wait_s=wait_s)
    try:
        yield AgentCalls(parts)
    finally:
        parts.store.close()


def open_parts(
    directory: Path,
    *,
    environment: Environment,
    database: str | None = None,
    project: str | None = None,
    actor: Actor = PROGRAM,
    system: System | None = None,
    is_known_only: bool = False,
    wait_s: float | None = None,
) -> ProjectParts:
    """Open the record behind a directory. Blocking. The caller closes `store`.

    With `is_known_only` nothing is made: NotFoundError without a database, or where nobody has used
    upthread in the project. `wait_s` limits the wait for a store in use. Otherwise: `open_project`.
    """
    home = home_directory(environment)
    repository = find_repository(directory, home=home, is_remembered=not is_known_only)
    settings = load_settings(
        repository.root,
        environment=environment,
        database=database,
        repository=repository.identity.path,
    )
    settings, ignored = _with_agent_here(settings, environment)
    none = NotFoundError(f"nobody has used upthread in {directory}", hint="upthread use NAME there")
    # A key without its database tells of one that was lost: opening it says so, with the cure.
    beside = key_path(settings.database, Path(settings.home))
    if is_known_only and not (_has_record(settings.database) or os.path.lexists(beside)):
        raise none
    redactor, notices_of_store, store = _open_store(settings, wait_s=wait_s)
    try:
        said = said_project(project, environment.get(PROJECT_VARIABLE))
        identity = identity_in(settings.database, repository.identity)
        if is_known_only and said is None and not store.projects(identity):
            raise none
        known = know_project(store, identity, said, has_commit=partial(has_commit, repository.root))
    except BaseException:
        store.close()
        raise
    system = replace(system or System(), end_process_group=end_process_group)
    policy = RecordPolicy(
        mode=settings.record,
        roles={name: role.record for name, role in settings.roles.items() if role.record},
    )
    of_git = ignored_git_variables(directory, environment)
    return ProjectParts(
        store=ProjectStore(
            store,
            known.project_id,
            by_user=actor.for_user(user_name(environment)),
            now_ms=system.now_ms,
            policy=policy,
            redactor=redactor,
        ),
        system=system,
        settings=settings,
        project_id=known.project_id,
        environment=environment,
        actor=actor,
        lease_times=lease_times_for(settings.database),
        redactor=redactor,
        policy=policy,
        notices_at_rest=tuple(filter(None, (ignored, *notices_of_store, known.notice, of_git))),
    )


def _with_agent_here(settings: Settings, environment: Environment) -> tuple[Settings, str]:
    """A repository's word for an agent counts where that is installed; else a line says so."""
    said = settings.agent
    if said is None or said == settings.own_agent or said in settings.agents:
        return settings, ""

    if name_of(said) not in AGENTS or name_of(said) in agents_on_path(environment.get("PATH")):
        return settings, ""
    ignored = f'ignored, as {said} is not installed here: agent = "{said}" of this repository'
    return replace(settings, agent=settings.own_agent), ignored


def _has_record(database: str) -> bool:
    return is_postgres(database) or file_path(database).exists()


def _open_store(
    settings: Settings, *, wait_s: float | None = None
) -> tuple[Redactor, tuple[str, ...], LogStore]:
    """The rules are read before the store is opened, its key after: it lies beside the file."""
    _redactor_for(settings, b"")  # a rule that is none is refused before there is anything of ours
    home = Path(settings.home)
    # Before the file is opened, which may make it: never in a directory that others can enter.
    notice = secure_home(home)
    key = key_path(settings.database, home)
    is_file = not is_postgres(settings.database)
    is_lost = is_file and _has_record(settings.database) and not os.path.lexists(key)
    store = open_store(settings.database, key=key_of(settings), wait_s=wait_s)
    try:
        redactor = _redactor_for(settings, redaction_key(key))
        return redactor, (notice, _KEY_LOST.format(key) if is_lost else ""), store
    except BaseException:
        # A key that cannot be read is found last: the file must not stay open for it.
        store.close()
        raise


_KEY_LOST = (
    "the key of redaction {} was gone, and a new one is made: a secret that was recorded before no "
    "longer looks equal to the same one now; to undo it, put the old key back (backups have it)"
)


def _redactor_for(settings: Settings, key: bytes) -> Redactor:
    """Return a project's redactor. Raises ConfigError for a rule that is none."""
    own = settings.redaction
    if not own.rules:
        return Redactor(key, allowed=own.allow)
    from upthread.core.redaction.rules import rules_of  # noqa: PLC0415  # a hook may redact nothing

    return Redactor(key, rules=rules_of(own.rules), allowed=own.allow)


CANCEL_S_MAX = 10.0
"""How long a call that is cancelled may take to end, before its caller goes on."""


class Wait:
    """Runs one async call to its end and returns what it returns.

    Where waiting is interrupted, by Ctrl-C or by a signal's handler that raises as for Celery's
    soft time limit, the call is cancelled.
    """

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._pid = os.getpid()

    def __call__(
        self,
        call: Callable[Parameters, Awaitable[Result]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        if os.getpid() != self._pid:
            raise UsageError(
                "the project was opened before this process was forked",
                hint="open it again after the fork",
            )
        ended = threading.Event()

        async def awaited() -> Result:
            try:
                return await call(*args, **kwargs)
            finally:
                ended.set()

        called = self._portal.start_task_soon(awaited)
        try:
            return called.result()
        except BaseException:
            # While it runs it holds its lease, and the project must be open until it has ended.
            if called.cancel():
                ended.wait(CANCEL_S_MAX)
            raise


@contextmanager
def open_blocking(
    directory: str | Path = ".", *, database: str | None = None
) -> Generator[tuple[Project, Wait]]:
    """Open a project for code that is not async: `wait(up.tell, "spec-42/planner", "…")`."""
    from anyio.from_thread import start_blocking_portal  # noqa: PLC0415  # no verb needs it

    pid = os.getpid()
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        opening = portal.wrap_async_context_manager(open_project(directory, database=database))
        project = stack.enter_context(opening)
        try:
            yield project, Wait(portal)
        finally:
            if os.getpid() != pid:
                # A forked process has no thread that could close anything. The portal would wait
                # for it (anyio 4.16).
                portal._event_loop_thread_id = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                stack.pop_all()


# --- before anything is opened --------------------------------------------------------------------
# For what only reads the agents' own stores. Nothing is made: neither our home nor our record.


class Surroundings(Struct, frozen=True, kw_only=True):
    """A directory's project: the settings that hold there, and whether we have a record of it.

    `redactor` is the project's. Without a record its digests are good for this process alone.
    """

    settings: Settings
    redactor: Redactor
    has_record: bool

    def is_here(self, directory: str) -> bool:
        """Return whether a directory is the project's, by its name alone: nothing is looked at."""
        top = self.settings.working_directory
        return directory == top or directory.startswith(top.rstrip(os.sep) + os.sep)


def surroundings(
    directory: Path, *, environment: Environment, database: str | None = None
) -> Surroundings:
    """Return where a directory belongs. Raises ConfigError and UsageError as opening it would."""
    settings = load_trusting(directory, environment=environment, database=database)
    place = settings.database
    key = key_path(place, Path(settings.home))
    known = read_key(key, mend="put it back from a copy") if key.exists() else b""
    return Surroundings(
        settings=settings,
        redactor=_redactor_for(settings, known or os.urandom(KEY_BYTES)),
        has_record=is_postgres(place) or any(each.exists() for each in database_files(place)),
    )
