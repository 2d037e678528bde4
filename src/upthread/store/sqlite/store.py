"""The store port on one SQLite file. Says which statement answers which read; decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, cast

import apsw

from upthread.core.codec import decode_json, decode_run_event, decode_turn_event
from upthread.core.commands import RecordAct, RecordDecision, Write
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
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
from upthread.store.sqlite import leases
from upthread.store.sqlite.batch import Batch, Rows
from upthread.store.sqlite.database import (
    Connection,
    Database,
    Row,
    from_columns,
    to_column,
    to_optional_column,
)
from upthread.store.sqlite.erasing import scrub
from upthread.store.sqlite.queries import QUERIES, RECORDED
from upthread.store.sqlite.reading import (
    Names,
    chained_parts,
    conversation_of,
    examined_of,
    link_of,
    messages_of,
    once_of,
    resolved_of,
    said_of,
)
from upthread.store.sqlite.writing import prepared

BUSY_TIMEOUT_S: Final = 30.0
"""How long a call waits for another process's transaction."""

_RESOLVE: Final = QUERIES["resolve"]
_PRIOR_PARTS: Final = QUERIES["prior_parts"]
_ALL: Final = -1  # SQLite's word for no limit


class SqliteStore:
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
        self._turns = Names(self.database, "turn_names")
        self._upstreams = Names(self.database, "upstream_names")
        self._names = {"turn": self._turns, "upstream": self._upstreams}

    def act_for(self, project_id: ProjectId) -> None:
        """Change nothing: this is one person's, whose projects are kept apart by ProjectStore."""

    def commit(self, writes: Sequence[Write], *, fences: Sequence[Fence] = ()) -> None:
        if not writes and not fences:
            return
        applies = [prepared(write) for write in writes]
        is_synced = any(write.durability >= Durability.SYNCED for write in writes)
        try:
            with self.database.transaction(is_synced=is_synced) as connection:
                _check_fences(connection, fences)
                changes_before = connection.total_changes()
                batch = Batch(connection, self._rows)
                for apply in applies:
                    apply(batch)
                if is_synced and connection.total_changes() == changes_before:
                    # All was there already, perhaps not yet on the disk: SQLite syncs nothing for
                    # a transaction that writes nothing.
                    connection.execute(QUERIES["touch_sync_mark"])
        except BaseException:
            self._rows.forget()
            raise
        for table, row, name in batch.minted:
            if table in self._names:
                self._names[table].learn(row, name)

    def resolve(self, key: ConversationKey) -> Resolved | None:
        # The hot read: no helper that can be spared, and no conversion for text that needs none.
        try:
            row = self.database.connection.execute(
                _RESOLVE, (key.project_id, key.workstream, key.role, key.slot)
            ).fetchone()
        except apsw.Error as error:
            raise self.database.store_error(error, "read") from error
        except UnicodeEncodeError:
            names = map(to_column, (key.project_id, key.workstream, key.role))
            row = self._row("resolve", *names, key.slot)
        return None if row is None else resolved_of(key, from_columns(row))

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        row = self._row("conversation", to_column(conversation_id))
        return None if row is None else conversation_of(row)

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        rows = self._read("conversations", to_column(project_id), to_column(workstream))
        return tuple(map(conversation_of, rows))

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        row = self._row("workstream", to_column(project_id), to_column(workstream))
        return None if row is None else _workstream_of(row)

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        return tuple(map(_workstream_of, self._read("workstreams", to_column(project_id))))

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        path, root = to_column(identity.path), to_optional_column(identity.root_commit)
        owner = to_optional_column(identity.owner)
        return tuple(map(_project_of, self._read("projects", path, root, owner)))

    def known_projects(self) -> tuple[KnownProject, ...]:
        return tuple(map(_project_of, self.database.rows(RECORDED["known_projects"])))

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        rows = self._read("links", to_column(conversation_id))
        return tuple(link_of(conversation_id, *from_columns(row)) for row in rows)

    def link_owner(self, project_id: ProjectId, upstream_session_id: str) -> Conversation | None:
        row = self._row("link_owner", to_column(upstream_session_id), to_column(project_id))
        return None if row is None else conversation_of(row)

    def messages(
        self, conversation_id: ConversationId, *, after_seq: int = 0, newest: int | None = None
    ) -> tuple[Message, ...]:
        conversation = self._conversation_row(conversation_id)
        if conversation is None:
            return ()
        if newest is None:
            bindings: Row = (conversation, after_seq)
            return self._messages(conversation_id, "messages", bindings, after_seq=after_seq)
        bindings = (conversation, after_seq, max(newest, 0))
        return self._messages(conversation_id, "newest_messages", bindings, after_seq=None)

    def message(self, conversation_id: ConversationId, seq: int) -> Message | None:
        conversation = self._conversation_row(conversation_id)
        if conversation is None:
            return None
        bindings = (conversation, seq)
        found = self._messages(conversation_id, "message", bindings, after_seq=seq - 1)
        return found[0] if found else None

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
            rows = self.database.connection.execute(
                _PRIOR_PARTS, (conversation, SAID_WITHIN_MESSAGES)
            )
            try:
                return said_of(
                    conversation_id,
                    rows,
                    newest=newest,
                    readable=frozenset({None, *upstream_session_ids}),
                    turns=self._turns,
                    upstreams=self._upstreams,
                )
            finally:
                rows.close()

    def message_count(self, conversation_id: ConversationId) -> int:
        row = self._row("message_count", self._conversation_row(conversation_id))
        return int(row[0] or 0) if row else 0

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        limit = _ALL if newest is None else max(newest, 0)
        rows = self._read("turns", to_column(conversation_id), limit)
        return tuple(_turn_of(conversation_id, row) for row in reversed(rows))

    def turn_count(self, conversation_id: ConversationId) -> int:
        row = self._row("turn_count", to_column(conversation_id))
        return row[0] if row else 0

    def turn_owner(self, turn_id: TurnId) -> ConversationId | None:
        row = self._row("turn", to_column(turn_id))
        return None if row is None else from_columns(row)[0]

    def turn_events(self, turn_id: TurnId) -> tuple[TurnEvent, ...]:
        rows = self._read("turn_events", to_column(turn_id))
        return tuple(decode_turn_event(kind, payload) for _, kind, payload in rows)

    def turn_moved_at_ms(self, turn_id: TurnId) -> int | None:
        row = self._row("turn_moved_at_ms", to_column(turn_id))
        return row[0] if row else None

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        rows = self._read("runs", to_column(project_id), to_column(workstream))
        return tuple(map(_run_of, rows))

    def run(self, run_id: RunId) -> Run | None:
        row = self._row("run", to_column(run_id))
        return None if row is None else _run_of((run_id, *row))

    def run_events(self, run_id: RunId) -> tuple[RunEvent, ...]:
        rows = self._read("run_events", to_column(run_id))
        return tuple(decode_run_event(kind, payload) for _, kind, payload in rows)

    def run_moved_at_ms(self, run_id: RunId) -> int | None:
        row = self._row("run_moved_at_ms", to_column(run_id))
        return row[0] if row else None

    def pending_transitions(self, *, due_before_ms: int) -> tuple[RunId, ...]:
        rows = self._read("pending_transitions", due_before_ms)
        return tuple(dict.fromkeys(from_columns(row)[0] for row in rows))

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        rows = self._read("refusals", to_column(conversation_id))
        return tuple(_refusal_of(conversation_id, row) for row in rows)

    def acts(self, conversation_id: ConversationId) -> tuple[RecordAct, ...]:
        rows = self._read("acts", to_column(conversation_id))
        return tuple(act_of("", row) for row in rows)

    def run_acts(self, run_id: RunId) -> tuple[RecordAct, ...]:
        rows = self._read("run_acts", to_column(run_id))
        return tuple(act_of("", row) for row in rows)

    def quarantined(self, turn_id: TurnId) -> tuple[Quarantined, ...]:
        return tuple(
            Quarantined(
                turn_id=turn_id,
                ordinal=ordinal,
                reason=from_columns((reason,))[0],
                raw=decode_json(raw),
            )
            for ordinal, reason, raw in self._read("quarantined", to_column(turn_id))
        )

    def held(self, conversation_id: ConversationId, *, before_ms: int | None = None) -> Held:
        row = self._row("held", to_column(conversation_id), before_ms)
        parts, content_bytes, oldest_at_ms = row or (0, 0, None)
        return Held(parts=parts, content_bytes=content_bytes, oldest_at_ms=oldest_at_ms)

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        bindings = (to_column(conversation_id), to_optional_column(upstream_session_id))
        return tuple(map(examined_of, self._read("examined", *bindings)))

    def examined_count(self, turn_id: TurnId) -> int:
        row = self._row("examined_count", to_column(turn_id))
        return int(row[0] or 0) if row else 0

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        row = self._row("briefing_edit", to_column(conversation_id))
        if row is None:
            return None
        seq, edit, at_ms = row
        return StoredEdit(seq=seq, edit=decode_json(edit), recorded_at_ms=at_ms)

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        row = self._row("once", to_column(project_id), to_column(key))
        return None if row is None else once_of(key, row)

    def verify(self, conversation_id: ConversationId) -> int | None:
        conversation = self._conversation_row(conversation_id)
        with self.database.worded("verify"):
            # Streamed: a conversation may be larger than memory should hold.
            rows = self.database.connection.execute(QUERIES["chained_parts"], (conversation,))
            return first_damaged(chained_parts(conversation_id, rows))

    def chain_head(self, conversation_id: ConversationId) -> bytes | None:
        row = self._row("chain_head", to_column(conversation_id))
        return None if row is None else row[0]

    def recorded(
        self, section: Section, owner: str, *, after: Place | None = None, limit: int
    ) -> tuple[Recorded, ...]:
        bindings = (to_column(owner), *(after or first_place(section)), limit)
        rows = self.database.rows(RECORDED[section], bindings)
        return tuple(recorded_of(section, owner, row) for row in rows)

    def scrub(self) -> None:
        scrub(self.database)

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        with self.database.transaction(is_synced=False) as connection:
            return leases.acquire(connection, name, holder, seen=seen)

    def heartbeat(self, fence: Fence) -> None:
        self._move_lease("heartbeat", fence)

    def release_lease(self, fence: Fence) -> None:
        self._move_lease("release_lease", fence)

    def lease(self, name: str) -> Lease | None:
        row = self._row("lease", to_column(name))
        return None if row is None else leases.lease_of(name, row)

    def close(self) -> None:
        self.database.close()

    def _read(self, query: str, *bindings: object) -> list[Row]:
        return self.database.rows(QUERIES[query], bindings)

    def _row(self, query: str, *bindings: object) -> Row | None:
        return self.database.row(QUERIES[query], bindings)

    def _messages(
        self, conversation_id: ConversationId, query: str, bindings: Row, *, after_seq: int | None
    ) -> tuple[Message, ...]:
        with self.database.worded("read"):
            rows = self.database.connection.execute(QUERIES[query], bindings)
            try:
                return messages_of(
                    conversation_id,
                    rows,
                    after_seq=after_seq,
                    turns=self._turns,
                    upstreams=self._upstreams,
                )
            finally:
                # Else an error that somebody keeps would keep the read transaction open, too.
                rows.close()

    def _conversation_row(self, conversation_id: ConversationId) -> int | None:
        row = self._rows.get("conversation", conversation_id)
        if row is None:
            found = self._row("conversation_row", to_column(conversation_id))
            if found is not None:
                row = int(found[0])
                self._rows.put("conversation", conversation_id, row)
        return row

    def _move_lease(self, query: str, fence: Fence) -> None:
        with self.database.transaction(is_synced=False) as connection:
            connection.execute(QUERIES[query], (to_column(fence.name), fence.token))
            if connection.changes() == 0:
                raise lost_lease(fence.name, fence.token)


def _check_fences(connection: Connection, fences: Sequence[Fence]) -> None:
    for fence in fences:
        held = connection.execute(QUERIES["is_held"], (to_column(fence.name), fence.token))
        if held.fetchone() is None:
            raise lost_lease(fence.name, fence.token)


def _workstream_of(row: Row) -> Workstream:
    project_id, workstream, base_name, at_ms = from_columns(row)
    return Workstream(
        project_id=project_id, workstream=workstream, base_name=base_name, opened_at_ms=at_ms
    )


def _project_of(row: Row) -> KnownProject:
    project_id, path, root_commit, remote, owner = from_columns(row)
    identity = ProjectIdentity(path=path, root_commit=root_commit, remote=remote, owner=owner)
    return KnownProject(project_id=project_id, identity=identity)


def _turn_of(conversation_id: ConversationId, row: Row) -> Turn:
    turn_id, at_ms, run_id = from_columns(row)
    return Turn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms, run_id=run_id)


def _run_of(row: Row) -> Run:
    run_id, project_id, workstream, at_ms = from_columns(row)
    return Run(run_id=run_id, project_id=project_id, workstream=workstream, opened_at_ms=at_ms)


def _refusal_of(conversation_id: ConversationId, row: Row) -> RecordDecision:
    decision, reasons, inputs, at_ms = row
    return RecordDecision(
        conversation_id=conversation_id,
        decision=from_columns((decision,))[0],
        reasons=tuple(map(str, cast("list[str]", decode_json(reasons)))),
        inputs=decode_json(inputs),
        decided_at_ms=at_ms,
    )
