"""The store port on one SQLite file; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, cast

import apsw

from upthread.core.codec import encode_plain_json
from upthread.core.types import (
    ConversationId,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    ProjectId,
)
from upthread.store._rules import conversation_leases, lease_of, lost_lease, taken_lease
from upthread.store.drafting import Change, Erasure
from upthread.store.entries import Entry, SpokenRow
from upthread.store.kinds import FREQUENT, SAID
from upthread.store.log import NO_LEASES, LogStore, StreamMovedError, Terms
from upthread.store.sqlite.database import ENGINE_ERRORS, Database, damaged_file, end, to_column
from upthread.store.sqlite.integrity import faults_in
from upthread.store.sqlite.presence import Connection, Row
from upthread.store.stream_reads import Found, Rows, Span, found_in
from upthread.store.streams import (
    SCHEMA_VERSION,
    Head,
    bare_head,
    encoded,
    head_of,
    refolded,
)
from upthread.store.tags import StreamKind

BUSY_TIMEOUT_S: Final = 30.0
"""How long a call waits for another process's transaction."""

_LAST: Final = 2**63 - 1

_HEAD: Final = "h.id, h.kind, h.name, h.project, h.last, h.hash, h.state, h.seal"
_FOUND: Final = (
    f"SELECT t.seq, t.nth, {_HEAD} FROM tag AS t LEFT JOIN head AS h ON h.id = t.stream"
    " WHERE t.tag = ? ORDER BY t.nth"
)
_NEWEST: Final = f"{_FOUND} DESC LIMIT 1"
_HEADS: Final = f"SELECT {_HEAD} FROM head AS h WHERE h.project = ? AND h.kind = ? ORDER BY h.id"
_ALL_HEADS: Final = f"SELECT {_HEAD} FROM head AS h WHERE h.kind = ? ORDER BY h.id"
_SPOKEN: Final = "seq, at_ms, kept, said"
# What proves an entry: the one before it. Messages are proved by `verify` (S33).
_ENTRY: Final = (
    "seq, kind, at_ms, kept, said, digest, hash,"
    " (SELECT b.hash FROM entry AS b WHERE b.stream = ?1 AND b.seq = e.seq - 1)"
)
_OPEN: Final = (
    "INSERT INTO head (kind, name, project, last, hash, state, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_MOVE: Final = (
    "UPDATE head SET last = ?, hash = ?, state = ?, seal = ? WHERE id = ? AND last = ? AND hash = ?"
)
_ADD: Final = (
    "INSERT INTO entry (stream, seq, kind, at_ms, kept, hash, digest, said)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_TAG: Final = "INSERT INTO tag (tag, nth, stream, seq) VALUES (?, ?, ?, ?)"
# A stream may come by a tag of its own again: the newest entry is the one that is tagged.
_TAG_AGAIN: Final = f"{_TAG} ON CONFLICT (tag, nth) DO UPDATE SET seq = excluded.seq"
_FORGET: Final = (
    "UPDATE entry SET digest = sha256(said), said = NULL"
    " WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3 AND said IS NOT NULL"
    " AND (?4 IS NULL OR at_ms < ?4)"
)
_LEASE: Final = "SELECT token, heartbeat, holder FROM lease WHERE name = ?"
_HELD_LEASES: Final = (
    "SELECT name, token, heartbeat, holder FROM lease"
    " WHERE name >= ? AND name < ? AND holder IS NOT NULL ORDER BY name"
)
_IS_HELD: Final = "SELECT 1 FROM lease WHERE name = ? AND token = ? AND holder IS NOT NULL"
_TAKE: Final = (
    "INSERT INTO lease (name, token, heartbeat, holder) VALUES (?1, 1, 1, ?2)"
    " ON CONFLICT (name) DO UPDATE SET"
    " token = token + 1, heartbeat = heartbeat + 1, holder = excluded.holder"
    " WHERE holder IS NULL OR (token = ?3 AND heartbeat = ?4) RETURNING token, heartbeat"
)
_BEAT: Final = (
    "UPDATE lease SET heartbeat = heartbeat + 1 WHERE name = ? AND token = ? AND holder IS NOT NULL"
)
_RELEASE: Final = "UPDATE lease SET holder = NULL WHERE name = ? AND token = ?"
# All was there already, perhaps not yet on the disk: SQLite syncs nothing for a transaction that
# writes nothing.
_TOUCH: Final = "UPDATE meta SET value = value + 1 WHERE name = 'synced'"

_META: Final = "SELECT value FROM meta WHERE name = 'restored'"
_RESTORED: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('restored', ?)"
# As bytes, because a damaged text cannot be read as text. Tags first and heads last: then a stream
# that is opened meanwhile is among the heads.
_ALL_TAGS: Final = "SELECT CAST(tag AS BLOB), nth, stream, seq FROM tag"
_ALL_STREAMS: Final = "SELECT DISTINCT stream FROM entry"
_RAW_HEADS: Final = (
    "SELECT id, CAST(kind AS BLOB), CAST(name AS BLOB), CAST(project AS BLOB), last, hash,"
    " CAST(state AS BLOB), seal FROM head ORDER BY id"
)
_REFOLD: Final = "UPDATE head SET state = ?, seal = ? WHERE id = ?"


class SqliteStore(LogStore):
    """A store in one file, made if there is none. Usable from any thread, one call at a time.

    The file is 0600 in a directory of yours; StoreError when it is not, when it was written by a
    newer version, or when it lies on a network file system. `vfs` names a registered SQLite VFS.
    `key`, 32 bytes, is what the file is encrypted with, None: it is not.
    """

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
        self._held: set[tuple[str, int]] = set()
        """Leases that are held, while no other connection has committed, and their tokens."""
        self._sound_at: tuple[int, int] | None = None
        try:
            for (restored_at_ms,) in self.database.rows(_META):
                self.restored_at_ms = restored_at_ms
            if self.database.schema_version() < SCHEMA_VERSION:
                self._fold_again()
        except BaseException:
            self.close()
            raise

    def mark_restored(self, at_ms: int) -> None:
        """Record that this file is a backup that takes the place of a database."""
        with self.database.transaction(is_synced=True) as connection:
            connection.execute(_RESTORED, (at_ms,))

    def _fold_again(self) -> None:
        """Make every head of its entries anew: what heads hold is another version's."""
        with self.database.transaction(is_synced=True) as connection:
            # Asked again: another process may have been here.
            if self.database.schema_version() < SCHEMA_VERSION:
                for row, *names, _, _, _, _ in connection.execute(_RAW_HEADS).fetchall():
                    head = bare_head(row, *names)
                    state, seal = encoded(refolded(head, self.all_entries(row)))
                    connection.execute(_REFOLD, (state.decode(), seal, row))
                connection.pragma("user_version", str(SCHEMA_VERSION))

    def act_for(self, project_id: ProjectId) -> None:
        """Change nothing: this is one person's, whose projects are kept apart by ProjectStore."""

    # --- reads ------------------------------------------------------------------------------------

    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        try:
            # All of it: see `end`.
            rows = self.database.connection.execute(
                _NEWEST if newest else _FOUND, (text,)
            ).fetchall()
        except ENGINE_ERRORS as error:
            raise self.database.store_error(error, "read") from error
        return found_in(rows, text)

    def rows(self) -> Rows:
        rows = self.database.rows
        return Rows(rows(_ALL_TAGS), rows(_ALL_STREAMS), rows(_RAW_HEADS))

    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        rows = (
            self.database.rows(_ALL_HEADS, (kind,))
            if project_id is None
            else self.database.rows(_HEADS, (to_column(project_id), kind))
        )
        return tuple(map(head_of, rows))

    def read_entries(self, span: Span) -> Sequence[Entry]:
        if span.only is not None:
            only = (span.row, *span.only)
            return list(map(Entry._make, self.database.rows(_only(len(span.only)), only)))
        is_newest = span.newest is not None
        rows = self.database.rows(_select(_ENTRY, span.kinds, is_newest), _bounds(span))
        return list(map(Entry._make, rows[::-1] if is_newest else rows))

    def read_spoken(self, span: Span) -> Iterable[SpokenRow]:
        statement = _select(_SPOKEN, span.kinds, span.newest is not None)
        bounds = _bounds(span)
        if span.limit is not None:
            return cast("list[SpokenRow]", self.database.rows(statement, bounds))
        # Read one at a time: of a long conversation only the messages are held.
        return self._streamed(statement, bounds)

    def _streamed(self, statement: str, bindings: Row) -> Iterator[SpokenRow]:
        with self.database.worded("read"):
            rows = self.database.connection.execute(statement, bindings)
            try:
                # Chained: a generator that is closed would close the cursor, too. See `end`.
                yield from chain(cast("Iterator[SpokenRow]", rows))
            finally:
                # Else an error that somebody keeps would keep the read transaction open, too.
                end(rows)

    def verify(self, conversation_id: ConversationId) -> int | None:
        found = super().verify(conversation_id)
        if found is None:  # The message says more than the file does.
            self._must_be_sound()
        return found

    def _must_be_sound(self) -> None:
        """Raise StoreError where the engine finds damage in the file: a row may be found by none.

        Looked at again only where something was written since.
        """
        connection = self.database.connection
        with self.database.worded("verify"):
            # The first moves when another connection commits, the second when this one writes.
            state = (connection.pragma("data_version"), connection.total_changes())
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
                if (fence.name, fence.token) in self._held:
                    continue
                # No cursor is kept while another statement is executed: apsw 3.54 never frees it.
                if not connection.execute(_IS_HELD, _of_fence(fence)).fetchall():
                    raise lost_lease(fence.name, fence.token)
                self._held.add((fence.name, fence.token))
            for claim in take:
                if _take(connection, claim) is None:
                    raise taken_lease(claim.name)
            rows = [_apply(connection, change) for change in changes]
            for fence in give:
                self._release(connection, fence)
            if is_synced and not (changes or take or give):
                connection.execute(_TOUCH)
        return rows

    def scrub(self) -> None:
        # Late: `forget` alone does this, and every look loads the store.
        from upthread.store.sqlite.scrub import scrub  # noqa: PLC0415

        scrub(self.database)

    # --- leases -----------------------------------------------------------------------------------

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        with self.database.transaction(is_synced=False) as connection:
            # Not synced, as heartbeats are not: the power cut that takes it takes the holder, too.
            return _take(connection, LeaseClaim(name=name, holder=holder, seen=seen))

    def heartbeat(self, fence: Fence) -> None:
        with self.database.transaction(is_synced=False) as connection:
            _must_move(connection, _BEAT, fence)

    def release_lease(self, fence: Fence) -> None:
        with self.database.transaction(is_synced=False) as connection:
            self._release(connection, fence)

    def _release(self, connection: Connection, fence: Fence) -> None:
        self._held.discard((fence.name, fence.token))
        _must_move(connection, _RELEASE, fence)

    def lease(self, name: str) -> Lease | None:
        rows = self.database.rows(_LEASE, (to_column(name),))
        return lease_of(name, rows[0]) if rows else None

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        bounds = tuple(map(to_column, conversation_leases(project_id)))
        return tuple(lease_of(name, row) for name, *row in self.database.rows(_HELD_LEASES, bounds))

    def close(self) -> None:
        self.database.close()


@lru_cache(maxsize=100)
def _select(columns: str, kinds: tuple[str, ...], is_newest: bool) -> str:  # noqa: FBT001
    """Return the statement for entries of stream ?1, of some kinds: from ?2 to ?3, ?4 of them."""
    where = f"kind IN ({', '.join(map(repr, kinds))})" if kinds else "TRUE"
    index = "entry_by_place"
    # A partial index is used only where its condition stands in the statement, word by word.
    if kinds and not set(kinds) & set(FREQUENT):
        frequent = ", ".join(map(repr, FREQUENT))
        index = "entry_rare"
        where = f"{where} AND kind NOT IN ({frequent})"
    elif kinds == (SAID,):
        index, where = "entry_said", "kind = 'said'"
    return (
        f"SELECT {columns} FROM entry AS e INDEXED BY {index}"
        f" WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3 AND {where}"
        f" ORDER BY seq {'DESC' if is_newest else 'ASC'} LIMIT ?4"
    )


def _bounds(span: Span) -> Row:
    high = _LAST if span.before is None else span.before - 1
    return (span.row, span.after + 1, high, -1 if span.limit is None else span.limit)


@lru_cache(maxsize=100)
def _only(count: int) -> str:
    """Return the statement for so many entries by their numbers."""
    places = ", ".join(f"?{number}" for number in range(2, count + 2))
    return f"SELECT {_ENTRY} FROM entry AS e WHERE stream = ?1 AND seq IN ({places}) ORDER BY seq"


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
        _erase(connection, row, erasure)
    return row


def _erase(connection: Connection, row: int, erasure: Erasure) -> None:
    last, before_ms, seqs = erasure
    if seqs is None:
        connection.execute(_FORGET, (row, 1, last, before_ms))
    for seq in seqs or ():
        connection.execute(_FORGET, (row, seq, seq, before_ms))


def _text(document: str | bytes) -> str:
    return document.decode() if isinstance(document, bytes) else document


def _take(connection: Connection, claim: LeaseClaim) -> Lease | None:
    """Take a lease that is free, released, or has not moved since it was seen (S13)."""
    # No time is compared: clocks differ. How long it has stood still, who asks has measured with a
    # clock of its own (ADR 10).
    seen = (None, None) if claim.seen is None else (claim.seen.token, claim.seen.heartbeat)
    holder = encode_plain_json(claim.holder).decode()
    taken = connection.execute(_TAKE, (to_column(claim.name), holder, *seen)).fetchall()
    for token, heartbeat in taken:
        return Lease(name=claim.name, token=token, heartbeat=heartbeat, holder=claim.holder)
    return None


def _of_fence(fence: Fence) -> Row:
    return (to_column(fence.name), fence.token)


def _must_move(connection: Connection, statement: str, fence: Fence) -> None:
    connection.execute(statement, _of_fence(fence))
    if connection.changes() == 0:
        raise lost_lease(fence.name, fence.token)
