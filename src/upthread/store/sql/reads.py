"""The reads of the port, once for every SQL backend: which statement answers which, and as what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Final, TypeAlias

from upthread.core.commands import RecordAct, RecordDecision, RecordRunEvent, RecordTurnEvent
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Lease,
    Link,
    Message,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.store._rules import conversation_leases
from upthread.store.base import (
    KnownProject,
    Once,
    Position,
    Quarantined,
    Recorded,
    Resolved,
    Run,
    Section,
    StoredEdit,
    Turn,
    Workstream,
)
from upthread.store.sql import rows
from upthread.store.sql.batch import Row, from_columns
from upthread.store.sql.recorded import act_of, first_place, recorded_of

# Of what a column can hold, not of what there can be: a damaged number is to be found.
_SEQ_MAX: Final = 2**63 - 1

Asked: TypeAlias = str | int | bytes | Collection[str] | None
"""What a statement is asked with; text is made a column by the backend."""


def _range(after_seq: int, first: int | None) -> tuple[int, int]:
    """Return after which message, and up to which one, the first so many are; None for all."""
    # By number and not by LIMIT, which would count parts: there is no gap between messages.
    return after_seq, _SEQ_MAX if first is None else after_seq + max(first, 0)


class Reads(ABC):
    """What a backend reads. How it asks its database is its own."""

    @abstractmethod
    def _read(self, query: str, *values: Asked) -> list[Row]:
        """Return all rows of a statement."""

    @abstractmethod
    def _read_recorded(self, query: str, *values: Asked) -> list[Row]:
        """Return all rows of a statement of `recorded.sql`."""

    @abstractmethod
    def _messages(
        self, conversation_id: ConversationId, query: str, *values: int, after_seq: int | None
    ) -> tuple[Message, ...]:
        """Return the messages of a statement's rows, `after_seq` as `rows.messages_of` takes it."""

    def _row(self, query: str, *values: Asked) -> Row | None:
        """Return the first row of a statement, None without one."""
        found = self._read(query, *values)
        return found[0] if found else None

    def resolve(self, key: ConversationKey) -> Resolved | None:
        # No seal is checked: that takes twice the time. Whoever decides on it reads the links next,
        # and those are (S33, ADR 89).
        row = self._row("resolve", key.project_id, key.workstream, key.role, key.slot)
        return None if row is None else rows.resolved_of(key, row)

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        row = self._row("conversation", conversation_id)
        return None if row is None else rows.conversation_of(row)

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        return tuple(map(rows.conversation_of, self._read("conversations", project_id, workstream)))

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        row = self._row("workstream", project_id, workstream)
        return None if row is None else rows.workstream_of(row)

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        return tuple(map(rows.workstream_of, self._read("workstreams", project_id)))

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        found = self._read("projects", identity.path, identity.root_commit, identity.owner)
        return tuple(map(rows.project_of, found))

    def known_projects(self) -> tuple[KnownProject, ...]:
        return tuple(map(rows.project_of, self._read_recorded("known_projects")))

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        return rows.links_of(conversation_id, self._read("links", conversation_id))

    def owner(
        self,
        project_id: ProjectId,
        upstream_session_id: str | None = None,
        *,
        turn_id: TurnId | None = None,
    ) -> Conversation | None:
        if turn_id is None:
            row = self._row("link_owner", upstream_session_id, project_id)
        else:
            row = self._row("turn_owner", turn_id, project_id)
        return None if row is None else rows.conversation_of(row)

    def messages(
        self,
        conversation_id: ConversationId,
        *,
        after_seq: int = 0,
        first: int | None = None,
        newest: int | None = None,
    ) -> tuple[Message, ...]:
        if newest is None:
            asked = _range(after_seq, first)
            return self._messages(conversation_id, "messages", *asked, after_seq=after_seq)
        # The first of the newest may have any number, so there is no `after_seq` it has to follow.
        limits = (after_seq, max(newest, 0))
        return self._messages(conversation_id, "newest_messages", *limits, after_seq=None)

    def part_contents(
        self, conversation_id: ConversationId, *, after_seq: int = 0, first: int | None = None
    ) -> tuple[bytes | None, ...]:
        found = self._read("part_contents", conversation_id, *_range(after_seq, first))
        return tuple([value if type(value) is bytes else None for (value,) in found])

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        # A negative LIMIT is none at all on SQLite, and an error on PostgreSQL.
        limit = None if newest is None else max(newest, 0)
        found = self._read("turns", conversation_id, limit)
        return tuple(rows.turn_of(conversation_id, row) for row in reversed(found))

    def turn_events(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[RecordTurnEvent, ...]:
        found = self._read("turn_events", conversation_id, turn_id)
        return rows.turn_events_of(conversation_id, turn_id, found)

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        return tuple(map(rows.run_of, self._read("runs", project_id, workstream)))

    def run(self, run_id: RunId) -> Run | None:
        row = self._row("run", run_id)
        return None if row is None else rows.run_of((run_id, *row))

    def run_events(self, run_id: RunId) -> tuple[RecordRunEvent, ...]:
        return rows.run_events_of(run_id, self._read("run_events", run_id))

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        found = self._read("refusals", conversation_id)
        return tuple(rows.refusal_of(conversation_id, row) for row in found)

    def acts(self, owner: ConversationId | RunId) -> tuple[RecordAct, ...]:
        return tuple(act_of("", row) for row in self._read("acts", owner))

    def quarantined(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[Quarantined, ...]:
        found = self._read("quarantined", conversation_id, turn_id)
        return tuple(rows.quarantined_of(turn_id, row) for row in found)

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        found = self._read("examined", conversation_id, upstream_session_id)
        return tuple(map(rows.examined_of, found))

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        row = self._row("briefing_edit", conversation_id)
        return None if row is None else rows.briefing_edit_of(row)

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        row = self._row("once", project_id, key)
        return None if row is None else rows.once_of(key, row)

    def recorded(
        self, section: Section, owner: str, *, after: Position | None = None, limit: int
    ) -> tuple[Recorded, ...]:
        place = after or first_place(section)
        found = self._read_recorded(section, owner, *place, limit)
        return tuple(recorded_of(section, owner, row) for row in found)

    def lease(self, name: str) -> Lease | None:
        row = self._row("lease", name)
        return None if row is None else rows.lease_of(name, row)

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        found = self._read("held_leases", *conversation_leases(project_id))
        return tuple(rows.lease_of(from_columns(row[:1])[0], row[1:]) for row in found)
