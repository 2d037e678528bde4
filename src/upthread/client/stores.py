"""The store that an address names, opened; the key of its encryption; which project a directory is.

A key is `file:PATH`, a file of 32 bytes, which belongs on another disk than the database; or
`keyring:NAME`, an entry of the operating system's keyring, through the library of that name, an
extra.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.client.file_permissions import put_key, read_key
from upthread.config import Settings
from upthread.core.commands import RecordProject
from upthread.core.names import (
    is_anybodys,
    is_unrelated,
    match_project,
    project_id_for,
    roots_before,
    shown,
)
from upthread.core.types import Conversation, ProjectId, ProjectIdentity
from upthread.errors import ConfigError, NotFoundError, UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.system import path_owner
from upthread.runtime.working_tree.repository import find_repository, has_commit
from upthread.store.address import file_path, is_postgres
from upthread.store.base import Store
from upthread.store.log import LogStore
from upthread.store.sqlite import BUSY_TIMEOUT_S, SqliteStore
from upthread.store.sqlite.database import KEY_BYTES

if TYPE_CHECKING:
    from upthread.store.postgres import KnownWorker, Migrated

# Measured with workers that were killed and stopped: taken over after some 4 s (ADR 36).
SHARED_LEASE_TIMES = LeaseTimes(heartbeat_s=1.0, stale_after_s=4.0)
"""On PostgreSQL, where a holder is most often on another machine and shows life in no other way."""


def open_store(database: str, *, key: bytes | None = None, wait_s: float | None = None) -> LogStore:
    """Open a store. UsageError for an address of another kind, StoreError when it cannot be.

    `key` is what a file is encrypted with; a server encrypts for itself. `wait_s` is how long a
    call waits for other writers, and for a server; None: as long as usual.
    """
    if is_postgres(database):
        store: LogStore = _postgres().PostgresStore(database, wait_s=wait_s)
        return store
    busy_s = BUSY_TIMEOUT_S if wait_s is None else wait_s
    return SqliteStore(file_path(database), key=key, busy_timeout_s=busy_s)


def conversations_in(store: Store, project_id: ProjectId) -> Iterator[Conversation]:
    """Yield all conversations of a project, one workstream after the other."""
    for known in store.workstreams(project_id):
        yield from store.conversations(project_id, known.workstream)


def projects_in(store: LogStore) -> list[ProjectId]:
    """Return the projects of a store, by whichever identities they are known."""
    return list(dict.fromkeys(each.project_id for each in store.known_projects()))


def migrate_store(database: str) -> Migrated:
    """Bring the schema of a PostgreSQL database up to date; raises UsageError and StoreError."""
    if not is_postgres(database):
        path = file_path(database)
        raise UsageError(
            f"{path} is a SQLite file, which is brought up to date when it is opened",
            hint="name a PostgreSQL database: --db postgres://USER@HOST/DATABASE",
        )
    migrated: Migrated = _postgres().migrate(database)
    return migrated


def workers_of(database: str) -> tuple[KnownWorker, ...]:
    """Return the workers of a shared database, oldest first; UsageError for a SQLite file."""
    if not is_postgres(database):
        raise UsageError(
            "workers share a PostgreSQL database, and this is a SQLite file of one machine",
            hint="--db postgres://USER@HOST/DATABASE, or `upthread run`, which needs no worker",
        )
    store = _postgres()
    store.PostgresStore(database).close()  # whose errors say what is wrong with the schema
    with closing(store.WorkerTable(database)) as table:
        workers: tuple[KnownWorker, ...] = table.workers()
    return workers


def shown_address(database: str) -> str:
    """Return an address as it can be shown: a server's without its password, a file's path."""
    if is_postgres(database):
        return str(_postgres().shown_address(database))
    return str(file_path(database))


def lease_times_for(database: str) -> LeaseTimes | None:
    """Return how leases are kept on a store; None: as on one machine."""
    return SHARED_LEASE_TIMES if is_postgres(database) else None


def _postgres() -> ModuleType:
    """Import what only this store needs: its driver is an extra, and takes its time to load."""
    try:
        from upthread.store import postgres  # noqa: PLC0415  # see above
    except ImportError as error:
        # An import that fails within ours is a fault, and not a driver that is missing.
        if (error.name or "psycopg").partition(".")[0] != "psycopg":
            raise
        raise UsageError(
            f"PostgreSQL needs a driver that is not here: {error}",
            hint="pip install 'upthread[postgres]'",
        ) from error
    return postgres


# --- the key of its encryption --------------------------------------------------------------------


FILE = "file:"
KEYRING = "keyring:"
SERVICE = "upthread"
"""Under which the keyring lists our keys."""

_LOST = (
    "put it back from a copy, for without it the database cannot be read; "
    "the first one is made by `upthread encrypt`"
)


def key_of(settings: Settings) -> bytes | None:
    """Return the key of the settings' database, None where it is not encrypted.

    ConfigError when it is not where the configuration says. Blocking.
    """
    # A server encrypts for itself.
    if settings.encryption_key is None or is_postgres(settings.database):
        return None
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        return read_key(Path(name).expanduser(), mend=_LOST)
    told = _keyring().get_password(SERVICE, name)
    if told is None:
        raise ConfigError(f"the keyring has no key {name!r} of {SERVICE}", hint=_LOST)
    with suppress(ValueError):
        key = bytes.fromhex(told)
        if len(key) == KEY_BYTES:
            return key
    raise ConfigError(f"what the keyring has under {name!r} is no key", hint=_LOST)


def made_key(settings: Settings) -> bytes:
    """Return the key of the settings' database, made where there is none yet. Blocking.

    UsageError when the configuration does not say where it is to be.
    """
    if settings.encryption_key is None:
        raise UsageError(
            "nothing says where the key is to be kept",
            hint='write encryption_key = "file:/a/path/elsewhere" or "keyring:NAME" at the top of '
            "your config.toml (see docs/privacy.md)",
        )
    kind, name = _kind_and_name(settings.encryption_key)
    if kind == FILE:
        put_key(Path(name).expanduser())
    elif _keyring().get_password(SERVICE, name) is None:
        _keyring().set_password(SERVICE, name, os.urandom(KEY_BYTES).hex())
    # Read back, so that a key is used only once it is known to be kept.
    key = key_of(settings)
    assert key is not None
    return key


def _kind_and_name(source: str) -> tuple[str, str]:
    for kind in (FILE, KEYRING):
        if source.startswith(kind) and source != kind:
            return kind, source.removeprefix(kind)
    raise ConfigError(
        f"encryption_key = {source!r} says no place", hint='say "file:PATH" or "keyring:NAME"'
    )


def _keyring() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as error:
        raise UsageError(
            f"the keyring needs a library that is not here: {error}",
            hint="pip install 'upthread[keyring]', or keep the key in a file: file:PATH",
        ) from error
    module: ModuleType = keyring
    return module


# --- which project a directory is ----------------------------------------------------------------
# In a file of one person's own a path is enough. In a store that several share, a path is its
# owner's: another account or host has other files there. What was recorded there before paths had
# owners may be anybody's, so it is given to nobody until a person says whose it is.


PROJECT_VARIABLE = "UPTHREAD_PROJECT"
NEW = "new"
"""In place of a project's id: none of those that were recorded under the path."""


Recorded: TypeAlias = list[tuple[ProjectId, ProjectIdentity]]
"""The projects that may be a directory's, each by an identity that is on record."""


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
    known: Recorded,
    held: frozenset[str],
) -> ProjectId | None:
    """As `match_project`; of several, the only one that somebody has worked in.

    To look is enough to make a project, and what was recorded elsewhere may be moved here later.
    """
    try:
        return match_project(identity, known, held=held)
    except UsageError:
        worked_in: Recorded = []
        for project_id, other in known:
            store.act_for(project_id)
            if store.workstreams(project_id):
                worked_in.append((project_id, other))
        found = match_project(identity, worked_in, held=held)
        if found is None:
            raise
        return found


def _new(
    store: LogStore,
    identity: ProjectIdentity,
    known: Recorded,
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
