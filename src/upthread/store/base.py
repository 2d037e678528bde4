"""The store port: what every backend promises, numbered.

A store remembers and never decides. It is synchronous; async callers cross one thread hop per
batch (`runtime.system.System.in_thread`). The numbered promises are tests in
`upthread.testing.store_conformance`, which runs whole on every backend.

S1   `commit` is atomic: all writes of a batch are there afterwards, or none.
S2   `commit` is idempotent: the same batch again changes nothing and raises nothing.
S3   The same key with other content raises ConflictError, and nothing of that batch is there. Of a
     part the content is compared by its digest, so an erased one still counts as the same.
S4   With fences, the batch is written only while every named lease is held under that token;
     otherwise FencedError, and nothing of the batch is there.
S5   A batch that holds a SYNCED write survives the loss of power once `commit` has returned, as
     does everything committed before it; any batch survives the death of every process.
S6   Messages of a conversation, its links, and the events of a turn or run are numbered from 1
     without a gap; parts of a message from 0. A write that would leave a gap, or add to a message
     that is not the last, raises ConflictError. A message begins with its first part: its speaker,
     turn and upstream session are that part's, and another one's part raises ConflictError.
S7   Reads return what was committed before they began, from any process, in sequence order, never
     in order of time.
S8   Text comes back identical: NUL, lone surrogates, any size that was accepted. So do JSON values,
     as lists, dicts and scalars of the reader's own; not finite numbers included.
S9   Every part has the SHA-256 of its content, chained per conversation; `verify` names the first
     message that does not match, None when all do. Reading does not compute digests, but a row that
     is missing between others or cannot be decoded raises StoreError: none is ever skipped.
S10  One key and generation has one conversation, whoever asks at the same moment.
S11  One workstream has one base name, and within a project no two have the same.
S12  `resolve` returns the highest generation of the key and its newest open link, and costs the
     same for one conversation and for a million.
S13  A lease has one holder. `acquire_lease` with `seen=None` succeeds on a free or released lease;
     with `seen`, also on one that has not moved since it was seen. Each success raises the token.
S14  A heartbeat or release under an old token raises FencedError and changes nothing; so does a
     heartbeat on a released lease. A second release under the same token changes nothing.
S15  `pending_transitions` holds a run exactly while no later event of it was committed.
S16  Opening a new store from many processes at once succeeds in each of them.
S17  A store written by a newer version is refused with StoreError and left as it is.
S18  A failed write (full disk, I/O error, read-only file system) raises StoreError; what was
     committed before is still there, and the store works again when the cause is gone.
S19  Names and texts are data: quotes, `../`, NUL or 4 kB in a name never reach SQL or a path.
S20  Conversations of two projects never meet, whatever their names.
S21  A write that names a workstream, conversation, link, turn or run that was never opened raises
     NotFoundError, and nothing of the batch is there. An earlier write of the batch may open it.
S22  `prior_messages` returns what was said over the given sessions in the newest so many exchanges,
     by sequence number, and of a reply in many steps its first and its last ones. It looks at the
     newest SAID_WITHIN_MESSAGES messages and no further, so that it costs the same over one link
     and over sixteen, and after a hundred messages and after a million.
S23  Of many callers that write an intent under one key of a project, each as an attempt of its own,
     exactly one gets in; the others get ConflictError, until that attempt has failed. An attempt
     ends once, done or failed; an end without its intent raises NotFoundError.
S24  `examined` returns the last word on each path, in the order those words were committed; of one
     upstream session or of all. Sizes and times come back to the byte and the nanosecond.
S25  `briefing_edit` returns the newest edit. Edits of a conversation are numbered from 1 without a
     gap, so that of two persons who edit at once the second is told.
S26  What is erased is gone from every read, and what is left is what it was: numbers, order,
     owners, times, kinds, and digests, so that the conversation verifies as before. Nothing of any
     other conversation or run changes. Erasing again changes nothing.
S27  After `scrub` no file of the store holds a byte of what was erased: no free page, no log, no
     index. What was not erased is as it was. StoreError when it cannot be promised.
S29  `recorded` returns all that was written, leases aside, as the writes that make it: committed
     section by section to an empty store of any backend, they come out of that one as they went in,
     every read answers alike, and each conversation has the same `chain_head`, which one with other
     content has not. Pages of any size hold the same rows.
S30  Acts are kept once each, in the order of their commits, and stay when what they were about is
     erased.
S31  `projects` returns identities of the same root commit, and those of the same path that have the
     same owner or none: a path of another account or host is another place.
S32  A store that acts for a project reads and writes that one's rows as before, and may be used
     for it alone. A backend that several people share refuses all else, whatever id is named: other
     projects' rows read as nothing, and a write that names them is an error and leaves nothing.
S33  A row proves itself where it is read: one that was changed behind the store's back, or put in
     another's place, is a StoreError that names it, and so are events and links between which one
     is gone. Parts are proved by `verify` (S9), and `resolve` proves nothing: `links` does.
S34  `commit` with `take` writes the batch only if each of these leases can be taken, as by
     `acquire_lease`, else ConflictError; with `give` it releases leases, FencedError under an old
     token. Either is part of the batch: all of it is there afterwards, or nothing.
S35  `held_leases` returns the leases that are held on a project's conversations, by name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from msgspec import Struct

from upthread.core.commands import OnceState, RecordAct, RecordDecision, Write
from upthread.core.decision.examined import ExaminedFile
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    JsonValue,
    Lease,
    LeaseClaim,
    Link,
    Message,
    ProjectId,
    ProjectIdentity,
    RunId,
    TurnId,
)

SAID_WITHIN_MESSAGES: Final = 10_000
"""How far back `prior_messages` looks. Tools speak in most messages, but not in that many."""


# The order is a promise: what names another comes after it, and moves write in this order.
ProjectSection: TypeAlias = Literal[
    "project",
    "workstream",
    "conversation",
    "link",
    "link_end",
    "run",
    "run_event",
    "turn",
    "once",
    "act",
    "transition",
]
ConversationSection: TypeAlias = Literal[
    "turn_event", "part", "quarantine", "refusal", "examined", "briefing_edit"
]
Section: TypeAlias = ProjectSection | ConversationSection
"""What a store holds of a project, and of a conversation: a table each."""

PROJECT_SECTIONS: Final[tuple[ProjectSection, ...]] = get_args(ProjectSection)
CONVERSATION_SECTIONS: Final[tuple[ConversationSection, ...]] = get_args(ConversationSection)
"""In the order in which they can be written to an empty store, a project's first."""

Position: TypeAlias = "tuple[int | bytes, int]"
"""Where a row stands in a section of one store; of no meaning to another."""


class Recorded(NamedTuple):
    """Something that was written, one row of it, and where it stands."""

    place: Position
    write: Write


class Resolved(Struct, frozen=True):
    """An address as it stands. `link` is the newest one that has not ended, None without one."""

    conversation: Conversation
    link: Link | None


class Turn(Struct, frozen=True, kw_only=True):
    """A turn's identity. Its state is the fold of its events."""

    turn_id: TurnId
    conversation_id: ConversationId
    opened_at_ms: int
    run_id: RunId | None


class Run(Struct, frozen=True):
    """A run's identity. Its state is the fold of its events."""

    run_id: RunId
    project_id: ProjectId
    workstream: str
    opened_at_ms: int


class Workstream(Struct, frozen=True):
    """A workstream and the base name its instances share."""

    project_id: ProjectId
    workstream: str
    base_name: str
    opened_at_ms: int


class KnownProject(Struct, frozen=True, kw_only=True):
    """One identity under which a project is known; a project may have several."""

    project_id: ProjectId
    identity: ProjectIdentity


class Quarantined(Struct, frozen=True, kw_only=True):
    """An event whose owner is unknown."""

    turn_id: TurnId
    ordinal: int
    reason: str
    raw: JsonValue


class Once(Struct, frozen=True, kw_only=True):
    """An action that is to be done once, as its last attempt stands.

    `receipt` is what the caller gave, None included: before `done` what the action is about.
    """

    key: str
    attempt_id: str
    state: OnceState
    receipt: JsonValue
    recorded_at_ms: int


class StoredEdit(Struct, frozen=True, kw_only=True):
    """What a person made of a briefing, and its number."""

    seq: int
    edit: JsonValue
    recorded_at_ms: int


class Store(Protocol):
    """The port. All methods may raise StoreError; times are epoch milliseconds.

    Any thread may call, one at a time. What names an unknown id reads as nothing: None, 0 or empty.
    Ids are the first arguments, by position, so that `ProjectStore` can check whose they are before
    it passes a call on.
    """

    def commit(
        self,
        writes: Sequence[Write],
        *,
        fences: Sequence[Fence] = (),
        take: Sequence[LeaseClaim] = (),
        give: Sequence[Fence] = (),
    ) -> None:
        """Write all or nothing (S1-S6, S34). An empty batch with fences only checks them."""
        ...

    def resolve(self, key: ConversationKey) -> Resolved | None:
        """Return the conversation behind a key, None if none was ever opened (S12).

        None for slot 0: children share their key and are never found by it.
        """
        ...

    def conversation(self, conversation_id: ConversationId, /) -> Conversation | None:
        """Return one conversation by its id."""
        ...

    def conversations(self, project_id: ProjectId, /, workstream: str) -> tuple[Conversation, ...]:
        """Return all conversations of a workstream, children and old generations included.

        Ordered by the moment they were opened, as committed.
        """
        ...

    def workstream(self, project_id: ProjectId, /, workstream: str) -> Workstream | None:
        """Return one workstream."""
        ...

    def workstreams(self, project_id: ProjectId, /) -> tuple[Workstream, ...]:
        """Return a project's workstreams, oldest first."""
        ...

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        """Return known identities that share the root commit or the path with this one (S31)."""
        ...

    def links(self, conversation_id: ConversationId, /) -> tuple[Link, ...]:
        """Return all links of a conversation, oldest first."""
        ...

    def link_owner(self, project_id: ProjectId, /, upstream_session_id: str) -> Conversation | None:
        """Return a project's conversation whose newest link holds this session, None if none.

        Of several, the one whose link was opened last.
        """
        ...

    def messages(
        self,
        conversation_id: ConversationId,
        /,
        *,
        after_seq: int = 0,
        first: int | None = None,
        newest: int | None = None,
    ) -> tuple[Message, ...]:
        """Return messages after `after_seq`, oldest first.

        With `first` only the first so many of them: whoever reads a long conversation whole reads
        it in pages. With `newest` only the last so many; it is asked for without `first`.
        """
        ...

    def part_contents(
        self, conversation_id: ConversationId, /, *, after_seq: int = 0, first: int | None = None
    ) -> tuple[bytes | None, ...]:
        """Return what is stored of the parts of messages, which are chosen as by `messages`.

        A text as UTF-8, other parts as JSON; None for what was erased, and for what is no bytes.
        For whoever looks for words and reads messages only where they are; nothing is checked.
        """
        ...

    def prior_messages(
        self,
        conversation_id: ConversationId,
        /,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        """Return what was said in the newest so many exchanges, oldest message first (S22).

        An exchange is a prompt and its reply (core/context/prior_context.py), of a long one the
        beginning and the end. Of messages of users and assistants, with a text that is not blank,
        under no upstream session or one of the given; their other parts are left out.
        """
        ...

    def message_count(self, conversation_id: ConversationId, /) -> int:
        """Return the last message's `seq`, 0 for none."""
        ...

    def turns(
        self, conversation_id: ConversationId, /, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        """Return turns, oldest first; with `newest`, only the last so many."""
        ...

    def turn_owner(self, turn_id: TurnId, /) -> ConversationId | None:
        """Return the conversation a turn was opened in, None for an unknown turn."""
        ...

    def turn_events(self, turn_id: TurnId, /) -> tuple[TurnEvent, ...]:
        """Return a turn's events in order; empty for an unknown turn."""
        ...

    def turn_moved_at_ms(self, turn_id: TurnId, /) -> int | None:
        """Return when a turn's newest event was recorded, None before its first."""
        ...

    def runs(self, project_id: ProjectId, /, workstream: str) -> tuple[Run, ...]:
        """Return a workstream's runs, oldest first."""
        ...

    def run(self, run_id: RunId, /) -> Run | None:
        """Return one run by its id."""
        ...

    def run_events(self, run_id: RunId, /) -> tuple[RunEvent, ...]:
        """Return a run's events in order; empty for an unknown run."""
        ...

    def run_moved_at_ms(self, run_id: RunId, /) -> int | None:
        """Return when a run's newest event was recorded, None before its first."""
        ...

    def pending_transitions(self, *, due_before_ms: int) -> tuple[RunId, ...]:
        """Return the runs with a transition due and no later event, oldest first (S15).

        Due is what was due at `due_before_ms` or before.
        """
        ...

    def refusals(self, conversation_id: ConversationId, /) -> tuple[RecordDecision, ...]:
        """Return decisions that led to no turn, oldest first. Their durability is not kept."""
        ...

    def acts(self, owner: ConversationId | RunId, /) -> tuple[RecordAct, ...]:
        """Return what people did to a conversation or a run, oldest first (S30)."""
        ...

    def quarantined(self, turn_id: TurnId, /) -> tuple[Quarantined, ...]:
        """Return a turn's quarantined events, in order."""
        ...

    def examined(
        self, conversation_id: ConversationId, /, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        """Return the last word on each path, in the order those words were committed (S24).

        Of what one upstream session has examined; None: of all of the conversation's sessions.
        """
        ...

    def briefing_edit(self, conversation_id: ConversationId, /) -> StoredEdit | None:
        """Return the newest edit of a conversation's briefing, None without one (S25)."""
        ...

    def once(self, project_id: ProjectId, /, key: str) -> Once | None:
        """Return how an action that is to be done once stands, None before any attempt (S23)."""
        ...

    def verify(self, conversation_id: ConversationId, /) -> int | None:
        """Return the `seq` of the first message that does not verify (S9), None if all do."""
        ...

    def scrub(self) -> None:
        """Leave no trace of what was erased (S27). Takes as long as writing the store anew."""
        ...

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        """Take a lease and return it under its new token (S13).

        None: it is held, or has moved since it was `seen`; read it to see by whom.
        """
        ...

    def heartbeat(self, fence: Fence) -> None:
        """Raise a lease's heartbeat by one. FencedError unless held under this token (S14)."""
        ...

    def release_lease(self, fence: Fence) -> None:
        """Release a lease. FencedError under an old token; a second one changes nothing (S14)."""
        ...

    def lease(self, name: str) -> Lease | None:
        """Return a lease, None if it was never taken. One that was released has no holder."""
        ...

    def held_leases(self, project_id: ProjectId, /) -> tuple[Lease, ...]:
        """Return the leases on a project's conversations that somebody holds, by name (S35)."""
        ...

    def close(self) -> None:
        """Close the store. Idempotent; what was committed stays."""
        ...


class WholeStore(Store, Protocol):
    """A store that is read whole, over all projects: to move it. No open project is given this."""

    def act_for(self, project_id: ProjectId) -> None:
        """Serve this one project from now on (S32). For the whole of the store, open it anew."""
        ...

    def known_projects(self) -> tuple[KnownProject, ...]:
        """Return all known identities of all projects, oldest first."""
        ...

    def chain_head(self, conversation_id: ConversationId) -> bytes | None:
        """Return the end of a conversation's hash chain, None without a part.

        Of two that verify and have the same, each part has the same content, byte for byte.
        """
        ...

    def recorded(
        self, section: Section, owner: str, *, after: Position | None = None, limit: int
    ) -> tuple[Recorded, ...]:
        """Return so many rows of a section after a place, None: from its beginning (S29).

        `owner` is the project's id, or of a ConversationSection the conversation's.
        """
        ...
