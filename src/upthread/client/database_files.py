"""A database file that is damaged, copied or put back: what its verbs do, for the file's address.

Chooses files and keys, sees that nobody works meanwhile, and says what a copy lacks. A PostgreSQL
database is copied by its server's own means.
"""

import os
import re
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import closing, suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.client.file_permissions import put_key, read_key, secure_home
from upthread.client.stores import conversations_in, key_of, projects_in
from upthread.config import Settings
from upthread.core.commands import RecordAct, RecordOnce
from upthread.core.names import shown
from upthread.core.types import Conversation, ProjectId
from upthread.errors import NotFoundError, StoreError, UsageError
from upthread.runtime.record.store_copy import in_use, leases_held
from upthread.runtime.system import now_ms, user_name
from upthread.store.address import KEY_SUFFIX, file_path, is_postgres, key_path
from upthread.store.log import LogStore
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.backup import FileFaults, check_file, copied, copy_to, put_in_place
from upthread.store.sqlite.files import CURE_OF_DAMAGE, size_of, sync_file

BACKUPS = "backups"
"""The directory of the home where a backup goes that was given no name."""

_MEND_KEY = "put the key back from a copy, or move it away: then equal secrets no longer look equal"


class BackedUp(Struct, frozen=True, kw_only=True):
    """A backup that was made. `key` is the copy of the redactions' key beside it.

    `encryption_key` is where the key of an encrypted one is, which is not copied.
    """

    database: Path
    backup: Path
    size_bytes: int
    key: Path | None
    encryption_key: str | None


class Lacking(Struct, frozen=True, kw_only=True):
    """What the database that is replaced has of a conversation and the copy has not.

    `session` is the agent's current session there; `is_known` whether the copy knows it, too.
    """

    conversation: Conversation
    turns: int
    agent: str
    session: str
    is_known: bool


class Restored(Struct, frozen=True, kw_only=True):
    """A copy that takes, or took, the place of the database, and what it lacks.

    `aside` is where the present file is kept, None without one; `unread` says why it could not be
    compared, empty where it was.
    """

    database: Path
    backup: Path
    aside: Path | None
    lacking: tuple[Lacking, ...]
    unread: str


def diagnose(settings: Settings) -> FileFaults | None:
    """Return what is wrong with the file of the settings' database, None for a server's."""
    if is_postgres(settings.database):
        return None
    return check_file(file_path(settings.database), key=key_of(settings))


def back_up(settings: Settings, target: Path | None) -> BackedUp:
    """Copy the database, while others write, with the key of its redactions. Blocking.

    UsageError for a server's, and for a file that is there; NotFoundError where there is no
    database; StoreError for one that is damaged.
    """
    path = _own_file(settings)
    if not size_of(path):
        check = check_file(path)
        # Else it is there and empty: a backup of nothing would hide that something emptied it.
        if check.is_sound:
            raise NotFoundError(f"there is no database {path} yet", hint="nothing was recorded")
        raise StoreError(check.faults[0], hint=CURE_OF_DAMAGE)
    if target is None:
        secure_home(Path(settings.home))
        target = Path(settings.home) / BACKUPS / f"{path.stem}-{_stamp()}{path.suffix}"
    copy_to(path, target, key=key_of(settings))
    key = carry_key(_key_path(settings, path), target)
    size_bytes = size_of(target) or 0
    return BackedUp(
        database=path,
        backup=target,
        size_bytes=size_bytes,
        key=key,
        encryption_key=settings.encryption_key,
    )


def restore(settings: Settings, backup: Path, *, is_done: bool = True) -> Restored:
    """Put a copy of a backup in the place of the database, which is kept aside. Blocking.

    UsageError for a server's, NotFoundError for a file that is not there, LeaseHeldError while
    somebody works, StoreError for a backup that is damaged or a database that somebody has open.
    Then nothing was changed. Without `is_done` nothing is, and what would be is returned.
    """
    path, key = _own_file(settings), key_of(settings)
    if not size_of(backup):
        raise NotFoundError(f"there is no backup {shown(str(backup))}", hint="name the file")
    if backup.resolve() == path.resolve():
        raise UsageError(f"{shown(str(backup))} is the database itself", hint="name a backup of it")
    secure_home(Path(settings.home))
    # A copy, on the same disk: the backup stays as it is, and to put it in place is one rename.
    with copied(backup, beside=path, key=key) as copy:
        lacking, unread, actions = _compared(path, copy, key)
        stamp = _stamp()
        aside = path.with_name(f"{path.name}.before-restore-{stamp}") if path.exists() else None
        if is_done:
            gap = None if unread else {_home_of(each.conversation) for each in lacking}
            _mark(copy, key, gap, actions)
            put_in_place(path, copy, aside or path.with_name(f"{path.name}.{stamp}"), key=key)
            # After the database: killed between the two, redactions
            # are made with the other key, and no row is lost.
            _take_key(_key_path(settings, backup), _key_path(settings, path), aside)
    return Restored(database=path, backup=backup, aside=aside, lacking=lacking, unread=unread)


# --- below: how --------------------------------------------------------------------------------


def _own_file(settings: Settings) -> Path:
    if is_postgres(settings.database):
        raise UsageError(
            "a PostgreSQL database is backed up and restored by its server's own means",
            hint="pg_dump --schema=upthread, see docs/operations.md; this is for a SQLite file",
        )
    return file_path(settings.database)


def _mark(
    copy: Path, key: bytes | None, gap: Container[object] | None, actions: Iterable[RecordOnce]
) -> None:
    """Record the restore in the copy, and put each workstream of the gap in doubt; None: all.

    `actions` are those of `once` that the backup lacks. Without a gap that is known nobody knows
    them, so that `once` refuses keys without a receipt.
    """
    at_ms = now_ms()
    with closing(SqliteStore(copy, key=key)) as store:
        first = {_home_of(each): each for each in reversed(tuple(_conversations(store)))}
        for home, conversation in first.items():
            if gap is None or home in gap:
                act = RecordAct(
                    what="restored",
                    by_user=user_name(os.environ),
                    recorded_at_ms=at_ms,
                    conversation_id=conversation.conversation_id,
                )
                store.commit([act])
        store.commit(tuple(actions))
        # A gap that an earlier restore left stays until a person has settled it.
        before = (store.restored_at_ms(each.project_id) or 0 for each in store.known_projects())
        store.mark_restored(at_ms if gap is None else max(before, default=0))
    sync_file(copy)


def _home_of(conversation: Conversation) -> tuple[str, str]:
    return conversation.key.project_id, conversation.key.workstream


_Compared: TypeAlias = tuple[tuple[Lacking, ...], str, tuple[RecordOnce, ...]]


def _compared(path: Path, copy: Path, key: bytes | None) -> _Compared:
    """Return what a copy lacks, which must verify, why that cannot be told, and actions."""
    with closing(SqliteStore(copy, key=key)) as there:
        # Before anything is put in place of what may be better.
        for proof in there.proofs():
            if proof.damage is not None:
                raise StoreError(
                    f"the backup was not put in place: {proof.damage.message}",
                    hint="name another backup",
                )
        if not path.exists():
            return (), "there is no database to compare it with", ()
        try:
            here = SqliteStore(path, key=key)
        except StoreError as error:
            return (), error.message, ()
        try:
            for project_id in projects_in(here):
                for lease in leases_held(here, project_id):
                    raise in_use(lease, "the database", then="restore")
            return tuple(_lacking(here, there)), "", tuple(_actions(here, there))
        except StoreError as error:
            return (), error.message, ()
        finally:
            # It may be damaged, and was only compared with.
            with suppress(StoreError):
                here.close()


def _lacking(here: LogStore, there: LogStore) -> Iterator[Lacking]:
    for conversation in _conversations(here):
        name = conversation.conversation_id
        turns = len(here.turns(name)) - len(there.turns(name))
        links, known = here.links(name), {each.upstream_session_id for each in there.links(name)}
        is_known = not links or links[-1].upstream_session_id in known
        if turns > 0 or not is_known:
            yield Lacking(
                conversation=conversation,
                turns=turns,
                agent=links[-1].agent if links else "",
                session=links[-1].upstream_session_id if links else "",
                is_known=is_known,
            )


def _actions(here: LogStore, there: LogStore) -> Iterator[RecordOnce]:
    """Yield what brings the actions of `once` to where they stand, oldest first in each."""
    for head in here.heads(None, "once"):
        project_id, key = ProjectId(head.project_id), head.name
        stands, known = here.once(project_id, key), there.once(project_id, key)
        if stands is None or there.head("project", project_id) is None:
            continue
        end = RecordOnce(
            project_id=project_id,
            key=key,
            attempt_id=stands.attempt_id,
            state=stands.state,
            receipt=stands.receipt,
            recorded_at_ms=stands.recorded_at_ms,
        )
        if known is None or known.attempt_id != stands.attempt_id:
            if known is not None and known.state == "intent":
                yield replace(end, attempt_id=known.attempt_id, state="failed")
            yield replace(end, state="intent")
        if stands.state != "intent" and (known is None or known.state != stands.state):
            yield end


def _conversations(store: LogStore) -> Iterator[Conversation]:
    for project_id in projects_in(store):
        yield from conversations_in(store, project_id)


def _key_path(settings: Settings, path: Path) -> Path:
    return key_path(str(path.absolute()), Path(settings.home))


def carry_key(key: Path, target: Path) -> Path | None:
    """Copy a database's key beside its copy; a backup without it has other digests from then on."""
    if not key.exists():
        return None
    beside = target.with_name(target.name + key.name.removeprefix(key.stem))
    put_key(beside, read_key(key, mend=_MEND_KEY))
    return beside


def _take_key(theirs: Path, ours: Path, aside: Path | None) -> None:
    """Have the redactions made with the key that those of the backup were made with."""
    if not theirs.exists():
        return
    key = read_key(theirs, mend=_MEND_KEY)
    if ours.exists() and aside is not None:
        if read_key(ours, mend=_MEND_KEY) == key:
            return
        # Kept beside the database that was redacted with it.
        ours.rename(aside.with_name(f"{aside.name}{ours.suffix}"))
    put_key(ours, key)


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


# --- daily backups --------------------------------------------------------------------------------
# A verb that writes makes a backup after its reply, once a day. The newest BACKUPS_MAX are kept. A
# backup holds whatever the database held, so `forget` removes all of them, unfinished copies too: a
# copy that began before the erasure then finds no file to rename.


BACKUPS_MAX = 3
FREE_BYTES_MIN = 1024**3
"""No backup is made where less than this would stay free on the disk."""

_DIRECTORY = "daily"
_DIGEST_CHARACTERS = 8


def back_up_daily(settings: Settings, *, today: str | None = None) -> Path | None:
    """Make the backup of the day, and remove the oldest ones. Blocking, reads the whole database.

    Returns the backup, and None where there is nothing to do: today has one, the disk is nearly
    full, `forget` has erased meanwhile, or the database is a server's. `today` is, for example,
    20261129. StoreError for a damaged database, whose older backups then stay.
    """
    if is_postgres(settings.database):
        return None
    path = file_path(settings.database)
    first = _first_name(settings, path)
    target = first.with_name(
        f"{first.name}-{today or time.strftime('%Y%m%d', time.gmtime())}{path.suffix}"
    )
    size_bytes = size_of(path)
    if not size_bytes or target.exists():
        return None
    secure_home(Path(settings.home))
    for directory in (target.parent.parent, target.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    disk = os.statvfs(target.parent)
    if disk.f_bavail * disk.f_frsize - size_bytes < FREE_BYTES_MIN:
        return None
    try:
        with copied(path, beside=target, key=key_of(settings)) as copy:
            # The key first: a backup without it would be put in place with another one.
            carry_key(_key_path(settings, path), target)
            copy.rename(target)
            sync_file(target.parent)
    except FileNotFoundError:
        return None
    kept = sorted(daily_backups(settings))[-BACKUPS_MAX:]
    # Copies that a killed process left go, too. A copy that another process makes at this moment
    # goes with them: that process finds no file to rename, as after `forget`.
    keys = (each.with_name(each.name + KEY_SUFFIX) for each in kept)
    _remove(set(_files(settings)) - {*kept, *keys})
    return target


def daily_backups(settings: Settings) -> list[Path]:
    """Return the daily backups of the settings' database."""
    suffix = file_path(settings.database).suffix
    name = re.compile(rf".*-\d{{8}}{re.escape(suffix)}", re.DOTALL)
    return [each for each in _files(settings) if name.fullmatch(each.name)]


def remove_daily_backups(settings: Settings) -> None:
    """Remove all daily backups of the settings' database, with their keys and unfinished copies."""
    _remove(_files(settings))


def _files(settings: Settings) -> list[Path]:
    if is_postgres(settings.database):
        return []
    first = _first_name(settings, file_path(settings.database))
    return list(first.parent.glob(f"{escape(first.name)}-*"))


def _first_name(settings: Settings, path: Path) -> Path:
    """Return how the names of a database's backups begin: a home may serve several databases."""
    digest = sha256(os.fsencode(path.absolute())).hexdigest()[:_DIGEST_CHARACTERS]
    return Path(settings.home) / BACKUPS / _DIRECTORY / f"{path.stem}-{digest}"


def _remove(files: Iterable[Path]) -> None:
    for each in files:
        each.unlink(missing_ok=True)
