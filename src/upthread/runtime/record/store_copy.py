"""A project's whole record from one store to another, and the proof that it is there.

Theory of operation. A store is read as the writes that made it, section by section, and what the
other store has not is committed to it. Whatever was committed is whole, and is compared and not
written when it is met again: so a move that was killed goes on by being made again. The source is
only read. At the end both are read anew and compared row by row, and each conversation's hash chain
is computed from what arrived: it ends as the source's does only where every byte is the same.

What is due goes last, when all else has been proved: from then on a worker may go on with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from typing import Final

from msgspec import Struct, field, structs

from upthread.core.commands import EnqueueTransition, OpenConversation, RecordProject, Write
from upthread.core.types import (
    CHILD_SLOT,
    ConversationId,
    Durability,
    Lease,
    ProjectId,
    ProjectIdentity,
)
from upthread.errors import ConflictError, StoreError
from upthread.runtime.lease import conversation_lease, workstream_lease
from upthread.store.base import (
    CONVERSATION_SECTIONS,
    PROJECT_SECTIONS,
    Section,
    LogStore,
)

PAGE_ROWS: Final = 200
"""How many rows are read at once, and committed at once."""

WAITING_MAX: Final = 10_000
"""How many rows may be missing before one that is there. More is no interrupted move."""

_WHEN_ALL_IS_PROVED: Final[Section] = "transition"

Owned = tuple[Section, str]


def _nothing(_rows: int) -> None:
    """Tell nobody."""


class ToMove(Struct, frozen=True, kw_only=True):
    """A project as a move finds it.

    `rows` are those of the source by section, `there` how many of all are in the target already.
    """

    project_id: ProjectId
    identities: tuple[ProjectIdentity, ...]
    rows: Counter[Section] = field(default_factory=Counter[Section])
    conversations: tuple[ConversationId, ...] = ()
    there: int = 0

    @property
    def left(self) -> int:
        """How many rows are still to be written."""
        return self.rows.total() - self.there


class Move:
    """Moves projects from one store to another. Blocking; `on_rows` hears how many were written.

    `target` None is one that is still to be made: what would be moved there can be planned.
    """

    def __init__(
        self,
        source: LogStore,
        target: LogStore | None,
        *,
        now_ms: Callable[[], int],
        on_rows: Callable[[int], None] = _nothing,
    ) -> None:
        self._source = source
        self._target = target
        self._now_ms = now_ms
        self._on_rows = on_rows

    def plan(self, project_id: ProjectId) -> ToMove:
        """Compare what is there with what is to come, and write nothing.

        ConflictError when the target holds what the source does not. StoreError for a conversation
        of the source that does not verify.
        """
        rows: Counter[Section] = Counter()
        conversations = tuple(_conversations(self._source, project_id))
        # Before anything is compared: a chain that is broken here could not be proved there.
        for conversation_id in conversations:
            self._must_verify(self._source, conversation_id)
        missing = 0
        for owned in _sections(project_id, conversations):
            written = _Counted(_written(self._source, owned))
            missing += sum(1 for _ in self._missing(owned, written))
            rows[owned[0]] += written.count
        return ToMove(
            project_id=project_id,
            identities=_identities(self._source, project_id),
            rows=rows,
            conversations=conversations,
            there=rows.total() - missing,
        )

    def make(self, project: ToMove) -> None:
        """Write what is missing, and prove it. ConflictError and StoreError: it is not done."""
        sections = list(_sections(project.project_id, project.conversations))
        for owned in sections:
            if owned[0] != _WHEN_ALL_IS_PROVED:
                self._write(owned)
        for owned in sections:
            if owned[0] != _WHEN_ALL_IS_PROVED:
                self._must_be_equal(owned)
        for conversation_id in project.conversations:
            self._must_verify(self._made, conversation_id)
            ends = [s.chain_head(conversation_id) for s in (self._source, self._made)]
            # Not `verify` alone: a chain of other content verifies as well (S29).
            if ends[0] != ends[1]:
                raise _not_equal(f"the hash chain of {conversation_id}")
        self._write((_WHEN_ALL_IS_PROVED, project.project_id))

    # --- below: how ----------------------------------------------------------------------------

    @property
    def _made(self) -> LogStore:
        assert self._target is not None, "nothing is written before there is a target"
        return self._target

    def _there(self, owned: Owned) -> Iterator[Write]:
        return iter(()) if self._target is None else _written(self._target, owned)

    def _write(self, owned: Owned) -> None:
        missing = self._missing(owned, _written(self._source, owned))
        while batch := list(islice(missing, PAGE_ROWS)):
            due = [self._due_from_now(write) for write in batch]
            # One sync a page: it covers all that was committed before it (S5).
            due[-1] = structs.replace(due[-1], durability=Durability.SYNCED)
            self._made.commit(due)
            self._on_rows(len(batch))

    def _due_from_now(self, write: Write) -> Write:
        """Let what is due later be so by the target's clock, too."""
        if not isinstance(write, EnqueueTransition):
            return write
        # Delays are counted by the server, and its clock is another one (ADR 36).
        return structs.replace(write, delay_ms=max(0, write.due_at_ms - self._now_ms()))

    def _missing(self, owned: Owned, written: Iterable[Write]) -> Iterator[Write]:
        """Yield what the target has not; it is read to its end before anything is yielded.

        ConflictError when it has what the source has not, or has it in another order.
        """
        if owned[0] == "project":  # another clone may have made itself known there
            known = {repr(write) for write in self._there(owned)}
            yield from [write for write in written if repr(write) not in known]
            return
        waiting: list[Write] = []
        there = self._there(owned)
        theirs = next(there, None)
        for write in written:
            if theirs is None:
                yield from waiting
                waiting.clear()
                yield write
            elif _is_same(write, theirs):
                theirs = next(there, None)
            # Held back until all of the target is met: what only that one has
            # is a conflict, and is found before anything is written (ADR 48).
            elif len(waiting) < WAITING_MAX:
                waiting.append(write)
            else:
                raise _other_content(owned)
        if theirs is not None:
            raise _other_content(owned)
        yield from waiting

    def _must_be_equal(self, owned: Owned) -> None:
        if owned[0] == "project":
            if list(self._missing(owned, _written(self._source, owned))):
                raise _not_equal("the identities of the project")
            return
        # Read anew from both: what was written is believed no more than what was there.
        both = (_written(store, owned) for store in (self._source, self._made))
        for number, (ours, theirs) in enumerate(zip_longest(*both), start=1):
            if ours is None or theirs is None or not _is_same(ours, theirs):
                raise _not_equal(f"row {number} of {owned[0]} of {owned[1]}")

    def _must_verify(self, store: LogStore, conversation_id: ConversationId) -> None:
        damaged = store.verify(conversation_id)
        if damaged is None:
            return
        if store is self._target:
            raise _not_equal(f"message {damaged} of {conversation_id}")
        raise StoreError(
            f"message {damaged} of {conversation_id} does not match its digest: nothing was moved",
            hint="something else has changed the source: see `upthread doctor`, or put a backup "
            "in its place",
            conversation_id=conversation_id,
        )


def leases_held(store: LogStore, project_id: ProjectId) -> Iterator[Lease]:
    """Yield the leases that somebody holds on a project's workstreams and conversations."""
    for known in store.workstreams(project_id):
        names = {workstream_lease(project_id, known.workstream)} | {
            conversation_lease(project_id, each.key.address)
            for each in store.conversations(project_id, known.workstream)
            if each.key.slot != CHILD_SLOT
        }
        for name in sorted(names):
            lease = store.lease(name)
            if lease is not None and lease.holder is not None:
                yield lease


class _Counted:
    """An iterator that counts what it gave."""

    def __init__(self, writes: Iterator[Write]) -> None:
        self._writes = writes
        self.count = 0

    def __iter__(self) -> Iterator[Write]:
        for write in self._writes:
            self.count += 1
            yield write


def _sections(project_id: ProjectId, conversations: Iterable[ConversationId]) -> Iterator[Owned]:
    """Yield all there is of a project, in the order in which it can be written."""
    for section in PROJECT_SECTIONS:
        yield section, project_id
    for conversation_id in conversations:
        for each in CONVERSATION_SECTIONS:
            yield each, conversation_id


def _written(store: LogStore, owned: Owned) -> Iterator[Write]:
    section, owner = owned
    after = None
    while page := store.recorded(section, owner, after=after, limit=PAGE_ROWS):
        yield from (each.write for each in page)
        after = page[-1].place


def _conversations(store: LogStore, project_id: ProjectId) -> Iterator[ConversationId]:
    for write in _written(store, ("conversation", project_id)):
        if isinstance(write, OpenConversation):
            yield write.conversation.conversation_id


def _identities(store: LogStore, project_id: ProjectId) -> tuple[ProjectIdentity, ...]:
    written = _written(store, ("project", project_id))
    return tuple(write.identity for write in written if isinstance(write, RecordProject))


def _is_same(one: Write, other: Write) -> bool:
    """As text: NaN is not equal to itself, and 1, 1.0 and True are."""
    return repr(one) == repr(other)


def _other_content(owned: Owned) -> ConflictError:
    section, owner = owned
    return ConflictError(
        f"the target holds what the source does not: {section} of {owner}. Nothing was overwritten",
        hint="it was worked on there, or comes from elsewhere: name an empty database, or go on "
        "with that one",
        section=section,
    )


def _not_equal(what: str) -> StoreError:
    return StoreError(
        f"{what} is not the same in the target: it is not moved",
        hint="has anybody worked on it meanwhile? Let them end, then do it again: what is there "
        "is kept and compared",
    )
