"""The store port on plain dicts. Nothing survives the process.

A commit works on a copy of the tables and puts it in place at its end: that is its atomicity.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import TypeVar, cast

from msgspec import structs

from upthread.core.codec import decode_json, decode_part, decode_run_event, decode_turn_event
from upthread.core.commands import EraseConversation, EraseRun, RecordAct, RecordDecision, Write
from upthread.core.context.prior_context import newest_exchanges
from upthread.core.decision.examined import ExaminedFile
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.types import (
    MAIN_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    Link,
    Message,
    Part,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.store import base
from upthread.store._rules import (
    SPEAKERS_THAT_SAY,
    ChainedPart,
    conversation_leases,
    lost_lease,
    says_something,
    taken_lease,
    verified,
)
from upthread.store.sql.recorded import recorded_of
from upthread.testing.memory_store.erasure import erase_conversation, erase_run
from upthread.testing.memory_store.recorded import ROWS
from upthread.testing.memory_store.tables import StoredEvent, Tables, apply

Found = TypeVar("Found")


class MemoryStore:
    """A store that lasts as long as this object."""

    def __init__(self) -> None:
        self._state: Tables | None = Tables()

    @property
    def _tables(self) -> Tables:
        if self._state is None:
            raise StoreError("the store in memory was closed", hint="make a new one")
        return self._state

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
        draft = self._tables.copy()
        for fence in fences:
            lease = draft.leases.get(fence.name)
            if lease is None or lease.holder is None or lease.token != fence.token:
                raise lost_lease(fence.name, fence.token)
        for claim in take:
            if _taken(draft.leases, claim.name, claim.holder, claim.seen) is None:
                raise taken_lease(claim.name)
        for write in writes:
            if isinstance(write, EraseConversation):
                erase_conversation(draft, write)
            elif isinstance(write, EraseRun):
                erase_run(draft, write)
            else:
                apply(draft, write)
        for fence in give:
            _release(draft.leases, fence)
        self._state = draft

    def resolve(self, key: ConversationKey) -> base.Resolved | None:
        under_key = [
            each
            for each in self._tables.conversations.values()
            if each.key == key and key.slot >= MAIN_SLOT
        ]
        if not under_key:
            return None
        newest = max(under_key, key=lambda each: each.generation)
        still_open = [
            link
            for link in self._tables.links_of(newest.conversation_id)
            if link.ended_because is None
        ]
        return base.Resolved(conversation=newest, link=still_open[-1] if still_open else None)

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        return self._tables.conversations.get(conversation_id)

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        return tuple(
            each
            for each in self._tables.conversations.values()
            if (each.key.project_id, each.key.workstream) == (project_id, workstream)
        )

    def workstream(self, project_id: ProjectId, workstream: str) -> base.Workstream | None:
        return self._tables.workstreams.get((project_id, workstream))

    def workstreams(self, project_id: ProjectId) -> tuple[base.Workstream, ...]:
        return tuple(
            each for each in self._tables.workstreams.values() if each.project_id == project_id
        )

    def projects(self, identity: ProjectIdentity) -> tuple[base.KnownProject, ...]:
        return tuple(
            known
            for known in self._tables.projects
            if _is_place_of(identity, known.identity)
            or (
                identity.root_commit is not None
                and known.identity.root_commit == identity.root_commit
            )
        )

    def known_projects(self) -> tuple[base.KnownProject, ...]:
        return tuple(self._tables.projects)

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        return tuple(self._tables.links_of(conversation_id))

    def link_owner(self, project_id: ProjectId, upstream_session_id: str) -> Conversation | None:
        newest: dict[str, Link] = {}
        for (owner, _), link in self._tables.links.items():
            newest.pop(owner, None)  # in the order the newest links were opened
            newest[owner] = link
        owners = [
            owner
            for owner, link in newest.items()
            if link.upstream_session_id == upstream_session_id
            and self._tables.conversations[owner].key.project_id == project_id
        ]
        return self._tables.conversations[owners[-1]] if owners else None

    def messages(
        self,
        conversation_id: ConversationId,
        *,
        after_seq: int = 0,
        first: int | None = None,
        newest: int | None = None,
    ) -> tuple[Message, ...]:
        parts = self._tables.parts.get(conversation_id, ())
        last_seq = math.inf if first is None else after_seq + max(first, 0)
        if newest is not None:
            after_seq = max(after_seq, self.message_count(conversation_id) - max(newest, 0))
        return tuple(
            _message_of(list(together))
            for seq, together in groupby(parts, key=lambda part: part.header.seq)
            if after_seq < seq <= last_seq
        )

    def part_contents(
        self, conversation_id: ConversationId, *, after_seq: int = 0, first: int | None = None
    ) -> tuple[bytes | None, ...]:
        last_seq = math.inf if first is None else after_seq + max(first, 0)
        return tuple(
            part.content if isinstance(part.content, bytes) else None
            for part in self._tables.parts.get(conversation_id, ())
            if after_seq < part.header.seq <= last_seq
        )

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        within = self.messages(conversation_id, newest=base.SAID_WITHIN_MESSAGES)
        said = (
            structs.replace(each, parts=texts)
            for each in reversed(within)
            if each.speaker in SPEAKERS_THAT_SAY
            and each.upstream_session_id in {None, *upstream_session_ids}
            and says_something(texts := tuple(p for p in each.parts if isinstance(p, TextPart)))
        )
        return newest_exchanges(said, newest)

    def message_count(self, conversation_id: ConversationId) -> int:
        parts = self._tables.parts.get(conversation_id, ())
        return parts[-1].header.seq if parts else 0

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[base.Turn, ...]:
        return _last(
            [
                each
                for each in self._tables.turns.values()
                if each.conversation_id == conversation_id
            ],
            newest,
        )

    def turn_owner(self, turn_id: TurnId) -> ConversationId | None:
        turn = self._tables.turns.get(turn_id)
        return None if turn is None else turn.conversation_id

    def turn_events(self, turn_id: TurnId) -> tuple[TurnEvent, ...]:
        stored = self._tables.turn_events.get(turn_id, ())
        return tuple(decode_turn_event(each.kind, each.payload) for each in stored)

    def turn_moved_at_ms(self, turn_id: TurnId) -> int | None:
        return _newest_ms(self._tables.turn_events.get(turn_id, ()))

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[base.Run, ...]:
        return tuple(
            each
            for each in self._tables.runs.values()
            if (each.project_id, each.workstream) == (project_id, workstream)
        )

    def run(self, run_id: RunId) -> base.Run | None:
        return self._tables.runs.get(run_id)

    def run_events(self, run_id: RunId) -> tuple[RunEvent, ...]:
        stored = self._tables.run_events.get(run_id, ())
        return tuple(decode_run_event(each.kind, each.payload) for each in stored)

    def run_moved_at_ms(self, run_id: RunId) -> int | None:
        return _newest_ms(self._tables.run_events.get(run_id, ()))

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        return tuple(
            RecordDecision(
                conversation_id=conversation_id,
                decision=each.decision,
                reasons=each.reasons,
                inputs=decode_json(each.inputs),
                decided_at_ms=each.decided_at_ms,
            )
            for each in self._tables.refusals
            if each.conversation_id == conversation_id
        )

    def acts(self, owner: ConversationId | RunId) -> tuple[RecordAct, ...]:
        return tuple(e for e in self._tables.acts if owner in {e.conversation_id, e.run_id})

    def quarantined(self, turn_id: TurnId) -> tuple[base.Quarantined, ...]:
        return tuple(
            base.Quarantined(
                turn_id=turn_id, ordinal=ordinal, reason=each.reason, raw=decode_json(each.raw)
            )
            for (owner, ordinal), each in sorted(self._tables.quarantine.items())
            if owner == turn_id
        )

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        last: dict[str, ExaminedFile] = {}
        for stored in self._tables.examined.values():
            is_of_session = upstream_session_id in {None, stored.upstream_session_id}
            if stored.conversation_id == conversation_id and is_of_session:
                last.pop(stored.file.path, None)
                last[stored.file.path] = stored.file
        return tuple(last.values())

    def briefing_edit(self, conversation_id: ConversationId) -> base.StoredEdit | None:
        edits = self._tables.briefing_edits.get(conversation_id)
        if not edits:
            return None
        edit, at_ms = edits[-1]
        return base.StoredEdit(seq=len(edits), edit=decode_json(edit), recorded_at_ms=at_ms)

    def once(self, project_id: ProjectId, key: str) -> base.Once | None:
        steps = self._tables.once.get((project_id, key))
        if not steps:
            return None
        last = steps[-1]
        return base.Once(
            key=key,
            attempt_id=last.attempt_id,
            state=last.state,
            receipt=decode_json(last.receipt),
            recorded_at_ms=last.recorded_at_ms,
        )

    def verify(self, conversation_id: ConversationId) -> base.Verified:
        return verified(self._tables.parts.get(conversation_id, ()))

    def recorded(
        self, section: base.Section, owner: str, *, after: base.Position | None = None, limit: int
    ) -> tuple[base.Recorded, ...]:
        begin = 0 if after is None else after[1] + 1
        rows = ROWS[section](self._tables, owner)[begin : begin + limit]
        return tuple(
            recorded_of(section, owner, (0, number, *row)) for number, row in enumerate(rows, begin)
        )

    def scrub(self) -> None:
        """Nothing is left behind in memory that could be found."""

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        return _taken(self._tables.leases, name, holder, seen)

    def heartbeat(self, fence: Fence) -> None:
        lease = self._tables.leases.get(fence.name)
        if lease is None or lease.token != fence.token or lease.holder is None:
            raise lost_lease(fence.name, fence.token)
        self._tables.leases[fence.name] = structs.replace(lease, heartbeat=lease.heartbeat + 1)

    def release_lease(self, fence: Fence) -> None:
        _release(self._tables.leases, fence)

    def lease(self, name: str) -> Lease | None:
        return self._tables.leases.get(name)

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        first, end = conversation_leases(project_id)
        held = (each for each in self._tables.leases.values() if each.holder is not None)
        found = [each for each in held if first <= each.name < end]
        return tuple(sorted(found, key=lambda each: each.name))

    def close(self) -> None:
        self._state = None


def _taken(leases: dict[str, Lease], name: str, holder: Holder, seen: Lease | None) -> Lease | None:
    stands = leases.get(name, Lease(name=name, token=0, heartbeat=0, holder=None))
    has_moved = seen is None or (seen.token, seen.heartbeat) != (stands.token, stands.heartbeat)
    if stands.holder is not None and has_moved:
        return None
    taken = Lease(name=name, token=stands.token + 1, heartbeat=stands.heartbeat + 1, holder=holder)
    leases[name] = taken
    return taken


def _release(leases: dict[str, Lease], fence: Fence) -> None:
    lease = leases.get(fence.name)
    if lease is None or lease.token != fence.token:
        raise lost_lease(fence.name, fence.token)
    leases[fence.name] = structs.replace(lease, holder=None)


def _is_place_of(asked: ProjectIdentity, known: ProjectIdentity) -> bool:
    return known.path == asked.path and known.owner in {None, asked.owner}


def _last(found: Sequence[Found], newest: int | None) -> tuple[Found, ...]:
    return tuple(found if newest is None else found[max(len(found) - max(newest, 0), 0) :])


def _newest_ms(events: Sequence[StoredEvent]) -> int | None:
    return events[-1].recorded_at_ms if events else None


def _message_of(stored: list[ChainedPart]) -> Message:
    header = stored[0].header
    return Message(
        conversation_id=ConversationId(header.conversation_id),
        seq=header.seq,
        speaker=Speaker(header.speaker),
        turn_id=TurnId(cast("str", header.turn_id)),
        upstream_session_id=cast("UpstreamSessionId | None", header.upstream_session_id),
        recorded_at_ms=header.recorded_at_ms,
        parts=tuple(_parts_of(stored)),
    )


def _parts_of(stored: Iterable[ChainedPart]) -> Iterable[Part]:
    for header, _, _, content, _ in stored:
        yield decode_part(header.kind, header.call_id, cast("bytes | None", content))
