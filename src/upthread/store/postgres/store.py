"""The store port on PostgreSQL; decides nothing. Most reads are `store.sql.reads`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from upthread.core.codec import decode_text, encode_text
from upthread.core.commands import Write
from upthread.core.context.prior_context import newest_exchanges
from upthread.core.types import ConversationId, Fence, Holder, Lease, LeaseClaim, Message, ProjectId
from upthread.store._rules import lost_lease, verified
from upthread.store.base import SAID_WITHIN_MESSAGES, Verified
from upthread.store.postgres.batch import Batch, Transaction, columns_of_claim
from upthread.store.postgres.prepared import Prepared
from upthread.store.postgres.queries import QUERIES, RECORDED, to_columns
from upthread.store.postgres.remembered import Memory
from upthread.store.postgres.schema import check_schema
from upthread.store.postgres.server import Connection, Server, rolled_back, unhurried
from upthread.store.sql.batch import Row, Step
from upthread.store.sql.reads import Asked, Reads
from upthread.store.sql.rows import chained_parts, messages_of, said_of
from upthread.store.sql.writes import prepared

PAGE_PARTS: Final = 1_000
"""How many parts are read at once where all might be more than memory should hold."""

# A guess, for the first page alone: too few cost an exchange, too many are read for nothing.
_PARTS_OF_A_MESSAGE: Final = 4
_TAKE_LEASE: Final = QUERIES["take_lease"]
_SEQ_MAX: Final = 2**31 - 1  # PostgreSQL's INTEGER


class PostgresStore(Reads):
    """A store in the schema `upthread` of a database. Usable from any thread, one call at a time.

    `address` is a libpq URL; nothing of it is read from the environment but what libpq itself
    reads. StoreError when the database cannot be reached, or its schema is not this version's.
    `wait_s` is how long the server and other writers are waited for, None: as long as usual.
    """

    def __init__(self, address: str, *, wait_s: float | None = None) -> None:
        self.server = Server(address, wait_s=wait_s)
        self._memory = Memory()
        self._prepared: Prepared | None = None
        try:
            self.server.run("open", lambda found: check_schema(found, self.server.name))
        except BaseException:
            self.server.close()
            raise

    def act_for(self, project_id: ProjectId) -> None:
        # What was there under another project is not to be believed under this one.
        self._memory.forget()
        self.server.act_for(encode_text(project_id))
        if self.server.is_pooled:  # then each statement says it, and none is prepared
            self._prepared = None

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
        steps = [prepared(write, to_columns) for write in writes]
        if take or give:
            # Not done again when the connection is lost: the lease may have been taken by us.
            self.server.run_once(
                "write",
                lambda connection: self._commit_whole(connection, steps, fences, take, give),
            )
            return
        # Done again when the connection is lost: the same batch twice is once (S2).
        self.server.run("write", lambda connection: self._commit(connection, steps, fences))

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        if newest <= 0:
            return ()
        found, names = self._prior_parts(conversation_id, upstream_session_ids, newest), _Names()
        said = said_of(
            conversation_id,
            found,
            readable=frozenset({None, *upstream_session_ids}),
            turns=names,
            upstreams=names,
        )
        return newest_exchanges(said, newest)

    def message_count(self, conversation_id: ConversationId) -> int:
        row = self._row("message_count", conversation_id)
        return int(row[0] or 0) if row else 0

    def verify(self, conversation_id: ConversationId) -> Verified:
        rows = self._all_parts(conversation_id)
        return verified(chained_parts(conversation_id, rows))

    def scrub(self) -> None:
        """Write the tables anew; the server's own log and its backups are its keeper's."""
        self.server.run("scrub", _scrub)

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        values = columns_of_claim(LeaseClaim(name=name, holder=holder, seen=seen))
        # Not done again when the connection is lost: it may have been taken, and by us.
        taken = self.server.run_once(
            "write", lambda connection: self._prepared_on(connection).rows(_TAKE_LEASE, values)
        )
        if not taken:
            return None
        ((token, heartbeat),) = taken
        return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)

    def heartbeat(self, fence: Fence) -> None:
        self._move_lease("heartbeat", fence)

    def release_lease(self, fence: Fence) -> None:
        self._move_lease("release_lease", fence)

    def close(self) -> None:
        self.server.close()

    def _commit(
        self, connection: Connection, steps: Sequence[Step], fences: Sequence[Fence]
    ) -> None:
        statements = self._prepared_on(connection)
        if not self._memory.commit(statements, steps, fences):
            # By looking up, which also words the error of whatever was not as remembered.
            self._commit_whole(connection, steps, fences)

    def _commit_whole(
        self,
        connection: Connection,
        steps: Sequence[Step],
        fences: Sequence[Fence],
        take: Sequence[LeaseClaim] = (),
        give: Sequence[Fence] = (),
    ) -> None:
        self._prepared_on(connection)
        with rolled_back(connection):
            opened = Transaction(connection, self.server.said_in_transaction)
            known = opened.look_up(steps, fences, take)
            batch = Batch(known, send=opened.write, ask=opened.rows)
            for step in steps:
                step.apply(batch)
            for fence in give:
                if not opened.rows("release_lease", to_columns(fence.name, fence.token)):
                    raise lost_lease(fence.name, fence.token)
            opened.commit()
        # Only now: a commit that failed has left nothing to remember.
        self._memory.put(known)

    def _read(self, query: str, *values: Asked) -> list[Row]:
        return self._rows(QUERIES[query], values)

    def _rows(self, statement: bytes, values: tuple[Asked, ...]) -> list[Row]:
        columns = list(map(_binding, values))
        return self.server.run(
            "read", lambda connection: self._prepared_on(connection).rows(statement, columns)
        )

    def _prepared_on(self, connection: Connection) -> Prepared:
        """Return the statements of a connection; of another than before, nothing is known."""
        if self._prepared is None or self._prepared.connection is not connection:
            self._memory.forget()
            before = self.server.said_in_transaction
            self._prepared = Prepared(connection, is_allowed=self.server.prepares, before=before)
        return self._prepared

    def _read_recorded(self, query: str, *values: Asked) -> list[Row]:
        return self._rows(RECORDED[query], values)

    def _messages(
        self, conversation_id: ConversationId, query: str, *values: int, after_seq: int | None
    ) -> tuple[Message, ...]:
        found, names = self._read(query, conversation_id, *values), _Names()
        return messages_of(
            conversation_id, found, after_seq=after_seq, turns=names, upstreams=names
        )

    def _prior_parts(
        self, conversation_id: ConversationId, upstream_session_ids: Collection[str], newest: int
    ) -> Iterator[Row]:
        """Return parts newest first, read in pages: most often the first one is enough."""
        floor = self.message_count(conversation_id) - SAID_WITHIN_MESSAGES
        place, limit = (_SEQ_MAX, 0), newest * _PARTS_OF_A_MESSAGE
        while True:
            page = self._read(
                "prior_parts", conversation_id, *place, floor, upstream_session_ids, limit
            )
            yield from ((seq, *others) for seq, _, *others in page)
            if len(page) < limit:
                return
            place, limit = page[-1][:2], PAGE_PARTS

    def _all_parts(self, conversation_id: ConversationId) -> Iterator[Row]:
        # From below 1: a row whose number was damaged is to be found, not passed over.
        place: Row = (-_SEQ_MAX, 0)
        while page := self._read("chained_parts", conversation_id, *place, PAGE_PARTS):
            yield from page
            place = page[-1][:2]

    def _move_lease(self, query: str, fence: Fence) -> None:
        values = to_columns(fence.name, fence.token)
        moved = self.server.run(
            "write", lambda connection: self._prepared_on(connection).rows(QUERIES[query], values)
        )
        if not moved:
            raise lost_lease(fence.name, fence.token)


def _scrub(connection: Connection) -> None:
    with unhurried(connection):
        connection.execute(QUERIES["scrub"])


def _binding(value: Asked) -> object:
    """Return a value as PostgreSQL takes it; a collection of texts is an array."""
    if isinstance(value, str):
        return encode_text(value)
    if value is None or isinstance(value, (int, bytes)):
        return value
    return list(map(encode_text, value))


class _Names(dict[bytes | None, str | None]):
    """Ids as text, by their columns: each is decoded once for all the rows of a read."""

    def __init__(self) -> None:
        super().__init__({None: None})

    def __missing__(self, column: bytes) -> str:
        name = self[column] = decode_text(column)
        return name
