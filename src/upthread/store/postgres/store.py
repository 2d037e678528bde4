"""The store port on PostgreSQL. Says which statement answers which read; decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from upthread.core.codec import (
    decode_json,
    decode_run_event,
    decode_text,
    decode_turn_event,
    encode_text,
)
from upthread.core.commands import RecordAct, RecordDecision, Write
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    Link,
    Message,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.store._recorded import act_of, first_place, recorded_of
from upthread.store._rules import first_damaged, lost_lease
from upthread.store.base import (
    SAID_WITHIN_MESSAGES,
    Held,
    KnownProject,
    Once,
    Place,
    Quarantined,
    Recorded,
    Resolved,
    Run,
    Section,
    StoredEdit,
    Turn,
    Workstream,
)
from upthread.store.postgres import reading
from upthread.store.postgres.batch import Batch, Step, Transaction
from upthread.store.postgres.columns import Row, from_columns, to_columns
from upthread.store.postgres.prepared import Prepared
from upthread.store.postgres.queries import QUERIES, RECORDED
from upthread.store.postgres.remembered import Memory
from upthread.store.postgres.schema import check_schema
from upthread.store.postgres.server import Connection, Server, rolled_back, unhurried
from upthread.store.postgres.writing import prepared

PAGE_PARTS: Final = 1_000
"""How many parts are read at once where all might be more than memory should hold."""

_PARTS_OF_A_MESSAGE: Final = 4
_TAKE_LEASE: Final = QUERIES["take_lease"]
_SEQ_MAX: Final = 2**31 - 1  # PostgreSQL's INTEGER


class PostgresStore:
    """A store in the schema `upthread` of a database. Usable from any thread, one call at a time.

    `address` is a libpq URL; nothing of it is read from the environment but what libpq itself
    reads. StoreError when the database cannot be reached, or its schema is not this version's.
    """

    def __init__(self, address: str) -> None:
        self.server = Server(address)
        self._memory = Memory()
        self._prepared: Prepared | None = None
        try:
            self.server.run("open", lambda found: check_schema(found, self.server.name))
        except BaseException:
            self.server.close()
            raise

    def act_for(self, project_id: ProjectId) -> None:
        self._memory.forget()
        self.server.act_for(encode_text(project_id))
        if self.server.is_pooled:  # then each statement says it, and none is prepared
            self._prepared = None

    def commit(self, writes: Sequence[Write], *, fences: Sequence[Fence] = ()) -> None:
        if writes or fences:
            steps = [prepared(write) for write in writes]
            self.server.run("write", lambda connection: self._commit(connection, steps, fences))

    def resolve(self, key: ConversationKey) -> Resolved | None:
        row = self._row("resolve", key.project_id, key.workstream, key.role, key.slot)
        return None if row is None else reading.resolved_of(key, row)

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        row = self._row("conversation", conversation_id)
        return None if row is None else reading.conversation_of(row)

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        rows = self._read("conversations", project_id, workstream)
        return tuple(map(reading.conversation_of, rows))

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        row = self._row("workstream", project_id, workstream)
        return None if row is None else reading.workstream_of(row)

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        return tuple(map(reading.workstream_of, self._read("workstreams", project_id)))

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        rows = self._read("projects", identity.path, identity.root_commit, identity.owner)
        return tuple(map(reading.project_of, rows))

    def known_projects(self) -> tuple[KnownProject, ...]:
        return tuple(map(reading.project_of, self._recorded("known_projects")))

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        rows = self._read("links", conversation_id)
        return tuple(reading.link_of(conversation_id, row) for row in rows)

    def link_owner(self, project_id: ProjectId, upstream_session_id: str) -> Conversation | None:
        row = self._row("link_owner", upstream_session_id, project_id)
        return None if row is None else reading.conversation_of(row)

    def messages(
        self, conversation_id: ConversationId, *, after_seq: int = 0, newest: int | None = None
    ) -> tuple[Message, ...]:
        if newest is None:
            rows = self._read("messages", conversation_id, after_seq)
            return reading.messages_of(conversation_id, rows, after_seq=after_seq)
        rows = self._read("newest_messages", conversation_id, after_seq, max(newest, 0))
        return reading.messages_of(conversation_id, rows, after_seq=None)

    def message(self, conversation_id: ConversationId, seq: int) -> Message | None:
        rows = self._read("message", conversation_id, seq)
        found = reading.messages_of(conversation_id, rows, after_seq=seq - 1)
        return found[0] if found else None

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        if newest <= 0:
            return ()
        rows = self._prior_parts(conversation_id, upstream_session_ids, newest)
        return reading.said_of(conversation_id, rows, newest=newest)

    def message_count(self, conversation_id: ConversationId) -> int:
        row = self._row("message_count", conversation_id)
        return int(row[0] or 0) if row else 0

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        rows = self._read("turns", conversation_id, None if newest is None else max(newest, 0))
        return tuple(reading.turn_of(conversation_id, row) for row in reversed(rows))

    def turn_count(self, conversation_id: ConversationId) -> int:
        row = self._row("turn_count", conversation_id)
        return row[0] if row else 0

    def turn_owner(self, turn_id: TurnId) -> ConversationId | None:
        row = self._row("turn_owner", turn_id)
        return None if row is None else from_columns(row)[0]

    def turn_events(self, turn_id: TurnId) -> tuple[TurnEvent, ...]:
        rows = self._read("turn_events", turn_id)
        return tuple(decode_turn_event(decode_text(kind), payload) for kind, payload in rows)

    def turn_moved_at_ms(self, turn_id: TurnId) -> int | None:
        row = self._row("turn_moved_at_ms", turn_id)
        return row[0] if row else None

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        return tuple(map(reading.run_of, self._read("runs", project_id, workstream)))

    def run(self, run_id: RunId) -> Run | None:
        row = self._row("run", run_id)
        return None if row is None else reading.run_of(row)

    def run_events(self, run_id: RunId) -> tuple[RunEvent, ...]:
        rows = self._read("run_events", run_id)
        return tuple(decode_run_event(decode_text(kind), payload) for kind, payload in rows)

    def run_moved_at_ms(self, run_id: RunId) -> int | None:
        row = self._row("run_moved_at_ms", run_id)
        return row[0] if row else None

    def pending_transitions(self, *, due_before_ms: int) -> tuple[RunId, ...]:
        rows = self._read("pending_transitions", due_before_ms)
        return tuple(dict.fromkeys(from_columns(row)[0] for row in rows))

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        rows = self._read("refusals", conversation_id)
        return tuple(reading.refusal_of(conversation_id, row) for row in rows)

    def acts(self, conversation_id: ConversationId) -> tuple[RecordAct, ...]:
        rows = self._read("acts", conversation_id)
        return tuple(act_of("", row) for row in rows)

    def run_acts(self, run_id: RunId) -> tuple[RecordAct, ...]:
        rows = self._read("run_acts", run_id)
        return tuple(act_of("", row) for row in rows)

    def quarantined(self, turn_id: TurnId) -> tuple[Quarantined, ...]:
        return tuple(
            Quarantined(
                turn_id=turn_id, ordinal=ordinal, reason=decode_text(reason), raw=decode_json(raw)
            )
            for ordinal, reason, raw in self._read("quarantined", turn_id)
        )

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        rows = self._read("examined", conversation_id, upstream_session_id)
        return tuple(map(reading.examined_of, rows))

    def examined_count(self, turn_id: TurnId) -> int:
        row = self._row("examined_count", turn_id)
        return int(row[0] or 0) if row else 0

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        row = self._row("briefing_edit", conversation_id)
        if row is None:
            return None
        seq, edit, at_ms = row
        return StoredEdit(seq=seq, edit=decode_json(edit), recorded_at_ms=at_ms)

    def held(self, conversation_id: ConversationId, *, before_ms: int | None = None) -> Held:
        ((parts, content_bytes, oldest_at_ms),) = self._read("held", conversation_id, before_ms)
        return Held(parts=parts, content_bytes=content_bytes, oldest_at_ms=oldest_at_ms)

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        row = self._row("once", project_id, key)
        return None if row is None else reading.once_of(key, row)

    def verify(self, conversation_id: ConversationId) -> int | None:
        rows = self._all_parts(conversation_id)
        return first_damaged(reading.chained_parts(conversation_id, rows))

    def chain_head(self, conversation_id: ConversationId) -> bytes | None:
        row = self._row("chain_head", conversation_id)
        return None if row is None else row[0]

    def recorded(
        self, section: Section, owner: str, *, after: Place | None = None, limit: int
    ) -> tuple[Recorded, ...]:
        place = after or first_place(section)
        rows = self._recorded(section, encode_text(owner), *place, limit)
        return tuple(recorded_of(section, owner, row) for row in rows)

    def scrub(self) -> None:
        """Write the tables anew; the server's own log and its backups are its keeper's."""
        self.server.run("scrub", _scrub)

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        stood = (None, None) if seen is None else (seen.token, seen.heartbeat)
        values = to_columns(
            name,
            holder.host,
            holder.boot_id,
            holder.pid,
            holder.started_at_ticks,
            holder.doing,
            *stood,
        )
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

    def lease(self, name: str) -> Lease | None:
        row = self._row("lease", name)
        return None if row is None else reading.lease_of(name, row)

    def close(self) -> None:
        self.server.close()

    def _commit(
        self, connection: Connection, steps: Sequence[Step], fences: Sequence[Fence]
    ) -> None:
        statements = self._prepared_on(connection)
        if self._memory.commit(statements, steps, fences):
            return
        with rolled_back(connection):
            opened = Transaction(connection, self.server.said_in_transaction)
            known = opened.look_up(steps, fences)
            batch = Batch(known, send=opened.write, ask=opened.rows)
            for step in steps:
                step.apply(batch)
            opened.commit()
        self._memory.put(known)

    def _read(self, query: str, *values: str | int | Collection[str] | None) -> list[Row]:
        columns = list(map(_binding, values))
        return self.server.run(
            "read",
            lambda connection: self._prepared_on(connection).rows(QUERIES[query], columns),
        )

    def _prepared_on(self, connection: Connection) -> Prepared:
        """Return the statements of a connection; of another than before, nothing is known."""
        if self._prepared is None or self._prepared.connection is not connection:
            self._memory.forget()
            before = self.server.said_in_transaction
            self._prepared = Prepared(connection, is_allowed=self.server.prepares, before=before)
        return self._prepared

    def _row(self, query: str, *values: str | int | Collection[str] | None) -> Row | None:
        rows = self._read(query, *values)
        return rows[0] if rows else None

    def _recorded(self, query: str, *values: bytes | int) -> list[Row]:
        return self.server.run(
            "read",
            lambda connection: self._prepared_on(connection).rows(RECORDED[query], values),
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
            yield from page
            if len(page) < limit:
                return
            place, limit = page[-1][:2], PAGE_PARTS

    def _all_parts(self, conversation_id: ConversationId) -> Iterator[Row]:
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


def _binding(value: str | int | Collection[str] | None) -> object:
    """Return a value as PostgreSQL takes it; a collection of texts is an array."""
    if isinstance(value, str):
        return encode_text(value)
    if value is None or isinstance(value, int):
        return value
    return list(map(encode_text, value))
