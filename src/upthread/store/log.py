"""A store that is one log, in a database that speaks SQL: how a commit is made, and the statements.

Theory of operation. A commit is drafted before any lock, on the heads that the last commits of
this store have left, or as they are read. The backend then appends all of it at once, and only
where each head is still the one that was drafted on, and every lease is held. If some head has
moved, the commit is drafted again on what is there now. The same algorithm on every backend.

Statements name tables as `{at}head`, and values as `$1`. A backend defines where its tables are,
what a name is as a column, and how a statement is executed; and it appends, in its own way.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias, Unpack, cast

from upthread.core.codec import Json, encode_plain_json
from upthread.core.commands import Write
from upthread.core.types import (
    ConversationId,
    Durability,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    ProjectId,
)
from upthread.errors import ConflictError, FencedError, StoreError, UpthreadError
from upthread.store.base import Leases, Store
from upthread.store.drafting import APPLY, EVERY, Change, Drafts, StreamKey, joined
from upthread.store.kinds import FREQUENT, PARTS, SAID, ConversationState, StreamKind, own_tag, tag
from upthread.store.reads import Found, Reads, Span
from upthread.store.streams import (
    STREAMS,
    Entry,
    Head,
    Proof,
    SpokenRow,
    encoded,
    fold,
    hash_of,
    head_of,
    kept_of,
    new_head,
    not_whole,
    place_of,
    tags_of,
    text_of,
    workstream_of,
)

Row: TypeAlias = tuple[Any, ...]
"""What a database returns: column types are the schema's, not the type checker's."""

RACES_MAX = 50
"""How often a commit is drafted again because another writer was there first."""

REMEMBERED_MAX = 1_000
"""Heads. Whoever writes to more reads them again."""


class Terms(NamedTuple):
    """Leases of a commit, as `Leases` has them."""

    fences: Sequence[Fence] = ()
    take: Sequence[LeaseClaim] = ()
    give: Sequence[Fence] = ()


NO_LEASES = Terms()


class StreamMovedError(Exception):
    """A head is not the one that was drafted on, or a name is taken: draft again."""


# --- statements -----------------------------------------------------------------------------------

_HEAD = "h.id, h.kind, h.name, h.project, h.last, h.hash, h.state, h.seal"
_FOUND = (
    f"SELECT t.seq, t.nth, {_HEAD} FROM {{at}}tag AS t LEFT JOIN {{at}}head AS h"
    " ON h.id = t.stream WHERE t.tag = $1 ORDER BY t.nth"
)
_NEWEST = f"{_FOUND} DESC LIMIT 1"
_HEADS = f"SELECT {_HEAD} FROM {{{{at}}}}head AS h WHERE h.kind = '{{}}'{{}} ORDER BY h.id"
# Through an index, because the table has the state of every stream, and may have a million.
_OF_ALL = " AND h.id IN (SELECT id FROM {{at}}head WHERE kind = '{}')"
# As bytes, because a damaged text cannot be read as text. Tags first and heads last: then a stream
# that is opened meanwhile is among the heads.
_ALL_TAGS = "SELECT CAST(tag AS {bytes}), nth, stream, seq FROM {at}tag"
_ALL_STREAMS = "SELECT DISTINCT stream FROM {at}entry"
RAW_HEADS = (
    "SELECT id, CAST(kind AS {bytes}), CAST(name AS {bytes}), CAST(project AS {bytes}), last, hash,"
    " CAST(state AS {bytes}), seal FROM {at}head ORDER BY id"
)
_SPOKEN = "seq, at_ms, kept, said"
# What proves an entry: the one before it. Messages are proved by `verify` (S33).
_ENTRY = (
    "seq, kind, at_ms, kept, said, digest, hash,"
    " (SELECT b.hash FROM {at}entry AS b WHERE b.stream = $1 AND b.seq = e.seq - 1)"
)
FORGET = (
    "UPDATE {at}entry SET digest = sha256(said), said = NULL"
    " WHERE stream = $1 AND seq BETWEEN $2 AND $3 AND said IS NOT NULL AND at_ms < $4"
)
_LEASE = "SELECT token, heartbeat, holder FROM {at}lease WHERE {key} = $1"
_HELD_LEASES = (
    "SELECT name, token, heartbeat, holder FROM {at}lease"
    " WHERE name >= $1 AND name < $2 AND holder IS NOT NULL ORDER BY name"
)
# No time is compared: clocks differ. Whoever asks has measured with a clock of its own for how long
# a lease has stood still (ADR 10).
TAKE = (
    "INSERT INTO {at}lease AS l (name, token, heartbeat, holder) VALUES ($1, 1, 1, $2)"
    " ON CONFLICT ({key}) DO UPDATE SET"
    " token = l.token + 1, heartbeat = l.heartbeat + 1, holder = excluded.holder"
    " WHERE l.holder IS NULL OR (l.token = $3 AND l.heartbeat = $4) RETURNING token, heartbeat"
)
_BEAT = (
    "UPDATE {at}lease SET heartbeat = heartbeat + 1"
    " WHERE {key} = $1 AND token = $2 AND holder IS NOT NULL RETURNING token"
)
RELEASE = "UPDATE {at}lease SET holder = NULL WHERE {key} = $1 AND token = $2 RETURNING token"

# `restored` alone is of the whole store, as after `restore`; with a project's id it was moved here.
_RESTORED = "SELECT value FROM {at}meta WHERE name IN ('restored', 'restored ' || {text})"
_MARK_RESTORED = (
    "INSERT INTO {at}meta (name, value) VALUES (rtrim('restored ' || {text}), $2)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING value"
)

_HOLDER = Json(Holder, "lease")


class LogStore(Store):
    """What a backend has in common with the others. No open project is given the whole of one.

    `index` is how a statement is made to use one.
    """

    index: ClassVar[str] = ""

    def __init__(self) -> None:
        self._heads: dict[StreamKey, Head] = {}

    # --- what a backend does ----------------------------------------------------------------------

    @abstractmethod
    def append(
        self, changes: Sequence[Change], leases: Terms = NO_LEASES, *, is_synced: bool = True
    ) -> Sequence[int]:
        """Append to streams, all or nothing, and return their rows, in the order of `changes`.

        StreamMovedError where a head is not as drafted or a tag is taken; FencedError and
        ConflictError for leases, as `commit`.
        """

    @abstractmethod
    def act_for(self, project_id: ProjectId) -> None:
        """Serve this one project from now on (S32). For the whole of the store, open it anew."""

    @abstractmethod
    def read(self, statement: str, *values: Any) -> list[Row]:
        """Return all rows of a statement that reads."""

    @abstractmethod
    def write(self, statement: str, *values: Any, is_repeatable: bool = True) -> list[Row]:
        """Commit a statement of its own, which is not synced, and return its rows.

        Where it is not repeatable, it is not executed again when a connection is lost.
        """

    @abstractmethod
    def column(self, name: str) -> str | bytes:
        """Return a name as a column has it."""

    @abstractmethod
    def lease_key(self, name: str) -> str | bytes:
        """Return what a lease is found by."""

    @abstractmethod
    def among(self, seqs: Sequence[int]) -> tuple[str, Row]:
        """Return the condition for entries of these numbers, $2 and so on, and its values."""

    def read_each(self, statement: str, *values: Any) -> Iterable[Row]:
        """Return the rows of a statement that may have more than memory should hold."""
        return self.read(statement, *values)

    # --- a commit ---------------------------------------------------------------------------------

    def commit(self, writes: Sequence[Write], **leases: Unpack[Leases]) -> None:
        terms = Terms(**leases)
        if not (writes or any(terms)):
            return
        is_synced = any(write.durability >= Durability.SYNCED for write in writes)
        is_careful = False
        for _ in range(RACES_MAX):
            try:
                if is_careful:
                    self._heads.clear()
                drafts = Drafts(self, self._heads, is_careful=is_careful)
                for write in joined(writes):
                    APPLY[type(write)](drafts, write)
            except UpthreadError:
                if is_careful:
                    # A writer that has lost its lease is told that, whatever else is wrong.
                    self.append((), Terms(terms.fences))
                    raise
                # What was remembered may be out of date, and the error with it.
                is_careful = True
                continue
            changes = [change for change in drafts.changes.values() if not change.is_empty]
            try:
                rows = self.append(changes, terms, is_synced=is_synced)
            except StreamMovedError:
                is_careful = True
                continue
            except BaseException:
                self._heads.clear()
                raise
            self._learn(drafts, changes, rows)
            return
        raise ConflictError("other writers were first each time", hint="do it again later")

    def _learn(self, drafts: Drafts, changes: Sequence[Change], rows: Sequence[int]) -> None:
        for change, row in zip(changes, rows, strict=True):
            change.head.row = row
        # All at once: to drop the oldest alone, each commit would have to keep an order.
        if len(self._heads) > REMEMBERED_MAX:
            self._heads.clear()
        for key, change in drafts.changes.items():
            self._heads[key] = change.head

    # --- reads ------------------------------------------------------------------------------------

    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        rows = self.read(_NEWEST if newest else _FOUND, self.column(text))
        return tuple([Found(head_of(row[2:], text), row[0], row[1]) for row in rows])

    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        some = () if project_id is None else (self.column(project_id),)
        where = " AND h.project = $1" if some else _OF_ALL.format(kind)
        return tuple(map(head_of, self.read(_HEADS.format(kind, where), *some)))

    def streams(self, project_id: ProjectId) -> Iterator[Head]:
        """Yield the heads of a project's streams, in the order in which they can be made."""
        for kind in STREAMS:
            yield from self.heads(project_id, kind)

    def entries(self, span: Span) -> Sequence[Entry]:
        if span.only is not None:
            where, values = self.among(span.only)
            statement = f"SELECT {_ENTRY} FROM {{at}}entry AS e WHERE stream = $1 AND {where}"
            return list(map(Entry._make, self.read(f"{statement} ORDER BY seq", span.row, *values)))
        is_newest = span.newest is not None
        rows = self.read(_select(_ENTRY, span.kinds, is_newest, self.index), *_bounds(span))
        return list(map(Entry._make, rows[::-1] if is_newest else rows))

    def spoken(self, span: Span) -> Iterable[SpokenRow]:
        statement = _select(_SPOKEN, span.kinds, span.newest is not None, self.index)
        read = self.read if span.limit is not None else self.read_each
        return cast("Iterable[SpokenRow]", read(statement, *_bounds(span)))

    def verify(self, conversation_id: ConversationId) -> int | None:
        head = self.head("conversation", conversation_id)
        try:
            if head is not None:
                prove(self, head)
        except StoreError as error:
            if "seq" not in error.ids:
                raise
            return int(error.ids["seq"])
        return None

    def proofs(
        self, project_id: str | None = None, workstream: str | None = None
    ) -> Iterator[Proof]:
        tags: defaultdict[int, dict[tuple[bytes, int], int]] = defaultdict(dict)
        for text, nth, row, seq in self.read(_ALL_TAGS):
            tags[row][text, nth] = seq
        named = {row for (row,) in self.read(_ALL_STREAMS)}
        heads = {columns[0]: columns for columns in self.read(RAW_HEADS)}
        for row in sorted({*heads, *tags, *named}):
            texts = {text.decode(errors="replace") for text, _ in tags[row]}
            own = (each for each in texts if each.partition(" ")[0] in STREAMS)
            name, head, damage = next(own, f"stream {row}"), None, None
            try:
                head = head_of(heads.get(row, (None,) * 8), name)
                name = f"{head.kind} {head.name}"
                if _is_in(head, texts, project_id, workstream):
                    prove(self, head, tags[row])
            except StoreError as error:
                damage = error
            if _is_in(head, texts, project_id, workstream):
                yield Proof(name, head, damage)

    # --- restores ---------------------------------------------------------------------------------

    def restored_at_ms(self, project_id: ProjectId) -> int | None:
        rows = self.read(_RESTORED, self.column(project_id))
        return max((value for (value,) in rows), default=None)

    def mark_restored(self, at_ms: int, project_id: str = "") -> None:
        """Record that a backup took the place of a database, for a project or for all of them.

        It is on the disk with the next commit that is synced.
        """
        self.write(_MARK_RESTORED, self.column(project_id), at_ms)

    # --- leases -----------------------------------------------------------------------------------

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        values = self.claim_columns(LeaseClaim(name=name, holder=holder, seen=seen))
        # Not repeatable: it may have been taken, and by us. Nor synced, as heartbeats are not: the
        # power cut that takes it takes the holder, too.
        for token, heartbeat in self.write(TAKE, *values, is_repeatable=False):
            return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)
        return None

    def claim_columns(self, claim: LeaseClaim) -> Row:
        """Return the values of the statement that takes a lease."""
        seen = (None, None) if claim.seen is None else (claim.seen.token, claim.seen.heartbeat)
        holder = encode_plain_json(claim.holder).decode()
        return (self.column(claim.name), self.column(holder), *seen)

    def fence_columns(self, fence: Fence) -> Row:
        """Return the values by which a lease is known under a token."""
        return (self.lease_key(fence.name), fence.token)

    def heartbeat(self, fence: Fence) -> None:
        if not self.write(_BEAT, *self.fence_columns(fence)):
            raise lost_lease(fence)

    def release_lease(self, fence: Fence) -> None:
        if not self.write(RELEASE, *self.fence_columns(fence)):
            raise lost_lease(fence)

    def lease(self, name: str) -> Lease | None:
        for row in self.read(_LEASE, self.lease_key(name)):
            return _lease_of(name, *row)
        return None

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        first = f"conversation {project_id}"
        # Between a blank and the character that follows it.
        rows = self.read(_HELD_LEASES, self.column(f"{first} "), self.column(f"{first}!"))
        return tuple(_lease_of(*row) for row in rows)


@lru_cache(maxsize=100)
def _select(columns: str, kinds: tuple[str, ...], is_newest: bool, index: str) -> str:  # noqa: FBT001
    """Return the statement for entries of stream $1, after $2 and before $3, $4 of them."""
    where = f" AND kind IN ({', '.join(map(repr, kinds))})" if kinds else ""
    name = "entry_by_place"
    # A partial index is used only where its condition stands in the statement, word by word.
    if kinds and not set(kinds) & set(FREQUENT):
        name = "entry_rare"
        where += f" AND kind NOT IN ({', '.join(map(repr, FREQUENT))})"
    elif kinds == (SAID,):
        name, where = "entry_said", " AND kind = 'said'"
    return (
        f"SELECT {columns} FROM {{at}}entry AS e{index.format(name)}"
        f" WHERE stream = $1 AND seq > $2 AND seq < $3{where}"
        f" ORDER BY seq {'DESC' if is_newest else 'ASC'} LIMIT $4"
    )


def _bounds(span: Span) -> tuple[int, ...]:
    return (span.row, span.after, span.before, EVERY if span.limit is None else span.limit)


def _lease_of(name: str | bytes, token: int, heartbeat: int, holder: Any) -> Lease:
    held_by = None if holder is None else _HOLDER.decode(holder)
    return Lease(name=text_of(name), token=token, heartbeat=heartbeat, holder=held_by)


def lost_lease(fence: Fence) -> FencedError:
    """Return the error of a writer whose lease is no longer held under its token (S4, S14)."""
    return FencedError(
        f"another process has taken over {fence.name!r}, so nothing was written",
        hint="end this process: the other one continues the work",
        name=fence.name,
    )


def taken_lease(name: str) -> ConflictError:
    """Return the error of a writer whose commit takes a lease that somebody else holds (S34)."""
    return ConflictError(
        f"the lease {name!r} is held by somebody else; nothing was written",
        hint="read the lease again",
        name=name,
    )


def _is_in(
    head: Head | None, texts: set[str], project_id: str | None, workstream: str | None
) -> bool:
    """Return whether a stream belongs to a workstream by its head or by its tags.

    A stream without a head and without such a tag may belong to any.
    """
    if project_id is None or workstream is None:
        return head is None or project_id in {None, head.project_id}
    homes = {each for each in texts if each.startswith(("in ", "workstream "))}
    own = {own_tag("workstream", workstream, project_id), tag("in", project_id, workstream)}
    if head is None:
        return not homes or not own.isdisjoint(homes)
    is_own = (head.project_id, workstream_of(head)) == (project_id, workstream)
    return is_own or not own.isdisjoint(homes)


# --- the proof that a stream is what was recorded -----------------------------------------------
# A read proves the entries that it returns; here a whole stream is proved, its chain, its head and
# its tags (S9, S33). It is read in pages: it may be larger than memory should hold.


Tags: TypeAlias = Mapping[tuple[bytes, int], int]
"""The tags of a stream by their texts and places, and the entries that they name."""


def prove(reads: Reads, head: Head, tags: Tags = MappingProxyType({})) -> None:
    """Raise StoreError where a stream is not what was recorded.

    An entry does not verify or is missing, the entries make another head, or a tag of an entry does
    not lead here. The error of a conversation's entry has its message as `seq` in its ids. `tags`
    are all that lead to the stream, read before its head; then a tag that no entry gives is an
    error, too.
    """
    made = new_head(head.kind, head.name, head.project_id, head.row)
    message = 0
    given: dict[tuple[bytes, int], int] = {}
    for entry in reads.all_entries(head.row):
        is_next = entry.seq == made.last + 1 and hash_of(entry, made.hash) == entry.hash
        # Somebody may have written since the head was read.
        if not is_next or (entry.seq == head.last and entry.hash != head.hash):
            raise _damaged(head, entry.seq, message, entry)
        made.last, made.hash = entry.seq, entry.hash
        value = kept_of(entry)
        if entry.seq <= head.last:
            fold(made, entry.at_ms, value)
        if entry.kind in PARTS:
            message = value.seq
        for text, nth, seq in tags_of(made, value):
            given[text.encode(), head.row if nth is None else nth] = seq
    if made.last < head.last:
        raise _damaged(head, made.last + 1, message)
    if encoded(made)[0] != encoded(head)[0]:
        raise not_whole(f"the head of {head.kind} {head.name}")
    _compare_tags(reads, made, given, tags)


def _damaged(head: Head, seq: int, before: int, entry: Entry | None = None) -> StoreError:
    """Return the error of a damaged entry after message `before`, or of a missing one."""
    if not isinstance(head.state, ConversationState):
        return not_whole(f"entry {seq} of {head.kind} {head.name}")
    message = before + 1
    if entry is not None and entry.kind in PARTS:
        with suppress(StoreError):
            message = min(place_of(entry.kept).seq, message)
    message = max(1, min(message, head.state.messages or 1))
    return not_whole(f"message {message} of conversation {head.name}", seq=str(message))


def _compare_tags(reads: Reads, head: Head, given: Tags, tags: Tags) -> None:
    """Raise StoreError for a tag that an entry gives and that is not there, and the reverse."""
    of = f"{head.kind} {head.name}"
    for (text, nth), seq in given.items():
        # A tag that was written since is read now. It may name a later entry.
        if tags.get((text, nth)) != seq and not any(
            (found.head.row, found.nth) == (head.row, nth)
            and (found.seq == seq or head.last < found.seq <= found.head.last)
            for found in reads.found(text.decode())
        ):
            raise not_whole(f"{text.decode()}, by which {of} is found,")
    for text, _ in tags.keys() - given.keys():
        raise not_whole(f"{text.decode(errors='replace')}, which leads to {of},")
