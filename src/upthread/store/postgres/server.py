"""One connection: how it is opened, kept, opened again when it is lost, and how errors are worded.

Theory of operation. One connection a store, one call at a time: most of a call is waiting for the
server's disk, and connections are what a PostgreSQL has fewest of. A commit is one exchange, sent
whole with its end, so that nobody who is stopped holds a lock. What lost a race (a deadlock) is
done again. What lost its connection is done again, too, where doing it twice is doing it once.
A server that became read-only is no primary any more, for example after a failover: its connection
is dropped, because the address may lead to another server by now.

A connection says which project it acts for, and the database keeps it to that (schema.sql). It is
a setting of the session; behind a pooler, where a session is whoever's turn it is, it is said in
each transaction instead, which is one exchange all the same.

Every commit is synced. With `synchronous_commit=off` the death of the server's processes takes what
it had acknowledged a moment before, which S5 does not allow; so it is never off here, whatever the
server's default.

psycopg's own pipeline sends each statement when it is given. A process that is stopped between two
of them leaves a server that waits for the next: it takes the connection for busy, not for idle, and
lets it keep its locks. So all are put into libpq's buffer, and the end of the exchange behind them,
before it is flushed. What is over 8 kB leaves in pieces, as fast as the socket takes them. A single
statement is prepared once on a connection. All goes through `psycopg.pq`, because psycopg's cursor
takes more processor time for a short statement than the server takes to answer it; what comes back
is read by psycopg's own loaders.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import count
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import psycopg
from psycopg import conninfo, errors, generators, pq
from psycopg.adapt import Transformer
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper

from upthread.boundary.forked import Forkable
from upthread.errors import StoreError, StoreUnreachableError
from upthread.store.log import Row

Connection: TypeAlias = "psycopg.Connection[TupleRow]"
Result = TypeVar("Result")

SERVER_MIN = 15
"""Older servers cannot have unique keys in which NULL equals NULL."""

RECONNECT_S = 20.0
"""How long a call tries to get back a connection that was lost.

For as long again the next calls try once: whoever stops makes several, and would wait for each.
"""

_PAUSE_S = 0.2

ALL_PROJECTS = "*"
"""What a connection acts for that moves a record, migrates, or looks after everybody's jobs."""

ACT_FOR = b"SELECT set_config('upthread.project', $1, $2)"
_ACT_FOR_NOW = b"SELECT set_config('upthread.project', convert_from($1, 'UTF8'), true)"

_SYNC_COMMITS = b"""
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""

_SESSION: Mapping[str, str] = MappingProxyType(
    {
        "lock_timeout": "30s",
        # Else a writer that is stopped, or cut off, within a transaction would hold up the others.
        "idle_in_transaction_session_timeout": "5s",
        # Else the server would wait two hours for a host that was switched off, and keep its locks.
        "tcp_keepalives_idle": "3s",
        "tcp_keepalives_interval": "2s",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "10s",
        # Otherwise a backslash in a statement's text would be an escape.
        "standard_conforming_strings": "on",
    }
)
_SET_ALL = b"SELECT set_config(n, v, false) FROM unnest($1::text[], $2::text[]) AS s (n, v)"
_ISOLATION = "read committed"
"""What waited for a lock has to see what the other one wrote, whatever the database's default."""
_TRANSACTION_TIMEOUT = "60s"
"""For whoever is stopped while it sends more than leaves at once."""

_TRANSACTION_TIMEOUT_SINCE = 170_000

_CONNECTION: Mapping[str, str | int] = MappingProxyType(
    {
        "connect_timeout": 10,
        "application_name": "upthread",
        # A server that fell silent is noticed after about ten seconds.
        "keepalives_idle": 3,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
)

PREPARED_OPTION = "prepared"
"""`?prepared=no` in an address: for a pgbouncer that does not know prepared statements."""

_ADDRESS_HINT = (
    "give postgres://USER@HOST/DATABASE; in a password, `@`, `/`, `?`, `#` and `%` are written "
    "%40, %2F, %3F, %23 and %25"
)
_PORTS = re.compile(r"[0-9]*(?:,[0-9]*)*")
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")

_LOST_RACE = (errors.UniqueViolation, errors.DeadlockDetected)

_READ_ONLY = (b"in_hot_standby", b"default_transaction_read_only")
"""A server reports a change of these two with its next answer."""

_READ_ONLY_KEPT_S = 1.0
"""How long a connection to a read-only server is used. Each new connection takes milliseconds."""

_CURES: Mapping[str, str] = MappingProxyType(
    {
        "08": "check that the server runs and can be reached, then do it again",
        "25006": "the server takes no writes now: name the primary, or wait for it",
        "28": "check the user and password in the address",
        "3D": "make the database first, or name another",
        "42501": "grant the role what docs/operations.md lists",
        "42P01": "run `upthread migrate` with the same address",
        "3F": "run `upthread migrate` with the same address",
        "53100": "free some space on the server's disk, then do it again",
        "53300": "the server has no connection left: end some, or raise max_connections",
        "54": "one value is over PostgreSQL's limit of 1 GB: split it",
        "55P03": "another writer holds the row: let it finish or end it",
        "XX001": "`upthread doctor` says what is damaged; put a backup of the server in its place",
        "57P": "check that the server runs and can be reached, then do it again",
    }
)


class Server(Forkable):
    """A connection that is open and of a server we can use. Any thread, one call at a time.

    `address` is a libpq URL or connection string. StoreError when it cannot be opened. `wait_s` is
    how long the server and other writers are waited for, None: as long as usual.
    """

    def __init__(self, address: str, *, wait_s: float | None = None) -> None:
        super().__init__()
        self.address = address
        self._wait_s = wait_s
        self._parameters, self.prepares = parameters_of(address)
        if wait_s is not None:
            # libpq takes whole seconds, and less than two it takes for two.
            self._parameters["connect_timeout"] = max(2, int(wait_s))
        self.name = _shown(self._parameters)
        self._is_closed = False
        self._patient_from_s = 0.0
        self._connection: Connection | None = None
        self._opened_s = 0.0
        self._project = ALL_PROJECTS
        self.is_pooled = False
        """Whether what is set on the connection may be another's in the next transaction."""
        with self.lock, self._worded("open"):
            self._open_connection()

    def act_for(self, project_id: bytes) -> None:
        """Act for one project from now on: the database has no row of any other."""
        with self.lock, self._worded("open"):
            # A setting is text in the server's encoding, and an id may be any bytes: so in digits,
            # as BYTEA is read (schema.sql).
            self._project = f"x{project_id.hex()}"
            if self._connection is not None and not self._connection.closed:
                self._say_project(self._connection)

    @property
    def said_in_transaction(self) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
        """What a transaction begins with where the session cannot tell which project it is for."""
        return ((_ACT_FOR_NOW, (self._project.encode(),)),) if self.is_pooled else ()

    def run(
        self, doing: str, work: Callable[[Connection], Result], *, is_repeatable: bool = True
    ) -> Result:
        """Return what `work` returns; again after a lost race, or where the server takes no writes.

        Repeatable work is done again after a lost connection, too: a read, or a write that sees
        that it was done. StoreError in our words; other errors of `work` pass as they are.
        """
        with self.lock:
            try:
                return work(self._open_connection())
            except psycopg.Error as error:
                first = error
            # Only now: a read is so short that words for its errors would be a tenth of it.
            with self._worded(doing):
                return self._run_again(work, first, is_repeatable=is_repeatable)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self.lock, self._worded("close"):
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()

    def _run_again(
        self, work: Callable[[Connection], Result], error: psycopg.Error, *, is_repeatable: bool
    ) -> Result:
        """Do work again that failed with `error`, until its race is won or its connection back."""
        began_s = time.monotonic()
        is_patient = self._wait_s is None and began_s >= self._patient_from_s
        while True:
            is_race = isinstance(error, _LOST_RACE)
            if not (is_race or self._is_undone(error) or (is_repeatable and self._is_lost())):
                raise error
            if time.monotonic() > began_s + (RECONNECT_S if is_race or is_patient else 0.0):
                if not is_race:
                    self._patient_from_s = time.monotonic() + RECONNECT_S
                raise error
            if not is_race:
                time.sleep(_PAUSE_S)
            try:
                return work(self._open_connection())
            except psycopg.Error as again:
                error = again

    def _open_connection(self) -> Connection:
        if self._is_closed:
            raise StoreError(f"the store on {self.name} was closed", hint="open it again")
        connection = self._connection
        if connection is None or connection.closed or self._is_of_no_primary(connection):
            self._connection = None
            self._connection = connection = self._connect()
            self._opened_s = time.monotonic()
            self._patient_from_s = 0.0
        return connection

    def _is_of_no_primary(self, connection: Connection) -> bool:
        """Close a connection that has been of a read-only server for a while; return whether."""
        is_read_only = b"on" in map(connection.pgconn.parameter_status, _READ_ONLY)
        # Otherwise reads would see for ever what was there before a failover.
        if is_read_only and time.monotonic() > self._opened_s + _READ_ONLY_KEPT_S:
            connection.close()
        return connection.closed

    def _is_undone(self, error: psycopg.Error) -> bool:
        """Return whether work did nothing: no connection could be opened, or to no primary."""
        if self._connection is None:
            return isinstance(error, psycopg.OperationalError)
        is_refused = isinstance(error, errors.ReadOnlySqlTransaction)
        if is_refused:
            self._connection.close()
        return is_refused

    def _is_lost(self) -> bool:
        """Return whether there is no connection any more; False after an error of a living one."""
        return self._connection is not None and self._connection.closed

    def after_fork(self, *, is_idle: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            # Before the connection is closed, which would end the parent's session.
            os.close(connection.fileno())
            if is_idle:
                connection.close()

    def _connect(self) -> Connection:
        # Typed for the statements of the type checker's day; ours are bytes, with $1 for values.
        connection: Connection = psycopg.connect(
            autocommit=True,
            prepare_threshold=None,  # what is asked often is prepared below (`Prepared`)
            cursor_factory=psycopg.RawCursor,
            **self._parameters,
        )
        try:
            # One type for every number, whatever its size.
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            self._prepare_session(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_session(self, connection: Connection) -> None:
        if connection.info.server_version < SERVER_MIN * 10_000:
            raise StoreError(
                f"{self.name} is PostgreSQL {connection.info.server_version // 10_000}",
                hint=f"at least {SERVER_MIN} is needed",
            )
        settings = dict(_SESSION)
        if self._wait_s is not None:
            settings["lock_timeout"] = f"{self._wait_s:g}s"
            settings["statement_timeout"] = f"{self._wait_s:g}s"
        if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
            settings["transaction_timeout"] = _TRANSACTION_TIMEOUT
        settings["default_transaction_isolation"] = _ISOLATION
        connection.execute(_SET_ALL, (list(settings), list(settings.values())))
        # Only where it is off: a server may be set to wait for more than its own disk.
        connection.execute(_SYNC_COMMITS)
        # With a pooler between, who answers is not who was connected to.
        row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
        self.is_pooled = row != (connection.info.backend_pid,)
        self._say_project(connection)

    def _say_project(self, connection: Connection) -> None:
        if not self.is_pooled:
            connection.execute(ACT_FOR, (self._project, False))

    @contextlib.contextmanager
    def _worded(self, doing: str) -> Generator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except psycopg.Error as error:
            kind = StoreUnreachableError if doing == "open" else StoreError
            raise kind(
                f"could not {doing} the database {self.name}: "
                f"{_in_one_line(error, self._parameters)}",
                hint=_cure_of(error),
            ) from error


def lift_time_limit(connection: Connection) -> None:
    """Lift the limit on the time of the open transaction, where a server has one (from 17)."""
    if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
        connection.execute(b"SET LOCAL transaction_timeout = 0")


def error_of(connection: Connection, result: pq.abc.PGresult) -> psycopg.Error:
    """Return the error a result is, and close the connection if it says that this has ended."""
    error = errors.error_from_result(result, connection.info.encoding)
    # Without a code it is libpq that speaks: it may take until the next call to see what it says
    # itself, that there is no connection any more.
    if error.sqlstate is None or error.diag.severity_nonlocalized in _ENDS:
        connection.close()
    return error


_ENDS = ("FATAL", "PANIC")


def parameters_of(address: str) -> tuple[dict[str, Any], bool]:
    """Return what to connect with, and whether statements are prepared."""
    head, _, query = address.partition("?")
    options = [each for each in query.split("&") if each]
    ours = [each for each in options if each.partition("=")[0] == PREPARED_OPTION]
    theirs = "&".join(each for each in options if each not in ours)
    try:
        given = conninfo.conninfo_to_dict(f"{head}?{theirs}" if theirs else head)
    except psycopg.ProgrammingError:
        given = {}
    if not given or _is_misread(given):
        # Why is not said: libpq says it by quoting a piece, which may be of the password.
        raise StoreError("the address of the database cannot be read", hint=_ADDRESS_HINT)
    # Text would otherwise be in the encoding of the database, or of PGCLIENTENCODING.
    parameters = {**_CONNECTION, **given, "client_encoding": "UTF8"}
    return parameters, f"{PREPARED_OPTION}=no" not in ours


def _is_misread(given: Mapping[str, Any]) -> bool:
    """Return whether a piece of a password may stand where it would be shown.

    So it is read where the password has an `@`, a `/` or a `?` that is not written as `%40`, …
    """
    ports = str(given.get("port", ""))
    shown = (str(given.get(name, "")) for name in ("host", "hostaddr", "dbname"))
    return not _PORTS.fullmatch(ports) or any("@" in each for each in shown)


def shown_address(address: str) -> str:
    """Return an address as it can be shown: without its password. Raises as `parameters_of`."""
    return _shown(parameters_of(address)[0])


def _shown(parameters: Mapping[str, Any]) -> str:
    user, host = parameters.get("user"), parameters.get("host", "")
    at = f"{user}@" if user else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgres://{at}{host}{port}/{parameters.get('dbname', '')}"


def _in_one_line(error: psycopg.Error, parameters: Mapping[str, Any]) -> str:
    """Return what is wrong, without a password: libpq quotes values it cannot use."""
    # Of a damaged row the server also says which functions found it.
    is_damage = isinstance(error, errors.DataCorrupted)
    said = " ".join(((is_damage and error.diag.message_primary) or str(error)).split())
    for name in _SECRET:
        if secret := str(parameters.get(name) or ""):
            said = said.replace(secret, "…")
    return said


def _cure_of(error: psycopg.Error) -> str:
    # Without a state the server was never reached: 08, the connection.
    state = error.sqlstate or "08"
    return next((cure for prefix, cure in _CURES.items() if state.startswith(prefix)), "")


class Array(NamedTuple):
    """Values of one type as one value, as the wire has it."""

    oid: int
    raw: bytes


Column: TypeAlias = int | bytes | Array | None
"""A value: BIGINT, BYTEA, an array, or NULL."""

Statement: TypeAlias = tuple[bytes, Sequence[Column]]
"""With its values, $1 first."""

BINARY = 1
_BEGIN: Statement = (b"BEGIN ISOLATION LEVEL READ COMMITTED", ())
_COMMIT: Statement = (b"COMMIT", ())

_BYTEA, _BIGINT, _TEXT = 17, 20, 25
_ARRAYS = {_BYTEA: 1001, _BIGINT: 1016, _TEXT: 1009}
_NUMBER = Struct(">q").pack
_LENGTH = Struct(">i").pack
# One dimension, perhaps with NULL; the type of the members; how many, and the number of the first.
_HEAD = Struct(">iiiii").pack
_NULL = _LENGTH(-1)
_EMPTY = {oid: Array(array, _HEAD(0, 0, oid, 0, 0)[:12]) for oid, array in _ARRAYS.items()}


def wired(value: Column) -> tuple[bytes | None, int]:
    """Return a value as the wire has it, and its type; 0: whatever the server finds NULL to be."""
    if type(value) is Array:  # most are, and each commit has a dozen
        return value.raw, value.oid
    if isinstance(value, bytes):
        return value, _BYTEA
    return (None, 0) if value is None else (_NUMBER(cast("int", value)), _BIGINT)


def numbers(values: Sequence[int | None]) -> Array:
    """Return BIGINT[]."""
    return _array(_BIGINT, [None if each is None else _NUMBER(each) for each in values])


def blobs(values: Sequence[bytes | None]) -> Array:
    """Return BYTEA[]."""
    return _array(_BYTEA, values)


def texts(values: Sequence[str]) -> Array:
    """Return TEXT[], of words of ours."""
    return _array(_TEXT, [each.encode() for each in values])


def _array(oid: int, values: Sequence[bytes | None]) -> Array:
    if not values:
        return _EMPTY[oid]
    members = [_NULL if each is None else _LENGTH(len(each)) + each for each in values]
    return Array(_ARRAYS[oid], b"".join((_HEAD(1, 1, oid, len(values), 1), *members)))


def at_once(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Execute statements in order and return the rows of each, none where there can be none.

    Raises psycopg's error of the first that fails; those after it were not executed. An exchange
    that comes to no end closes the connection: nobody could tell whose the next answer on it is.
    Not for use within a pipeline of psycopg's.
    """
    try:
        results = _exchanged(connection, statements)
    except BaseException:
        connection.close()
        raise
    # Only now: all answers have been taken, so that the connection can be used after an error.
    for result in results:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise error_of(connection, result)
    return [rows_of(connection, result) for result in results]


def in_transaction(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Return the rows of statements that are one transaction, sent at once."""
    try:
        return at_once(connection, (_BEGIN, *statements, _COMMIT))[1:-1]
    except BaseException:
        # After an error the server passes over the rest of the exchange, the COMMIT with it.
        if not connection.closed:
            connection.execute(b"ROLLBACK")
        raise


def _exchanged(connection: Connection, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for statement, values in statements:
        given = list(map(wired, values))
        raw = cast("list[bytes]", [each for each, _ in given])  # psycopg's types know no NULL
        formats = [BINARY] * len(raw)
        pgconn.send_query_params(statement, raw, [oid for _, oid in given], formats, BINARY)
    # The end of the exchange goes into the buffer, too, before any of it is sent.
    pgconn.pipeline_sync()
    # No public interface of psycopg's: looked at in 3.2.4, the oldest we allow, and in 3.3.9. It
    # also reads what comes back, else both sides could wait with full buffers.
    connection.wait(generators.send(pgconn))
    results = [connection.wait(generators.fetch_many(pgconn))[0] for _ in statements]
    connection.wait(generators.fetch_many(pgconn))  # the sync's own
    pgconn.exit_pipeline_mode()
    return results


def rows_of(connection: Connection, result: pq.abc.PGresult) -> list[Row]:
    """Return a result's rows, none where it has none."""
    if result.status != pq.ExecStatus.TUPLES_OK:
        return []
    loader = Transformer(connection)
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, tuple)


# --- statements that are prepared ----------------------------------------------------------------

_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Prepared:
    """The statements of one connection, all of them constants. Not for use within a pipeline."""

    def __init__(
        self, connection: Connection, *, is_allowed: bool, before: Sequence[Statement] = ()
    ) -> None:
        self.connection = connection
        self._before = before
        """What each statement's own transaction begins with. With it, none is prepared."""
        self._prepares = is_allowed and not before
        self._known: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = count()  # no name a second time: one we forgot may still be there

    def rows(self, statement: bytes, values: Sequence[Column]) -> list[Row]:
        """Return a statement's rows; it is sent whole, with its end. Raises psycopg's errors."""
        if self._before:
            return in_transaction(self.connection, [*self._before, (statement, values)])[-1]
        given = list(map(wired, values))
        raw = [each for each, _ in given]
        types = tuple([oid for _, oid in given])
        name = self._known.get((statement, types))
        if name is None:
            if not self._prepares:
                return at_once(self.connection, [(statement, values)])[0]
            name = self._prepare(statement, types)
        try:
            result = self._execute(name, raw)
        except errors.InvalidSqlStatementName:
            # The server refused it before it did anything, so it can be done again: psycopg
            # deallocates all there is after a ROLLBACK.
            self._known.clear()
            result = self._execute(self._prepare(statement, types), raw)
        return rows_of(self.connection, result)

    def transaction(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Return the rows of statements that are one transaction, sent at once."""
        found = in_transaction(self.connection, [*self._before, *statements])
        return found[len(self._before) :]

    def _prepare(self, statement: bytes, types: tuple[int, ...]) -> bytes:
        name = b"upthread_%d" % next(self._numbers)
        self._checked(self.connection.pgconn.prepare(name, statement, list(types)))
        self._known[statement, types] = name
        return name

    def _execute(self, name: bytes, values: Sequence[bytes | None]) -> pq.abc.PGresult:
        # psycopg's types do not tell that None is NULL.
        given = cast("list[bytes]", list(values))
        pgconn = self.connection.pgconn
        return self._checked(pgconn.exec_prepared(name, given, [BINARY] * len(given), BINARY))

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _DONE:
            return result
        raise error_of(self.connection, result)
