"""The store port on one SQLite file; decides nothing. Most reads are `store.sql.reads`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from upthread.core.commands import Write
from upthread.core.context.prior_context import newest_exchanges
from upthread.core.types import (
    ConversationId,
    ConversationKey,
    Durability,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    Message,
    ProjectId,
)
from upthread.store._rules import lost_lease, taken_lease, verified
from upthread.store.base import SAID_WITHIN_MESSAGES, Resolved, Verified
from upthread.store.sql.batch import Row
from upthread.store.sql.reads import Reads
from upthread.store.sql.rows import chained_parts, lease_of, messages_of, resolved_of, said_of
from upthread.store.sql.statements import read_queries
from upthread.store.sql.writes import prepared
from upthread.store.sqlite.batch import QUERIES, Batch, Left, Names, Rows
from upthread.store.sqlite.database import (
    ENGINE_ERRORS,
    Connection,
    Database,
    damaged_file,
    end,
    first_of,
    to_column,
    to_columns,
)
from upthread.store.sqlite.integrity import faults_in

BUSY_TIMEOUT_S: Final = 30.0
"""How long a call waits for another process's transaction."""

RECORDED: Final = read_queries("sqlite", "recorded")
_RESOLVE: Final = QUERIES["resolve"]
_PRIOR_PARTS: Final = QUERIES["prior_parts"]


class SqliteStore(Reads):
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
        self.database = Database(path, busy_timeout_s=busy_timeout_s, vfs=vfs, key=key)
        self._rows = Rows()
        self._left = Left()
        self._sound_at: tuple[int, int] | None = None
        self._turns = Names(self.database, "turn_names")
        self._upstreams = Names(self.database, "upstream_names")
        self._names = {"turn": self._turns, "upstream": self._upstreams}

    def act_for(self, project_id: ProjectId) -> None:
        """Change nothing: this is one person's, whose projects are kept apart by ProjectStore."""

    def commit(
        self,
        writes: Sequence[Write],
        *,
        fences: Sequence[Fence] = (),
        take: Sequence[LeaseClaim] = (),
        give: Sequence[Fence] = (),
    ) -> None:
        if not (writes or fences or take or give):
            return
        # JSON and hashes before the lock is taken, which every other writer waits for.
        steps = [prepared(write, to_columns) for write in writes]
        is_synced = any(write.durability >= Durability.SYNCED for write in writes)
        try:
            with self.database.transaction(is_synced=is_synced) as connection:
                # Under the write lock: from here to the commit nobody can take a lease over (S4).
                self._left.begin(connection.data_version())
                _check_fences(connection, fences, self._left)
                for claim in take:
                    if _acquire(connection, claim.name, claim.holder, seen=claim.seen) is None:
                        raise taken_lease(claim.name)
                changes_before = connection.total_changes()
                batch = Batch(connection, self._rows, self._left)
                for step in steps:
                    step.apply(batch)
                for fence in give:
                    _release(connection, fence)
                    self._left.held.discard((fence.name, fence.token))
                if is_synced and connection.total_changes() == changes_before:
                    # All was there already, perhaps not yet on the disk: SQLite syncs nothing for
                    # a transaction that writes nothing.
                    connection.execute(QUERIES["touch_sync_mark"])
        except BaseException:
            # The rows that it minted were undone, and will be somebody else's.
            self._rows.forget()
            raise
        self._left.committed(self.database.connection.data_version())
        for table, row, name in batch.minted:
            if table in self._names:
                self._names[table].learn(row, name)

    def resolve(self, key: ConversationKey) -> Resolved | None:
        # The hot read: no helper that can be spared, and no conversion for text that needs none.
        try:
            # All of it, as `first_of` has it: there is one row at most.
            rows = self.database.connection.execute(
                _RESOLVE, (key.project_id, key.workstream, key.role, key.slot)
            ).fetchall()
        except ENGINE_ERRORS as error:
            raise self.database.store_error(error, "read") from error
        except UnicodeEncodeError:
            return super().resolve(key)
        return resolved_of(key, rows[0]) if rows else None

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        conversation = self._conversation_row(conversation_id)
        if newest <= 0:
            return ()
        with self.database.worded("read"):
            # Read one at a time, newest first: of a long conversation a few are most often enough.
            rows = self.database.connection.execute(
                _PRIOR_PARTS, (conversation, SAID_WITHIN_MESSAGES)
            )
            try:
                said = said_of(
                    conversation_id,
                    rows,
                    readable=frozenset({None, *upstream_session_ids}),
                    turns=self._turns,
                    upstreams=self._upstreams,
                )
                return newest_exchanges(said, newest)
            finally:
                end(rows)

    def message_count(self, conversation_id: ConversationId) -> int:
        row = self._row("message_count", self._conversation_row(conversation_id))
        return int(row[0] or 0) if row else 0

    def verify(self, conversation_id: ConversationId) -> Verified:
        conversation = self._conversation_row(conversation_id)
        with self.database.worded("verify"):
            # Streamed: a conversation may be larger than memory should hold.
            rows = self.database.connection.execute(QUERIES["chained_parts"], (conversation,))
            try:
                found = verified(chained_parts(conversation_id, rows))
            finally:
                end(rows)
        if found.damaged_seq is None:  # The message says more than the file does.
            self._must_be_sound()
        return found

    def scrub(self) -> None:
        # Late: `forget` alone does this, and every look loads the store.
        from upthread.store.sqlite.scrub import scrub  # noqa: PLC0415

        scrub(self.database)

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        with self.database.transaction(is_synced=False) as connection:
            # Not synced, as heartbeats are not: the power cut that takes it takes the holder, too.
            return _acquire(connection, name, holder, seen=seen)

    def heartbeat(self, fence: Fence) -> None:
        self._move_lease("heartbeat", fence)

    def release_lease(self, fence: Fence) -> None:
        self._move_lease("release_lease", fence)

    def close(self) -> None:
        self.database.close()

    def _read(self, query: str, *values: Any) -> list[Row]:
        return self.database.rows(QUERIES[query], to_columns(*values))

    def _read_recorded(self, query: str, *values: Any) -> list[Row]:
        return self.database.rows(RECORDED[query], to_columns(*values))

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

    def _messages(
        self, conversation_id: ConversationId, query: str, *values: int, after_seq: int | None
    ) -> tuple[Message, ...]:
        conversation = self._conversation_row(conversation_id)
        if conversation is None:
            return ()
        with self.database.worded("read"):
            rows = self.database.connection.execute(QUERIES[query], (conversation, *values))
            try:
                return messages_of(
                    conversation_id,
                    rows,
                    after_seq=after_seq,
                    turns=self._turns,
                    upstreams=self._upstreams,
                )
            except BaseException:
                # Else an error that somebody keeps would keep the read transaction open, too.
                end(rows)
                raise

    def _conversation_row(self, conversation_id: ConversationId) -> int | None:
        row = self._rows.tables["conversation"].get(conversation_id)
        if row is None:
            found = self._row("conversation_row", conversation_id)
            if found is not None:
                row = int(found[0])
                self._rows.put("conversation", conversation_id, row)
        return row

    def _move_lease(self, query: str, fence: Fence) -> None:
        with self.database.transaction(is_synced=False) as connection:
            connection.execute(QUERIES[query], (to_column(fence.name), fence.token))
            if connection.changes() == 0:
                raise lost_lease(fence.name, fence.token)


def _release(connection: Connection, fence: Fence) -> None:
    connection.execute(QUERIES["release_lease"], (to_column(fence.name), fence.token))
    if connection.changes() == 0:
        raise lost_lease(fence.name, fence.token)


def _check_fences(connection: Connection, fences: Sequence[Fence], left: Left) -> None:
    for fence in fences:
        lease = (fence.name, fence.token)
        if lease not in left.held:
            held = connection.execute(QUERIES["is_held"], (to_column(fence.name), fence.token))
            if first_of(held) is None:
                raise lost_lease(fence.name, fence.token)
            left.held.add(lease)


def _acquire(
    connection: Connection, name: str, holder: Holder, *, seen: Lease | None
) -> Lease | None:
    """Take a lease that is free, released, or has not moved since it was seen (S13)."""
    row = first_of(connection.execute(QUERIES["lease"], to_columns(name)))
    if row is not None:
        stands = lease_of(name, row)
        # No time is compared: clocks differ. How long it has stood still, who asks has measured
        # with a clock of its own (ADR 10).
        has_moved = seen is None or (seen.token, seen.heartbeat) != row[:2]
        if stands.holder is not None and has_moved:
            return None
    bindings = to_columns(
        name,
        holder.host,
        holder.boot_id,
        holder.pid,
        holder.started_at_ticks,
        holder.doing,
        holder.call,
    )
    ((token, heartbeat),) = connection.execute(QUERIES["take_lease"], bindings).fetchall()
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)
