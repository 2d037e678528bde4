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
S9   Every entry has the SHA-256 of what was said, chained per stream; `verify` names the first
     message that does not match, None when all do, and notices an end that is missing. Reading
     messages computes no digests, but one that is missing or cannot be decoded raises StoreError:
     none is ever skipped.
S10  One key and generation has one conversation, whoever asks at the same moment.
S11  One workstream has one base name, and within a project no two have the same.
S12  `resolve` returns the highest generation of the key and its newest open link, and costs the
     same for one conversation and for a million.
S13  A lease has one holder. `acquire_lease` with `seen=None` succeeds on a free or released lease;
     with `seen`, also on one that has not moved since it was seen. Each success raises the token.
S14  A heartbeat or release under an old token raises FencedError and changes nothing; so does a
     heartbeat on a released lease. A second release under the same token changes nothing.
S15  A run's head holds its newest transition, and when that is due, exactly while no later event
     has settled it.
S16  Opening a new store from many processes at once succeeds in each of them.
S17  A store written by a newer version is refused with StoreError and left as it is.
S18  A failed write (full disk, I/O error, read-only file system) raises StoreError; what was
     committed before is still there, and the store works again when the cause is gone.
S19  Names and texts are data: quotes, `../`, NUL or 4 kB in a name never reach SQL or a path.
S20  Conversations of two projects never meet, whatever their names.
S21  A write that names a workstream, conversation, link, turn or run that was never opened raises
     NotFoundError, and nothing of the batch is there. An earlier write of the batch may open it.
S22  `prior_messages` returns what was said over the given sessions in the newest so many exchanges,
     by sequence number, and of a reply in many steps its first and its last ones. It costs the
     same over one link and over sixteen, after a hundred messages and after a million, and
     whatever tools did between them.
S23  Of many callers that write an intent under one key of a project, each as an attempt of its own,
     exactly one gets in; the others get ConflictError, until that attempt has failed. An attempt
     ends once, done or failed; an end without its intent raises NotFoundError.
S24  `examined` returns the last word on each path, in the order those words were committed; of one
     upstream session or of all. Sizes and times come back to the byte and the nanosecond. One file
     without a name stands for those whose words were forgotten.
S25  `briefing_edit` returns the newest edit. Edits of a conversation are numbered from 1 without a
     gap, so that of two persons who edit at once the second is told.
S26  What is erased is gone from every read, and what is left is what it was: numbers, order,
     owners, times, kinds, and digests, so that the conversation verifies as before. Nothing of any
     other conversation or run changes. Erasing again changes nothing.
S27  After `scrub` no file of the store holds a byte of what was erased: no free page, no log, no
     index. What was not erased is as it was. StoreError when it cannot be promised.
S29  A copy is the same entries: appended to another store, of any backend, they make the same
     heads with the same hash, which a stream with other content has not, and every read answers
     alike. What was forgotten is copied by its digest.
S30  Acts are kept once each, in the order of their commits, and stay when what they were about is
     erased.
S31  `projects` returns identities of the same root commit, and those of the same path that have the
     same owner or none: a path of another account or host is another place.
S32  A store that acts for a project reads and writes that one's rows as before, and may be used
     for it alone. A backend that several people share refuses all else, whatever id is named: other
     projects' rows read as nothing, and a write that names them is an error and leaves nothing.
S33  A read proves the entries that it returns, and a head proves itself: one that was changed
     behind the store's back, or put in another's place, is a StoreError that names it, and so are
     events and links between which one is gone. Messages are proved by `verify` (S9), which proves
     the whole chain. `proofs` names every stream with a damaged entry, head or tag, whatever leads
     to it, and a stream whose head is gone.
S34  `commit` with `take` writes the batch only if each of these leases can be taken, as by
     `acquire_lease`, else ConflictError; with `give` it releases leases, FencedError under an old
     token. Either is part of the batch: all of it is there afterwards, or nothing.
S35  `held_leases` returns the leases that are held on a project's conversations, by name.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypedDict, Unpack

from upthread.core.commands import Write
from upthread.core.types import ConversationId, Fence, Holder, Lease, LeaseClaim, ProjectId
from upthread.store.reads import Reads
from upthread.store.streams import Proof


class Leases(TypedDict, total=False):
    """Leases of a commit: `fences` must be held, `take` are taken, and `give` are released."""

    fences: Sequence[Fence]
    take: Sequence[LeaseClaim]
    give: Sequence[Fence]


class Store(Reads):
    """The port: what callers have of a store, and all that is read of it (reads.py).

    All methods may raise StoreError; times are epoch milliseconds. Any thread may call, one at a
    time. A backend is a `LogStore` (log.py), which makes `commit` of what it appends.
    """

    @abstractmethod
    def commit(self, writes: Sequence[Write], **leases: Unpack[Leases]) -> None:
        """Write all or nothing (S1-S6, S34). An empty batch with fences only checks them."""

    @abstractmethod
    def verify(self, conversation_id: ConversationId) -> int | None:
        """Return the first message that a conversation's chain does not prove, None: none (S9)."""

    @abstractmethod
    def proofs(
        self, project_id: str | None = None, workstream: str | None = None
    ) -> Iterator[Proof]:
        """Yield the proof of each stream of the store, of a project, or of a workstream.

        A stream is proved by its entries: its head and its tags are exactly what they make (S33).
        """

    @abstractmethod
    def restored_at_ms(self, project_id: ProjectId) -> int | None:
        """Return when a backup took the place of a database that could not be read; 0 if it could.

        None for a project whose record was never restored. A mark of the whole store counts for
        every project, and `move` takes it along for each.
        """

    @abstractmethod
    def scrub(self) -> None:
        """Leave no trace of what was erased (S27). Takes as long as writing the store anew."""

    @abstractmethod
    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        """Take a lease and return it under its new token (S13).

        None: it is held, or has moved since it was `seen`; read it to see by whom.
        """

    @abstractmethod
    def heartbeat(self, fence: Fence) -> None:
        """Raise a lease's heartbeat by one. FencedError unless held under this token (S14)."""

    @abstractmethod
    def release_lease(self, fence: Fence) -> None:
        """Release a lease. FencedError under an old token; a second one changes nothing (S14)."""

    @abstractmethod
    def lease(self, name: str) -> Lease | None:
        """Return a lease, None if it was never taken. One that was released has no holder."""

    @abstractmethod
    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        """Return the leases on a project's conversations that somebody holds, by name (S35)."""

    @abstractmethod
    def close(self) -> None:
        """Close the store. Idempotent; what was committed stays."""
