"""One connection: how it is opened, kept, opened again when it is lost, and how errors are worded.

Theory of operation. One connection a store, one call at a time: most of a call is waiting for the
server's disk, and connections are what a PostgreSQL has fewest of. A commit is one exchange, sent
whole with its end, so that nobody who is stopped holds a lock. What lost a race (a deadlock) is
done again. What lost its connection is done again, too, where doing it twice is doing it once.

A connection says which project it acts for, and the database keeps it to that (schema.sql). It is
a setting of the session; behind a pooler, where a session is whoever's turn it is, it is said in
each transaction instead, which is one exchange all the same.

Every commit is synced. With `synchronous_commit=off` the death of the server's processes takes what
it had acknowledged a moment before, which S5 does not allow; so it is never off here, whatever the
server's default.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo, errors, pq
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper

from upthread.errors import StoreError, StoreUnreachableError

Connection: TypeAlias = "psycopg.Connection[TupleRow]"
Result = TypeVar("Result")
Statements: TypeAlias = "tuple[tuple[bytes, tuple[bytes, ...]], ...]"

SERVER_MIN: Final = 15
"""Older servers cannot have unique keys in which NULL equals NULL."""

RECONNECT_S: Final = 20.0
"""How long a call tries to get back a connection that was lost.

For as long again the next calls try once: whoever stops makes several, and would wait for each.
"""

_PAUSE_S: Final = 0.2

ALL_PROJECTS: Final = "*"
"""What a connection acts for that moves a record, migrates, or looks after everybody's jobs."""

ACT_FOR: Final = b"SELECT set_config('upthread.project', $1, $2)"
_ACT_FOR_NOW: Final = b"SELECT set_config('upthread.project', convert_from($1, 'UTF8'), true)"

_SYNC_COMMITS: Final = b"""
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""

_SESSION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lock_timeout": "30s",
        # Else a writer that is stopped, or cut off, within a transaction would hold up the others.
        "idle_in_transaction_session_timeout": "5s",
        # Else the server would wait two hours for a host that was switched off, and keep its locks.
        "tcp_keepalives_idle": "3s",
        "tcp_keepalives_interval": "2s",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "10s",
    }
)
_ISOLATION: Final = "read committed"
"""What waited for a lock has to see what the other one wrote, whatever the database's default."""
_TRANSACTION_TIMEOUT: Final = "60s"
"""For whoever is stopped while it sends more than leaves at once."""

_TRANSACTION_TIMEOUT_SINCE: Final = 170_000

_CONNECTION: Final[Mapping[str, str | int]] = MappingProxyType(
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

PREPARED_OPTION: Final = "prepared"
"""`?prepared=no` in an address: for a pgbouncer that does not know prepared statements."""

_ADDRESS_HINT: Final = (
    "give postgres://USER@HOST/DATABASE; in a password, `@`, `/`, `?`, `#` and `%` are written "
    "%40, %2F, %3F, %23 and %25"
)
_PORTS: Final = re.compile(r"[0-9]*(?:,[0-9]*)*")
_SECRET: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")

_LOST_RACE: Final = (errors.UniqueViolation, errors.DeadlockDetected)

_CURES: Final[Mapping[str, str]] = MappingProxyType(
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


class Server:
    """A connection that is open and of a server we can use. Any thread, one call at a time.

    `address` is a libpq URL or connection string. StoreError when it cannot be opened. `wait_s` is
    how long the server and other writers are waited for, None: as long as usual.
    """

    def __init__(self, address: str, *, wait_s: float | None = None) -> None:
        self.address = address
        self._wait_s = wait_s
        self._parameters, self.prepares = parameters_of(address)
        if wait_s is not None:
            # libpq takes whole seconds, and less than two it takes for two.
            self._parameters["connect_timeout"] = max(2, int(wait_s))
        self.name = _shown(self._parameters)
        self._is_closed = False
        self._patient_from_s = 0.0
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._project = ALL_PROJECTS
        self.is_pooled = False
        """Whether what is set on the connection may be another's in the next transaction."""
        with self._lock, self._worded("open"):
            self._connection = self._connect()

    def act_for(self, project_id: bytes) -> None:
        """Act for one project from now on: the database has no row of any other."""
        with self._lock, self._worded("open"):
            # A setting is text in the server's encoding, and an id may be any bytes: so in digits,
            # as BYTEA is read (schema.sql).
            self._project = f"x{project_id.hex()}"
            if self._connection is not None and not self._connection.closed:
                self._say_project(self._connection)

    @property
    def said_in_transaction(self) -> Statements:
        """What a transaction begins with where the session cannot tell which project it is for."""
        return ((_ACT_FOR_NOW, (self._project.encode(),)),) if self.is_pooled else ()

    def run(
        self, doing: str, work: Callable[[Connection], Result], *, is_repeatable: bool = True
    ) -> Result:
        """Return what `work` returns; again after a lost race.

        Repeatable work is done again after a lost connection, too: a read, or a write that sees
        that it was done. StoreError in our words; other errors of `work` pass as they are.
        """
        with self._lock:
            try:
                return work(self._open_connection())
            except psycopg.Error as error:
                first = error
            # Only now: a read is so short that words for its errors would be a tenth of it.
            with self._worded(doing):
                return self._run_again(work, first, is_repeatable=is_repeatable)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock, self._worded("close"):
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
            if not (is_race or (is_repeatable and self._is_lost(error))):
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
        if self._connection is None or self._connection.closed:
            self._connection = None
            self._connection = self._connect()
            self._patient_from_s = 0.0
        return self._connection

    def _is_lost(self, error: psycopg.Error) -> bool:
        """Return whether there is no connection any more; False for an error of a living one."""
        if self._connection is None:  # it could not be opened again
            return isinstance(error, psycopg.OperationalError)
        if self._connection.closed:
            self._connection = None
        return self._connection is None

    def _connect(self) -> Connection:
        # Typed for the statements of the type checker's day; ours are bytes, with $1 for values.
        connection: Connection = psycopg.connect(
            autocommit=True,
            prepare_threshold=None,  # what is asked often is prepared in at_once.py
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
        for name, value in settings.items():
            connection.execute(b"SELECT set_config($1, $2, false)", (name, value))
        # Only where it is off: a server may be set to wait for more than its own disk.
        connection.execute(_SYNC_COMMITS)
        self.is_pooled = _is_pooled(connection)
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


def _is_pooled(connection: Connection) -> bool:
    """Return whether a pooler is between: then who answers is not who was connected to."""
    row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


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


_ENDS: Final = ("FATAL", "PANIC")


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
    return {**_CONNECTION, **given}, f"{PREPARED_OPTION}=no" not in ours


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
