"""The move of a store: from a SQLite file to PostgreSQL and back, the projects that are asked for.

Chooses and opens both ends, sees that nobody is at the source, and that digests stay comparable:
the key they are made with goes along. What is moved and proved is runtime/record/store_copy.py.
"""

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.client.file_permissions import put_key, read_key, secure_home
from upthread.client.stores import (
    identity_in,
    key_of,
    lease_times_for,
    open_store,
    projects_in,
    shown_address,
)
from upthread.config import Settings
from upthread.core.commands import RecordProject
from upthread.core.names import match_project
from upthread.core.types import Lease, ProjectId, ProjectIdentity
from upthread.errors import ConflictError, NotFoundError, UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.store_copy import Move, ToMove, due_runs, in_use, leases_held
from upthread.runtime.system import host_name, is_dead, now_ms
from upthread.runtime.working_tree.repository import find_repository
from upthread.store.address import file_path, is_postgres, key_path
from upthread.store.log import LogStore

OWN_FILE = "sqlite"
"""What may be said in place of an address: the file that is used where nothing else is named."""

KeyState: TypeAlias = Literal["same", "copied", "differs", "none"]
"""What became of the key of the source's redactions: the target had it already, was given it, has
another one, or there was none."""

_MEND_KEY = "put the key back from a copy, else equal secrets no longer look equal"


class MoveRequest(Struct, frozen=True, kw_only=True):
    """What to move: addresses, and whose: the project of a directory, or with None every one."""

    settings: Settings
    source: str
    target: str
    directory: Path | None


class MovePlan(Struct, frozen=True, kw_only=True):
    """What a move finds, or has done. Names are addresses that can be shown.

    `others` are the projects of the source that were not asked for.
    """

    source: str
    target: str
    projects: tuple[ToMove, ...]
    others: int
    key: KeyState


def plan_move(request: MoveRequest) -> MovePlan:
    """Return what a move would do, and do nothing. Raises as `make_move` does."""
    with _ends(request, is_made=False) as (source, target):
        return _planned(request, source, target)[1]


def make_move(request: MoveRequest, *, on_entries: Callable[[int], None]) -> MovePlan:
    """Move, prove it, and return what was found before; what is there already is not written again.

    Raises UsageError for ends that are none, NotFoundError for a project or file that is not there,
    LeaseHeldError and ConflictError when somebody is at the source or the target holds something
    else, StoreError when it cannot be proved. Then it is not done, and can be done again.
    """
    with _ends(request, is_made=True) as (source, target):
        move, plan = _planned(request, source, target, on_entries=on_entries)
        # Before the rows: killed between the two, a target
        # without its key would redact with another.
        key = _carry_key(request, is_dry=False)
        for project in plan.projects:
            move.make(project)
            assert target is not None, "a move opens its target"
            target.commit(_own_paths(project, request))
        return replace(plan, key=key)


def resolved(settings: Settings, address: str) -> str:
    """Return the address behind what was said."""
    return str(Path(settings.home) / "upthread.db") if address == OWN_FILE else address


# --- below: how --------------------------------------------------------------------------------


@contextmanager
def _ends(request: MoveRequest, *, is_made: bool) -> Generator[tuple[LogStore, LogStore | None]]:
    """Open both stores. A file that is not there yet is made only where it is to be filled."""
    # Before either is opened: a target that is the source would be compared with itself, and fit.
    if _place(request.source) == _place(request.target):
        raise UsageError("a store cannot be moved to itself", hint="name two: --from A --to B")
    if not is_postgres(request.source) and not file_path(request.source).is_file():
        raise NotFoundError(
            f"there is no database {file_path(request.source)}", hint="name the file after --from"
        )
    if is_made:
        secure_home(Path(request.settings.home))
    is_there = is_postgres(request.target) or file_path(request.target).is_file()
    with ExitStack() as stack:
        source = stack.enter_context(closing(_opened(request.settings, request.source)))
        target = None
        if is_made or is_there:
            target = stack.enter_context(closing(_opened(request.settings, request.target)))
        yield source, target


def _opened(settings: Settings, address: str) -> LogStore:
    return open_store(address, key=key_of(replace(settings, database=address)))


def _place(address: str) -> str:
    return address if is_postgres(address) else str(file_path(address).resolve())


def _planned(
    request: MoveRequest,
    source: LogStore,
    target: LogStore | None,
    *,
    on_entries: Callable[[int], None] = lambda _: None,
) -> tuple[Move, MovePlan]:
    known = projects_in(source)
    chosen = known if request.directory is None else [_project_of(source, request)]
    for project_id in chosen:
        _must_rest(source, request.source, project_id)
    move = Move(source, target, now_ms=now_ms, on_entries=on_entries)
    plan = MovePlan(
        source=shown_address(request.source),
        target=shown_address(request.target),
        projects=tuple(map(move.plan, chosen)),
        others=len(known) - len(chosen),
        key=_carry_key(request, is_dry=True),
    )
    return move, plan


def _project_of(source: LogStore, request: MoveRequest) -> ProjectId:
    assert request.directory is not None
    identity = identity_in(request.source, find_repository(request.directory).identity)
    known = [(each.project_id, each.identity) for each in source.projects(identity)]
    found = match_project(identity, known)
    if found is None:
        raise NotFoundError(
            f"{shown_address(request.source)} knows nothing of the project in {identity.path}",
            hint="go to a directory of the project (-C DIR), or move every project with --all",
        )
    return found


def _own_paths(project: ToMove, request: MoveRequest) -> list[RecordProject]:
    """Return the paths of a project as the target is asked for them.

    Those of a file are whose file it is. Of a shared database they are left as they are, but for
    those of who moves them.
    """
    theirs, ours = (
        identity_in(address, ProjectIdentity(path="")).owner
        for address in (request.source, request.target)
    )
    return [
        RecordProject(project_id=project.project_id, identity=replace(each, owner=ours))
        for each in project.identities
        if each.owner == theirs != ours
    ]


def _must_rest(source: LogStore, address: str, project_id: ProjectId) -> None:
    """Raise where somebody works on a project, or may begin to at any moment."""
    found = list(leases_held(source, project_id))
    if found and all(lease.holder and lease.holder.host != host_name() for lease in found):
        # Of a holder on another host nobody knows but by its silence.
        time.sleep((lease_times_for(address) or LeaseTimes()).stale_after_s)
        found = [now for lease in found if (now := source.lease(lease.name)) and _lives(now, lease)]
    for lease in found:
        raise in_use(lease, "the source", then="move")
    if not is_postgres(address):
        return
    # A run that a worker may take would go on in both places.
    due = set(due_runs(source, project_id, before_ms=now_ms()))
    for known in source.workstreams(project_id):
        if due & {run.run_id for run in source.runs(project_id, known.workstream)}:
            raise ConflictError(
                f"a run on {known.workstream!r} is due: a worker of the source may take it",
                hint="let it go on until it has ended or waits for a person, then move",
                workstream=known.workstream,
            )


def _lives(now: Lease, seen: Lease) -> bool:
    """Return whether a lease's holder has shown life since the lease was seen."""
    has_moved = (seen.token, seen.heartbeat) != (now.token, now.heartbeat)
    return has_moved and now.holder is not None and not is_dead(now.holder)


def _carry_key(request: MoveRequest, *, is_dry: bool) -> KeyState:
    home = Path(request.settings.home)
    ours, theirs = key_path(request.source, home), key_path(request.target, home)
    if not ours.exists():
        return "none"
    key = read_key(ours, mend=_MEND_KEY)
    if not theirs.exists():
        if not is_dry:
            put_key(theirs, key)
        return "copied"
    # Never replaced: what is in the target already was redacted with its own.
    return "same" if read_key(theirs, mend=_MEND_KEY) == key else "differs"
