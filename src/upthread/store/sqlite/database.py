"""One connection: how it is opened, brought up to date, and how its errors are worded.

Theory of operation. Write-ahead log, one writer at a time, `BEGIN IMMEDIATE` so that a transaction
never has to upgrade; writers stand in a queue of ours before it (ADR 104). A commit reaches the
page cache (`synchronous=NORMAL`) or the disk (`FULL`); one FULL commit syncs the log, and with it
all commits before it. The schema is made and moved on inside one immediate transaction, so any
number of processes may open a new file at once. Nothing outside of the process is waited for
within a transaction; a process that is suspended in one (Ctrl-Z) is waited for SUSPENDED_WAIT_S.

The engine can encrypt a whole file with its log, because apsw is built with SQLite3 Multiple
Ciphers. The default cipher, ChaCha20-Poly1305, also detects a changed page:
https://utelle.github.io/SQLite3MultipleCiphers. A key is 32 random bytes and is used as given:
upthread stretches no passphrase.

Writers queue before SQLite's write lock, so that each comes to its turn (ADR 104). SQLite itself
has no queue: whoever finds its lock held sleeps for up to 100 ms and looks again, while those that
come meanwhile go first. Writers of ours first take a lock of a file beside, which is quick to ask
for. It only orders them and refuses nobody: what keeps two writers apart is SQLite's lock, so a
place where the file cannot be made, a holder that stands still, an older version or another program
costs waiting and nothing else. The lock goes with its holder. The file is empty, but for a byte for
each step of a hook that could not use the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

import apsw

from upthread.boundary.forked import Forkable
from upthread.boundary.programs import suspended_holder
from upthread.core.codec import encode_text
from upthread.errors import StoreError
from upthread.store.address import KEY_SUFFIX
from upthread.store.log import Row
from upthread.store.sqlite.files import (
    CURE_OF_DAMAGE,
    QUEUE_SUFFIX,
    not_new,
    prepare_file,
    refuse_remains,
    remains,
    size_of,
)
from upthread.store.streams import LOG_VERSION, SCHEMA_VERSION

# --- the queue of writers -------------------------------------------------------------------------

# A commit takes 0.1 to 1 ms. Whoever has waited for longer waits for something else.
_QUEUE_LOOK_S = 0.0003
_LOOKS_SHORT_MAX = 300
_LOOK_LATER_S = 0.005
_WAIT_MAX_S = 5.0
_PASSED_BY_S = 60.0
"""For how long a queue that stood still is passed by: a turn is many writes, each would wait."""

_TAKE = fcntl.LOCK_EX | fcntl.LOCK_NB
_GIVE = fcntl.LOCK_UN
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class WriteQueue:
    """The queue of one connection. Opened at the first write: who only reads makes no file."""

    def __init__(self, database: Path, *, wait_s: float) -> None:
        self._path = _queue_of(database)
        self._wait_s = min(wait_s, _WAIT_MAX_S)
        self._descriptor: int | None = None
        self._is_usable = True
        self._stood_still_until_s = 0.0

    @property
    def has_stood_still(self) -> bool:
        """Whether its holder was waited for in vain a moment ago."""
        return time.monotonic() < self._stood_still_until_s

    def enter(self) -> None:
        """Wait for our turn: `wait_s` or five seconds at most; then, for a minute, not at all."""
        if self._descriptor is None and not self._is_open():
            return
        if not self._is_taken() and not self.has_stood_still:
            self._wait()

    def leave(self) -> None:
        """Let the next one in. Changes nothing where it was not our turn."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, _GIVE)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _wait(self) -> None:
        # Not within flock, which knows no limit: a holder that was stopped would stop everybody.
        deadline_s = time.monotonic() + self._wait_s
        looks = 0
        while not self._is_taken():
            if time.monotonic() >= deadline_s:
                self._stood_still_until_s = time.monotonic() + _PASSED_BY_S
                return
            time.sleep(_QUEUE_LOOK_S if looks < _LOOKS_SHORT_MAX else _LOOK_LATER_S)
            looks += 1

    def _is_taken(self) -> bool:
        """Return whether it is our turn; also where locks are not to be had, since nobody waits."""
        assert self._descriptor is not None, "opened by `enter`"
        try:
            fcntl.flock(self._descriptor, _TAKE)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            self._is_usable = False
        return True

    def _is_open(self) -> bool:
        if self._is_usable:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(self._path, _OPEN, 0o600)
            # Asked for once: a place that is read-only, or full, stays so for a while.
            self._is_usable = self._descriptor is not None
        return self._is_usable


def _queue_of(database: Path) -> Path:
    return database.with_name(database.name + QUEUE_SUFFIX)


def has_locks(database: Path) -> bool:
    """Return whether files can be locked where a database lies; True where it cannot be tried.

    Some network homes have no locks, and SQLite takes that for a lock of somebody else's.
    """
    try:
        # Not the database: to close it would give up this process's own locks of it.
        descriptor = os.open(_queue_of(database), _OPEN, 0o600)
    except OSError:
        return True
    try:
        fcntl.lockf(descriptor, _TAKE)
    except OSError as error:
        # EACCES too is no lock of another process's: writers lock this file by flock alone.
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return True


def without_locks(database: Path, doing: str) -> StoreError:
    """Return the error for a place that has no locks."""
    return StoreError(
        f"could not {doing} the database {database}: no file can be locked there",
        hint="set UPTHREAD_HOME to a directory of a local disk",
    )


def note_missed(database: Path) -> None:
    """Note that a step of a hook could not use a database. Nothing where that cannot be noted."""
    path, flags = _queue_of(database), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    with contextlib.suppress(OSError):
        descriptor = os.open(path, flags)
        try:
            os.write(descriptor, b".")
        finally:
            os.close(descriptor)


def missed(database: Path) -> int:
    """Return how many steps of hooks could not use a database, since they were last read back."""
    try:
        return _queue_of(database).stat().st_size
    except OSError:
        return 0


def forget_missed(database: Path, seen: int) -> None:
    """Note that so many steps were read back; more may have been missed meanwhile."""
    with contextlib.suppress(OSError):
        if missed(database) == seen:
            os.truncate(_queue_of(database), 0)


# --- a connection ---------------------------------------------------------------------------------

KEY_BYTES = 32
_INDEX_BYTES = 32 * 1024
"""The smallest size of a `-shm` file."""


class Cursor(Protocol):
    """The used part of apsw.Cursor, with types, because apsw's own stubs need a newer Python."""

    def execute(self, statements: str, /) -> Cursor: ...
    def fetchall(self) -> list[Row]: ...


class Connection(Protocol):
    """The used part of apsw.Connection, with types."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Cursor: ...
    def executemany(self, statements: str, bindings: Sequence[Sequence[Any]], /) -> Cursor: ...
    def pragma(self, name: str, value: str | None = None, /) -> Any: ...
    def set_busy_timeout(self, milliseconds: int, /) -> None: ...
    def set_busy_handler(self, callable: Callable[[int], bool], /) -> None: ...  # noqa: A002
    def backup(self, database: str, source: Connection, source_database: str, /) -> Any: ...
    def config(self, option: int, value: int, /) -> int: ...
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def data_version(self) -> int: ...
    def create_scalar_function(
        self,
        name: str,
        callable: Any,  # noqa: A002  # apsw's
        numargs: int = ...,
        *,
        deterministic: bool = ...,
        flags: int = ...,
    ) -> None: ...
    def close(self, force: bool = False, /) -> None: ...  # noqa: FBT001, FBT002  # apsw's signature


def connect(
    path: Path, key: bytes | None, *, busy_timeout_ms: int = 5_000, vfs: str | None = None
) -> Connection:
    """Open a database file, without a check of its content. Raises apsw.Error."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    # Resolved, because NOFOLLOW otherwise also refuses the system's links further up.
    place = path.resolve()
    connection = cast("Connection", apsw.Connection(str(place), flags=flags, vfs=vfs))
    allow_full_disk(connection, place)
    if key is not None:
        unlock(connection, key)
    connection.set_busy_timeout(busy_timeout_ms)
    return connection


def unlock(connection: Connection, key: bytes) -> None:
    """Give a connection its key, before any other statement.

    Raises StoreError if the engine has no ciphers. A wrong key shows at the first read:
    apsw.NotADBError.
    """
    if not hasattr(apsw, "mc_version"):
        # This engine would accept the key silently and write plain text.
        raise StoreError(
            "the installed apsw cannot encrypt: another package put itself in its place",
            hint="pip uninstall apsw && pip install --force-reinstall apsw-sqlite3mc",
        )
    connection.pragma("key", raw_key(key))


def raw_key(key: bytes) -> str:
    """Return a key in the engine's notation, for example `raw:00ff…`."""
    return f"raw:{key.hex()}"


def has_key(path: Path, key: bytes | None) -> bool:
    """Return whether a key, or no key for None, opens a database. Always true of an empty file."""
    connection = connect(path, key, busy_timeout_ms=0)
    try:
        connection.pragma("schema_version")
    except apsw.NotADBError:
        return False
    finally:
        connection.close()
    return True


def allow_full_disk(connection: Connection, place: Path) -> None:
    """Keep the index of the log in memory if a full disk has no room for the index file.

    To be called before the first read. SQLite allows an index in memory to a process that has the
    file alone: https://sqlite.org/wal.html#noshm.
    """
    free = os.statvfs(place.parent)
    is_there = (size_of(place.with_name(place.name + "-shm")) or 0) >= _INDEX_BYTES
    if free.f_bavail * free.f_frsize < _INDEX_BYTES and not is_there:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()


def faults_in(connection: Connection, *, faults_max: int) -> tuple[str, ...]:
    """Return the damage that the engine finds, empty if there is none. Blocking.

    For example an entry that no index leads to. Reads the whole file, because any page may be bad.
    """
    rows = connection.execute(f"PRAGMA integrity_check({faults_max:d})").fetchall()
    told = [line for (text,) in rows for line in str(text).splitlines()]
    # `*** in database main ***` is a heading.
    return tuple(line for line in told if line != "ok" and not line.startswith("***"))


def cure(error: Exception) -> str:
    """Return the advice for a file that cannot be copied or opened."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "another process has it open: let it finish or end it, then do it again"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return f"it is damaged, or under another key; {CURE_OF_DAMAGE}"
    return "check the disk, its mount and its space, then do it again"


# --- the database ---------------------------------------------------------------------------------

ENGINE_ERRORS = (apsw.Error, UnicodeDecodeError)
"""What the engine raises: the latter for text that is damaged, since we write none such as text."""

ENGINE_MIN = (3, 51, 3)
"""Older engines can corrupt a database with several writers: sqlite.org/wal.html#walresetbug."""

APPLICATION_ID = 0x75707468  # "upth"

_SCHEMA = Path(__file__).with_name("schema.sql")

# Without a limit the log stays as large as it ever was: SQLite overwrites it and cuts nothing off.
_PAGE_BYTES = 2048
_JOURNAL_BYTES_MAX = 16 * 1024 * 1024
_CACHE_KIB = 8 * 1024
_LOOK_S = 0.001
_LOOK_S_MAX = 0.05

SUSPENDED_WAIT_S = 5.0
"""How long a call waits for a suspended process that holds the database's lock."""

# Opening checks, makes and closes files: two threads must not do that to one path at once.
_OPENING = Forkable()

_STRANDED: list[Connection] = []
"""Connections of a parent process. Those that were not closed would be, if nothing named them."""

_DAMAGED = f"`upthread doctor` says what is damaged; {CURE_OF_DAMAGE}"
_LOCKING = (apsw.BusyError, apsw.IOError, apsw.PermissionsError)
_CURES: Mapping[type[Exception], str] = MappingProxyType(
    {
        apsw.FullError: "free some space on the disk, then do it again",
        apsw.IOError: "check the disk and its mount, then do it again",
        apsw.ReadOnlyError: "make the file and its directory writable for you",
        apsw.CantOpenError: "make its directory exist and writable for you",
        apsw.PermissionsError: "make the file and its directory writable for you",
        apsw.AuthError: "make the file and its directory writable for you",
        UnicodeDecodeError: _DAMAGED,
        apsw.CorruptError: _DAMAGED,
        apsw.NotADBError: "the file is no database, or it is encrypted and your config.toml does "
        f"not say its encryption_key. If it was one: {CURE_OF_DAMAGE}",
        apsw.BusyError: "another process holds the database: let it finish or end it",
        apsw.LockedError: "another process holds the database: let it finish or end it",
        apsw.TooBigError: "one value is over SQLite's limit of 1 GB: split it",
        apsw.ConnectionClosedError: "the store was closed: open it again",
        apsw.ThreadingViolationError: "one call at a time: open a store for each thread",
    }
)


def to_column(text: str) -> str | bytes:
    """Return text as SQLite takes it: as it is, or as bytes when it is not valid Unicode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode_text(text)
    return text


def damaged_file(path: Path, told: str) -> StoreError:
    """Return the error of a file in which the engine finds damage."""
    return StoreError(f"the database {path} is damaged: {' '.join(told.split())}", hint=_DAMAGED)


def check_engine(version: str) -> None:
    """Raise StoreError for a SQLite that can corrupt what it writes."""
    if tuple(map(int, version.split(".")[:3])) < ENGINE_MIN:
        wanted = ".".join(map(str, ENGINE_MIN))
        raise StoreError(
            f"SQLite {version} is too old: below {wanted} several writers can corrupt a database",
            hint="install a newer apsw, which brings its own SQLite",
        )


class Database(Forkable):
    """A connection that is open, up to date and ours. Any thread, one call at a time."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_s: float,
        vfs: str | None = None,
        key: bytes | None = None,
    ) -> None:
        super().__init__()
        check_engine(apsw.sqlite_lib_version())
        self.path = path
        self.is_encrypted = key is not None
        self._vfs, self._key = vfs, key
        self._busy_timeout_s = busy_timeout_s
        self._busy_since_s = 0.0
        self.is_as_left = False
        """Within a transaction: whether nobody else has committed since this connection did."""
        self._connection: Connection | None = None
        self._is_stranded = self._is_closed = False
        with self.lock:
            self._open()

    @property
    def connection(self) -> Connection:
        """This process's connection, which is opened anew after a fork."""
        # A connection that was closed counts as false.
        return self._open() if self._connection is None else self._connection

    def _open(self) -> Connection:
        if self._is_stranded or self._is_closed:
            raise StoreError(
                f"{self.path} was closed, or was in use when this process was forked",
                hint="open it after the fork, or again where it was closed",
            )
        self._is_synced: bool | None = None
        self._left_at: int | None = None
        """The file's data version once this connection's last commit was through."""
        with _OPENING.lock:
            # Before a file is made: nothing is to be written where one is missing beside its log.
            refuse_remains(self.path)
            self._place = prepare_file(self.path)
            self._queue = WriteQueue(self._place, wait_s=self._busy_timeout_s)
            with self.worded("open"):
                connection = self._connection = connect(self._place, None, vfs=self._vfs)
        try:
            with self.worded("open"):
                if self._key is not None:
                    unlock(connection, self._key)
                self._prepare()
        except BaseException:
            self._queue.close()
            self._connection = None
            connection.close(True)
            raise
        return connection

    def after_fork(self, *, is_idle: bool) -> None:
        # A child has no locks on the file, and the engine believes that it has the parent's. So the
        # connection is closed before the engine opens another: its parent still holds the file, so
        # that nothing is written. Where the engine would write, it stays as it is and is not used.
        connection = self._connection
        if connection is None or self._is_closed:
            return
        self._queue.close()
        self._connection, self._is_stranded = None, True
        _STRANDED.append(connection)
        with contextlib.suppress(apsw.Error):
            is_alone = connection.pragma("locking_mode") == "exclusive"
            if is_idle and not is_alone and not connection.in_transaction:
                connection.close()
                self._is_stranded = False

    @contextmanager
    def transaction(self, *, is_synced: bool) -> Generator[Connection]:
        """Run the block in one transaction, committed at its end, rolled back if it raises."""
        with self.lock, self.worded("write"):
            connection = self.connection
            try:
                if self._is_synced is not is_synced:
                    connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
                    self._is_synced = is_synced
                self._queue.enter()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self.is_as_left = connection.data_version() == self._left_at
                    if not self.is_as_left and self.schema_version() > SCHEMA_VERSION:
                        raise self._newer(self.schema_version())  # made while this one was open
                    yield connection
                    connection.execute("COMMIT")
                # An interrupt, too: a transaction left open would keep every other writer waiting.
                except BaseException:
                    # SQLite has already rolled back after some errors (full disk, I/O).
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                self._left_at = connection.data_version()
            finally:
                self._queue.leave()

    def _newer(self, version: int) -> StoreError:
        return StoreError(
            f"{self.path} was written by a newer upthread"
            f" (schema {version}, this version knows {SCHEMA_VERSION})",
            hint="upgrade upthread; the file was left as it is",
        )

    @contextmanager
    def worded(self, doing: str) -> Generator[None]:
        """Turn the engine's errors into ours."""
        try:
            yield
        except ENGINE_ERRORS as error:
            raise self.store_error(error, doing) from error

    def store_error(self, error: Exception, doing: str) -> StoreError:
        """Return the engine's error in our words, with the path and the cure."""
        # SQLite calls a failed lock busy, denied or an I/O error, by the errno.
        if isinstance(error, _LOCKING) and not has_locks(self._place):
            return without_locks(self.path, doing)
        if isinstance(error, apsw.BusyError) and (pid := self._suspended_holder()):
            return StoreError(
                f"could not {doing} the database {self.path}: process {pid} holds its lock and is"
                " suspended (by Ctrl-Z, for example)",
                hint=f"let it continue: kill -CONT {pid}",
            )
        cure = next((cure for kind, cure in _CURES.items() if isinstance(error, kind)), "")
        if isinstance(error, apsw.NotADBError) and self.is_encrypted:
            cure = "it is under another key than your encryption_key, or not yet encrypted: "
            cure += f"`upthread encrypt`. If it is damaged: {CURE_OF_DAMAGE}"
        return StoreError(f"could not {doing} the database {self.path}: {error}", hint=cure)

    def scrub(self) -> None:
        """Write the database anew and empty its log. StoreError when somebody reads or writes it.

        Within a transaction content becomes NULL, and SQLite overwrites what it frees. That leaves
        the log, and what b-trees have moved about before.
        """
        with self.lock, self.worded("scrub"):
            # The copy is as large as what is left: on disk it is a file without a name. The engine
            # would not encrypt that file.
            self.connection.pragma("temp_store", "memory" if self.is_encrypted else "file")
            try:
                self.connection.execute("VACUUM")
            finally:
                self.connection.pragma("temp_store", "memory")
            checkpoint = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        ((is_busy, _, _),) = checkpoint
        if is_busy:
            raise StoreError(
                f"the log of {self.path} still holds what was erased: another process reads it",
                hint="end what uses upthread, then do it again",
            )

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self.lock, self.worded("close"):
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
            self._queue.close()

    def _suspended_holder(self) -> int | None:
        # SQLite's locks are on the file itself and on the index of its log.
        index = self._place.with_name(self._place.name + "-shm")
        return suspended_holder((self._place, index))

    def _waits_again(self, tries: int) -> bool:
        """Wait a moment for a lock that another process holds; False once it waited for too long.

        SQLite's own time-out knows nothing of a holder that is suspended.
        """
        if tries == 0:
            self._busy_since_s = time.monotonic()
            if not has_locks(self._place):
                return False
        waited_s = time.monotonic() - self._busy_since_s
        is_due = self._queue.has_stood_still or waited_s >= SUSPENDED_WAIT_S
        if waited_s >= self._busy_timeout_s or (is_due and self._suspended_holder()):
            return False
        time.sleep(min(_LOOK_S * (tries + 1), _LOOK_S_MAX))
        return True

    def _prepare(self) -> None:
        connection = self.connection
        connection.set_busy_handler(self._waits_again)
        # Else a statement that can use a partial index is compiled anew each time it is bound:
        # resolve took 22 us in place of 6.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.create_scalar_function("sha256", _sha256, 1, deterministic=True)
        # Before the switch, which writes to the file: what is refused is left as it was (S17).
        self._refuse_unknown()
        # A commit changes a few rows in each of five trees, and writes whole pages: 71 kB a turn in
        # place of 119. A file that has its schema keeps its page size.
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        self._switch_to_wal()
        connection.execute(
            # The engine encrypts no temporary file, so there is none (ADR 33). What is freed is
            # overwritten (S27). A file's own views call only what is innocuous.
            f"PRAGMA journal_size_limit={_JOURNAL_BYTES_MAX}; PRAGMA cache_size=-{_CACHE_KIB};"
            "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA secure_delete=ON;"
            "PRAGMA cell_size_check=ON"
        ).fetchall()  # apsw stops at the first row, and the first of these returns one
        if not self.schema_version():
            # Synced: the key beside the file is made after the schema. Were the power to take the
            # schema and leave the key, the file would be refused as the remains of a database.
            with self.transaction(is_synced=True):
                # Asked again under the lock: another process may have been here.
                if not self.schema_version():
                    connection.execute(_SCHEMA.read_text("utf-8"))
                    connection.execute("INSERT INTO meta (name, value) VALUES ('synced', 0)")
                    # On the file's first page, so in the transaction: a kill leaves it with its
                    # schema.
                    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
                    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")

    def schema_version(self) -> int:
        """Return the version of the file's schema and of its heads, 0 for a file without one."""
        return int(self.connection.pragma("user_version"))

    def _refuse_unknown(self) -> None:
        """Refuse a newer or foreign database before anything of it is touched."""
        version = self.schema_version()
        is_foreign = self.connection.pragma("application_id") != APPLICATION_ID and (
            version != 0
            or self.connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        )
        # Asked again: another process may have made the schema between the two questions.
        if is_foreign and self.connection.pragma("application_id") != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is a database of another program",
                hint=f"name another file. If ours was here: {CURE_OF_DAMAGE}",
            )
        key = remains(self.path, [KEY_SUFFIX]) if version == 0 else []
        if key and self.schema_version() == 0:  # asked again: as above
            raise not_new(self.path, "holds nothing", key)
        if version > SCHEMA_VERSION:
            raise self._newer(version)
        if 0 < version < LOG_VERSION:
            raise StoreError(
                f"{self.path} is of an older version (schema {version}, this version reads"
                f" {SCHEMA_VERSION}); the file was left as it is",
                hint="convert it: python tools/convert_database.py OLD NEW, in upthread's source",
            )

    def _switch_to_wal(self) -> None:
        """Switch once and for all. SQLite does not wait for its lock here, so we do."""
        for tries in count():
            try:
                mode = self.connection.pragma("journal_mode", "wal")
            except apsw.BusyError:
                if not self._waits_again(tries):
                    raise
                continue
            if mode != "wal":
                raise StoreError(
                    f"{self.path} cannot have a write-ahead log here (mode {mode})",
                    hint="name a place on a local disk",
                )
            return


def end(rows: Cursor) -> None:
    """End a statement of which not all rows were read.

    A cursor that is let go does not always end its statement: apsw 3.54 keeps each cursor that was
    open while another statement was executed, for example by a heartbeat's thread. The read
    transaction then stays open. Once another process has committed, this connection cannot write.
    """
    rows.execute("")  # not by `close`, after which apsw 3.54 never frees the cursor


def _sha256(said: str | bytes) -> bytes:
    # Damage can be a blob where a text was.
    return sha256(said if isinstance(said, bytes) else said.encode()).digest()
