"""What is read of a store: a thin reader over heads and entries, the same for every store.

A store has three reads: the streams under a tag, the heads of a project, and the entries of a
stream. What callers ask for is made of these here, so that a store on another database gets it all
by inheritance, and so does whoever stands before a store.

An entry proves itself by the entry before it where it is read (S33), but for messages, which are
proved by `verify`: hashing what was said takes longer than reading it. Of a whole list the head
says how many there are, so that an end that is cut off is noticed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from msgspec import Struct, structs

from upthread.core import commands
from upthread.core.commands import (
    RecordAct,
    RecordDecision,
    RecordRunEvent,
    RecordTurnEvent,
)
from upthread.core.decision.examined import ExaminedFile
from upthread.core.record_policy import NO_EDIT
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Link,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)
from upthread.errors import StoreError
from upthread.store import entries, streams
from upthread.store.entries import Entry, not_whole
from upthread.store.kinds import ConversationState, Kept, RunState, TurnMoved, WorkstreamState
from upthread.store.stream_reads import Span, StreamReads, conversation_state
from upthread.store.streams import Head
from upthread.store.tags import key_tag, tag

# --- what a store returns: mostly the write that recorded it, without its durability --------------

Turn: TypeAlias = commands.OpenTurn
"""A turn's identity. Its state is the fold of its events."""

Run: TypeAlias = commands.OpenRun
"""A run's identity. Its state is the fold of its events."""

Workstream: TypeAlias = commands.OpenWorkstream
"""A workstream and the base name its instances share."""

KnownProject: TypeAlias = commands.RecordProject
"""One identity under which a project is known; a project may have several."""

Quarantined: TypeAlias = commands.RecordQuarantine
"""An event whose owner is unknown."""

Once: TypeAlias = commands.RecordOnce
"""An action that is to be done once, as its last attempt stands.

`receipt` is what the caller gave, None included: before `done` what the action is about.
"""

StoredEdit: TypeAlias = commands.RecordBriefingEdit
"""What a person made of a briefing, and its number."""


class Resolved(Struct, frozen=True):
    """An address as it stands. `link` is the newest one that has not ended, None without one.

    `messages` is the number of the last message, 0 for none.
    """

    conversation: Conversation
    link: Link | None
    messages: int = 0


Result = TypeVar("Result")

_EVENTS_AT_ONCE: Final = 8
"""Most turns have fewer, and one more of the next shows that there are no others."""


class Reads(StreamReads):
    """What can be read of a store. What names an unknown id reads as nothing: None, 0 or empty."""

    # --- projects, workstreams, conversations, runs -----------------------------------------------

    def resolve(self, key: ConversationKey) -> Resolved | None:
        """Return the conversation behind a key, None if none was ever opened (S12).

        None for slot 0: children share their key and are never found by it.
        """
        for head, *_ in self.found(key_tag(key), newest=True):
            state = head.state
            if not isinstance(state, ConversationState) or state.conversation.key != key:
                raise not_whole(f"{key_tag(key)}, which leads to {head.name},")
            link = state.open_links[-1] if state.open_links else None
            return Resolved(state.conversation, link, state.messages)
        return None

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        """Return one conversation by its id."""
        head = self.head("conversation", conversation_id)
        return None if head is None else conversation_state(head).conversation

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        """Return all conversations of a workstream, children and old generations included.

        Ordered by the moment they were opened, as committed.
        """
        found = self._in_workstream(project_id, workstream, "conversation")
        return tuple(conversation_state(head).conversation for head in found)

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        """Return one workstream."""
        head = self.head("workstream", workstream, project_id)
        return None if head is None else _workstream_of(head)

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        """Return a project's workstreams, oldest first."""
        return tuple(map(_workstream_of, self.heads(project_id, "workstream")))

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        """Return a workstream's runs, oldest first."""
        return tuple(map(run_of, self._in_workstream(project_id, workstream, "run")))

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        """Return known identities that share the root commit or the path with this one (S31)."""
        heads = [each.head for each in self.found(tag("path", identity.path))]
        if identity.root_commit is not None:
            heads += [each.head for each in self.found(tag("root_commit", identity.root_commit))]
        by_row = {head.row: head for head in heads}
        return tuple(
            known
            for _, head in sorted(by_row.items())
            for known in self._identities(head)
            if _is_known_by(known.identity, identity)
        )

    def known_projects(self) -> tuple[KnownProject, ...]:
        """Return all known identities of all projects, oldest first."""
        heads = self.heads(None, "project")
        return tuple(known for head in heads for known in self._identities(head))

    def identities(self, project_id: ProjectId) -> tuple[ProjectIdentity, ...]:
        """Return all identities of a project, oldest first; none for an unknown one."""
        head = self.head("project", project_id)
        known = () if head is None else self._identities(head)
        return tuple(each.identity for each in known)

    def _identities(self, head: Head) -> Iterator[KnownProject]:
        for _, value in self._values(head, Span(head.row, ("identity",))):
            yield KnownProject(project_id=ProjectId(head.name), identity=value.identity)

    # --- links ----------------------------------------------------------------------------------

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        """Return all links of a conversation, oldest first."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        found: list[Link] = []
        for entry, value in self._values(head, Span(head.row, ("link", "link_end"))):
            if entry.kind == "link":
                found.append(value.link)
            else:
                at: int = value.seq - 1
                link = found[at]
                if link.ended_because is None:  # the first cause stands
                    because, at_ms = value.ended_because, entry.at_ms
                    link = structs.replace(link, ended_because=because, ended_at_ms=at_ms)
                found[at] = link
        _must_count([link.seq for link in found], conversation_state(head).links, head, "link")
        return tuple(found)

    def owner(
        self,
        project_id: ProjectId,
        upstream_session_id: str | None = None,
        *,
        turn_id: TurnId | None = None,
    ) -> Conversation | None:
        """Return a project's conversation by its session or by a turn of it, None without one.

        The owner of a session holds the session in its newest link. Of several, the conversation
        whose link was opened last, by the clock: streams have no other order among each other. Of
        the two arguments, one is given.
        """
        if turn_id is not None:
            found = self.found(tag("turn", turn_id))
            is_own = found and found[0].head.project_id == project_id
            return conversation_state(found[0].head).conversation if is_own else None
        found = self.found(tag("session", project_id, upstream_session_id or ""))
        states = [conversation_state(each.head) for each in found]
        owners = [state for state in states if state.session == upstream_session_id]
        # Of two at the same moment the conversation that was opened later.
        newest = max(
            enumerate(owners), key=lambda each: (each[1].linked_at_ms, each[0]), default=None
        )
        return None if newest is None else newest[1].conversation

    # --- turns, runs and their events -------------------------------------------------------------

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        """Return turns, oldest first; with `newest`, only the last so many."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        limit = None if newest is None else max(newest, 0)
        found = self._values(head, Span(head.row, ("turn",), newest=limit))
        turns = conversation_state(head).turns
        if len(found) < (turns if limit is None else min(turns, limit)):
            raise not_whole(f"the list of turns of {conversation_id}")
        more = {"conversation_id": conversation_id}
        return tuple(_written(Turn, *each, at="opened_at_ms", **more) for each in found)

    def turn_events(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[RecordTurnEvent, ...]:
        """Return the events of a conversation's turn in order, their durability left out."""
        head, at = self._turn(conversation_id, turn_id)
        if head is None:
            return ()
        return tuple(
            _written(
                RecordTurnEvent,
                entry,
                value,
                conversation_id=conversation_id,
                event=entries.event_of(entry, value),
            )
            for entry, value in self._turn_entries(head, turn_id, at)
        )

    def _turn(self, conversation_id: ConversationId, turn_id: TurnId) -> tuple[Head | None, int]:
        """Return a turn's conversation, and the entry that opened it; None for an unknown turn."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return None, 0
        turn = conversation_state(head).turn
        if turn is not None and turn.turn_id == turn_id:
            return head, turn.at
        found = self.found(tag("turn", turn_id))
        return next(((head, each.seq) for each in found if each.head.row == head.row), (None, 0))

    def _turn_entries(self, head: Head, turn_id: TurnId, at: int) -> list[tuple[Entry, TurnMoved]]:
        turn = conversation_state(head).turn
        if turn is not None and turn.turn_id == turn_id:
            found = self._values(head, Span(head.row, only=turn.events))
            _must_count([value.seq for _, value in found], len(turn.events), head, "event")
            return found
        found = list(self._older_turn(head, turn_id, at))
        _must_count([value.seq for _, value in found], 0, head, f"event of {turn_id},")
        return found

    def _older_turn(
        self, head: Head, turn_id: TurnId, at: int
    ) -> Iterator[tuple[Entry, TurnMoved]]:
        """Yield the events of a turn that another has followed."""
        # The next one's follow all of its own, unless one ever spoke up late.
        is_late = conversation_state(head).late
        while page := self._values(
            head, Span(head.row, ("turn_event",), at, first=_EVENTS_AT_ONCE)
        ):
            for entry, value in page:
                if value.turn_id == turn_id:
                    yield entry, value
                elif not is_late:
                    return
            if len(page) < _EVENTS_AT_ONCE:
                return
            at = page[-1][0].seq

    def run_events(self, run_id: RunId) -> tuple[RecordRunEvent, ...]:
        """Return a run's events in order, their durability left out; empty for an unknown run."""
        head = self.head("run", run_id)
        if head is None:
            return ()
        found = self._values(head, Span(head.row, ("run_event",)))
        expected = cast("RunState", head.state).events
        _must_count([value.seq for _, value in found], expected, head, "event")
        return tuple(
            _written(
                RecordRunEvent, entry, value, run_id=run_id, event=entries.event_of(entry, value)
            )
            for entry, value in found
        )

    def run(self, run_id: RunId) -> Run | None:
        """Return one run by its id."""
        head = self.head("run", run_id)
        return None if head is None else run_of(head)

    # --- what belongs to no message ---------------------------------------------------------------

    def refusals(self, conversation_id: ConversationId) -> tuple[RecordDecision, ...]:
        """Return decisions that led to no turn, oldest first. Their durability is not kept."""
        found = self._values_of(conversation_id, "refusal")
        more = {"conversation_id": conversation_id}
        return tuple(_written(RecordDecision, *each, at="decided_at_ms", **more) for each in found)

    def acts(self, owner: ConversationId | RunId) -> tuple[RecordAct, ...]:
        """Return what people did to a conversation or a run, oldest first (S30)."""
        head = self.head("conversation", owner) or self.head("run", owner)
        found = [] if head is None else self._values(head, Span(head.row, ("act",)))
        own = "conversation_id" if head is not None and head.kind == "conversation" else "run_id"
        return tuple(_written(RecordAct, *each, **{own: owner}) for each in found)

    def quarantined(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[Quarantined, ...]:
        """Return the quarantined events of a conversation's turn, in order."""
        found = [
            _written(
                Quarantined,
                entry,
                value,
                conversation_id=conversation_id,
                raw=entries.said_of(entry, forgotten=None),
            )
            for entry, value in self._values_of(conversation_id, "quarantine")
            if value.turn_id == turn_id
        ]
        return tuple(sorted(found, key=lambda each: each.ordinal))

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        """Return the last word on each path, in the order those words were committed (S24).

        Of what one upstream session has examined; None: of all of the conversation's sessions.
        """
        last: dict[str, ExaminedFile] = {}
        for entry, value in self._values_of(conversation_id, "examined"):
            if upstream_session_id in {None, value.upstream_session_id}:
                for each in entries.files_of(entry):
                    last.pop(each.path, None)  # to its end
                    last[each.path] = each
        return tuple(last.values())

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        """Return the newest edit of a conversation's briefing, None without one (S25)."""
        for entry, value in self._values_of(conversation_id, "edit", newest=1):
            edit = entries.said_of(entry, forgotten=NO_EDIT)
            return _written(StoredEdit, entry, value, conversation_id=conversation_id, edit=edit)
        return None

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        """Return how an action that is to be done once stands, None before any attempt (S23)."""
        head = self.head("once", key, project_id)
        if head is None:
            return None
        for entry, value in self._values(head, Span(head.row, ("attempt",), newest=1)):
            receipt = entries.said_of(entry, forgotten=value.receipt)
            return _written(Once, entry, value, project_id=project_id, key=key, receipt=receipt)
        return None

    # --- proof ------------------------------------------------------------------------------------

    def verify(self, conversation_id: ConversationId) -> int | None:
        """Return the first message that a conversation's chain does not prove, None: none (S9)."""
        # Late: a proof is asked for seldom, and reads everything there is.
        from upthread.store.proof import prove  # noqa: PLC0415

        head = self.head("conversation", conversation_id)
        try:
            if head is not None:
                prove(self, head)
        except StoreError as error:
            if "seq" not in error.ids:
                raise
            return int(error.ids["seq"])
        return None

    # --- below: how -------------------------------------------------------------------------------

    def _in_workstream(self, project_id: str, workstream: str, kind: str) -> list[Head]:
        text = tag("in", project_id, workstream)
        found = [head for head, *_ in self.found(text) if head.kind == kind]
        for head in found:
            if (head.project_id, streams.workstream_of(head)) != (project_id, workstream):
                raise not_whole(f"{text}, which leads to {kind} {head.name},")
        return found


# --- heads to values ------------------------------------------------------------------------------


def _workstream_of(head: Head) -> Workstream:
    state = cast("WorkstreamState", head.state)
    return Workstream(
        project_id=ProjectId(head.project_id),
        workstream=head.name,
        base_name=state.base_name,
        opened_at_ms=state.opened_at_ms,
    )


def run_of(head: Head) -> Run:
    """Return a run from its head."""
    state = cast("RunState", head.state)
    return Run(
        run_id=RunId(head.name),
        project_id=ProjectId(head.project_id),
        workstream=state.workstream,
        opened_at_ms=state.opened_at_ms,
    )


def _is_known_by(known: ProjectIdentity, asked: ProjectIdentity) -> bool:
    is_same_path = known.path == asked.path and known.owner in {None, asked.owner}
    return is_same_path or (
        known.root_commit is not None and known.root_commit == asked.root_commit
    )


# --- entries to values ----------------------------------------------------------------------------


def _written(
    shape: Callable[..., Result],
    entry: Entry,
    value: Kept,
    /,
    *,
    at: str = "recorded_at_ms",
    **more: object,
) -> Result:
    """Return the write that an entry was made of: what it keeps, its time as `at`, and the rest."""
    return shape(**structs.asdict(value) | {at: entry.at_ms} | more)


def _must_count(seqs: Sequence[int], count: int, head: Head, what: str) -> None:
    """Raise StoreError unless numbers run from 1 without a gap, at least to `count`.

    There may be more: the head was read first, and somebody may have written since.
    """
    for expected, seq in enumerate(seqs, start=1):
        if seq != expected:
            raise not_whole(f"{what} {expected} of {head.name}")
    if len(seqs) < count:
        raise not_whole(f"{what} {len(seqs) + 1} of {head.name}")
