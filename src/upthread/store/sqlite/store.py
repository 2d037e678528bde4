"""The store port on one SQLite file; decides nothing."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

import apsw

from upthread.core.types import ConversationId, Fence, ProjectId
from upthread.store.drafting import Change
from upthread.store.log import (
    FORGET,
    NO_LEASES,
    RAW_HEADS,
    RELEASE,
    TAKE,
    LogStore,
    Row,
    StreamMovedError,
    Terms,
    lost_lease,
    taken_lease,
)
from upthread.store.sqlite.database import (
    ENGINE_ERRORS,
    Connection,
    Database,
    damaged_file,
    end,
    faults_in,
    to_column,
)
from upthread.store.streams import SCHEMA_VERSION, encoded, refolded

BUSY_TIMEOUT_S = 30.0
"""How long a call waits for another process's transaction."""

_WORDS = {"at": "", "bytes": "BLOB", "key": "name", "text": "$1"}

_OPEN = (
    "INSERT INTO head (kind, name, project, last, hash, state, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_MOVE = (
    "UPDATE head SET last = ?, hash = ?, state = ?, seal = ? WHERE id = ? AND last = ? AND hash = ?"
)
_ADD = (
    "INSERT INTO entry (stream, seq, kind, at_ms, kept, hash, digest, said)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_TAG = "INSERT INTO tag (tag, nth, stream, seq) VALUES (?, ?, ?, ?)"
# A stream may come by a tag of its own again: the newest entry is the one that is tagged.
_TAG_AGAIN = f"{_TAG} ON CONFLICT (tag, nth) DO UPDATE SET seq = excluded.seq"
_IS_HELD = "SELECT 1 FROM lease WHERE name = $1 AND token = $2 AND holder IS NOT NULL"
# All was there already, perhaps not yet on the disk: SQLite syncs nothing for a transaction that
# writes nothing.
_TOUCH = "UPDATE meta SET value = value + 1 WHERE name = 'synced'"

_REFOLD = "UPDATE head SET state = ?, seal = ? WHERE id = ?"


class SqliteStore(LogStore):
    """A store in one file, made if there is none. Usable from any thread, one call at a time.

    The file is 0600 in a directory of yours; StoreError when it is not, when it was written by a
    newer version, or when it lies on a network file system. `vfs` names a registered SQLite VFS.
    `key`, 32 bytes, is what the file is encrypted with, None: it is not.
    """

    index = " INDEXED BY {}"

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        vfs: str | None = None,
        key: bytes | None = None,
    ) -> None:
        super().__init__()
        self.database = Database(path, busy_timeout_s=busy_timeout_s, vfs=vfs, key=key)
        self._held: set[Fence] = set()
        """Leases that are held, while no other connection has committed."""
        self._sound_at: tuple[Connection, int, int] | None = None
        try:
            if self.database.schema_version() < SCHEMA_VERSION:
                self._fold_again()
        except BaseException:
            self.close()
            raise

    def _fold_again(self) -> None:
        """Make every head of its entries anew: what heads hold is another version's."""
        with self.database.transaction(is_synced=True) as connection:
            # Asked again: another process may have been here.
            if self.database.schema_version() < SCHEMA_VERSION:
                for row, *names, _, _, _, _ in self.read(RAW_HEADS):
                    state, seal = refolded(self.all_entries(row), *names)
                    connection.execute(_REFOLD, (state.decode(), seal, row))
                connection.pragma("user_version", str(SCHEMA_VERSION))

    def act_for(self, project_id: ProjectId) -> None:
        """Change nothing: this is one person's, whose projects are kept apart by ProjectStore."""

    # --- statements -------------------------------------------------------------------------------

    def read(self, statement: str, *values: Any) -> list[Row]:
        with self.database.lock:
            try:
                # All of it: see `end`.
                return self.database.connection.execute(_said(statement), values).fetchall()
            except ENGINE_ERRORS as error:
                raise self.database.store_error(error, "read") from error

    def read_each(self, statement: str, *values: Any) -> Iterator[Row]:
        with self.database.worded("read"):
            rows = self.database.connection.execute(_said(statement), values)
            try:
                # Chained: a generator that is closed would close the cursor, too. See `end`.
                yield from chain(cast("Iterator[Row]", rows))
            finally:
                # Else an error that somebody keeps would keep the read transaction open, too.
                end(rows)

    def write(self, statement: str, *values: Any, is_repeatable: bool = True) -> list[Row]:
        del is_repeatable  # no connection is ever lost
        self._held.clear()
        with self.database.transaction(is_synced=False) as connection:
            return connection.execute(_said(statement), values).fetchall()

    def column(self, name: str) -> str | bytes:
        return to_column(name)

    lease_key = column

    def among(self, seqs: Sequence[int]) -> tuple[str, Row]:
        places = ", ".join(f"${number}" for number in range(2, len(seqs) + 2))
        return f"seq IN ({places})", tuple(seqs)

    # --- proof ------------------------------------------------------------------------------------

    def verify(self, conversation_id: ConversationId) -> int | None:
        found = super().verify(conversation_id)
        if found is None:  # The message says more than the file does.
            self._must_be_sound()
        return found

    def _must_be_sound(self) -> None:
        """Raise StoreError where the engine finds damage in the file: a row may be found by none.

        Looked at again only where something was written since.
        """
        with self.database.lock, self.database.worded("verify"):
            connection = self.database.connection
            # The first number moves when another connection commits, the second when this one does.
            state = (connection, connection.pragma("data_version"), connection.total_changes())
            if state != self._sound_at:
                # One fault is enough; doctor tells them all.
                for told in faults_in(connection, faults_max=1):
                    raise damaged_file(self.database.path, told)
                self._sound_at = state

    # --- writes -----------------------------------------------------------------------------------

    def append(
        self, changes: Sequence[Change], leases: Terms = NO_LEASES, *, is_synced: bool = True
    ) -> Sequence[int]:
        fences, take, give = leases
        with self.database.transaction(is_synced=is_synced) as connection:
            # Under the write lock: from here to the commit nobody can take a lease over (S4).
            if not self.database.is_as_left:
                self._held.clear()
            for fence in fences:
                if fence in self._held:
                    continue
                # No cursor is kept while another statement is executed: apsw 3.54 never frees it.
                if not connection.execute(_IS_HELD, self.fence_columns(fence)).fetchall():
                    raise lost_lease(fence)
                self._held.add(fence)
            for claim in take:
                if not connection.execute(_said(TAKE), self.claim_columns(claim)).fetchall():
                    raise taken_lease(claim.name)
            rows = [_apply(connection, change) for change in changes]
            for fence in give:
                self._held.discard(fence)
                if not connection.execute(_said(RELEASE), self.fence_columns(fence)).fetchall():
                    raise lost_lease(fence)
            if is_synced and not (changes or take or give):
                connection.execute(_TOUCH)
        return rows

    def scrub(self) -> None:
        self.database.scrub()

    def close(self) -> None:
        self.database.close()


@lru_cache(maxsize=200)
def _said(statement: str) -> str:
    """Return a statement of every backend's as SQLite has it."""
    return statement.format(**_WORDS)


def _apply(connection: Connection, change: Change) -> int:
    """Append to one stream and return its row."""
    head = change.head
    row = head.row
    if change.entries:
        state, seal = encoded(head)
        if row:
            moved = (head.last, head.hash, state.decode(), seal, row, change.last, change.hash)
            connection.execute(_MOVE, moved)
            if not connection.changes():
                raise StreamMovedError(head.name)
        else:
            opened = (head.kind, to_column(head.name), to_column(head.project_id))
            ((row,),) = connection.execute(
                _OPEN, (*opened, head.last, head.hash, state.decode(), seal)
            ).fetchall()
        connection.executemany(
            _ADD,
            [
                (row, seq, kind, at_ms, _text(kept), hashed, digest, said and _text(said))
                for seq, kind, at_ms, kept, said, digest, hashed, _ in change.entries
            ],
        )
        try:
            for text, nth, seq in change.tags:
                if nth is None:
                    connection.execute(_TAG_AGAIN, (text, row, row, seq))
                else:
                    connection.execute(_TAG, (text, nth, row, seq))
        except apsw.ConstraintError as error:  # somebody has the name
            raise StreamMovedError(head.name) from error
    for erasure in change.erasures:
        connection.execute(_said(FORGET), (row, *erasure))
    return row


def _text(document: str | bytes) -> str:
    return document.decode() if isinstance(document, bytes) else document
