"""One transaction's view of the database: what its writes name, known before they are applied.

Theory of operation. SQLite has one writer at a time; here each write has to keep off those that
would get in its way. Leases are share-locked, so that nobody takes one over before the commit.
Conversations are locked, so that parts are chained one after the other. All else is guarded by a
unique key: whoever comes second does its transaction again. Locks are taken in one order, leases
by name, then conversations by row.

What the writes name is looked up together at the start, by a `Transaction`, or is remembered from
an earlier one: see remembered.py. A `Batch` is the same to the writes in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, field

from upthread.core.codec import encode_text, encode_word
from upthread.core.commands import EnqueueTransition
from upthread.core.types import Fence, LeaseClaim
from upthread.store._rules import lost_lease, must_exist, taken_lease
from upthread.store.postgres.at_once import Statement, at_once
from upthread.store.postgres.queries import QUERIES, to_columns
from upthread.store.postgres.server import Connection, Statements
from upthread.store.sql.batch import NO_PART, Column, Owner, Row, Step, Tail, from_columns

AnyLease = TypeVar("AnyLease", Fence, Fence | LeaseClaim)


class Opened(NamedTuple):
    """A turn or run: what it was opened with, its last event's seq, where its next file goes."""

    columns: Row
    last_event: int
    next_file: int = 0


AT_ONCE_BYTES_MAX: Final = 1_000_000


class Known(Struct, kw_only=True):
    """What is known of what a batch names. `tails` are of the conversations that exist."""

    tails: dict[bytes, Tail] = field(default_factory=dict[bytes, Tail])
    turns: dict[bytes, Opened] = field(default_factory=dict[bytes, Opened])
    runs: dict[bytes, Opened] = field(default_factory=dict[bytes, Opened])


class Batch:
    """One transaction's writes, as `store.sql.batch.Batch` has it: owners are their ids as bytes.

    `send` waits for nothing; `ask` waits for the server's rows.
    """

    def __init__(
        self,
        known: Known,
        *,
        send: Callable[[str, Sequence[Column]], None],
        ask: Callable[[str, Sequence[Column]], list[Row]],
    ) -> None:
        self._tails = known.tails
        self._opened: Mapping[Owner, dict[bytes, Opened]] = {"turn": known.turns, "run": known.runs}
        self.grown: dict[bytes, bytes] = {}
        """Conversations that got parts, and the chain each ended with before."""
        # As attributes: there is a call for each row.
        self.execute: Callable[[str, Sequence[Column]], None] = send
        self.content_rows: Callable[[str, Sequence[Column]], list[Row]] = ask

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        found = self.content_row(query, values)
        return None if found is None else from_columns(found)

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        rows = self.content_rows(query, values)
        return rows[0] if rows else None

    def number(self, query: str, values: Sequence[Column]) -> int:
        found = self.content_row(query, values)
        return int(found[0] or 0) if found else 0

    def owner(self, table: Owner, name: str, *, within: str | None = None) -> bytes:
        owner = encode_word(name)
        known = self._tails if table == "conversation" else self._opened[table]
        is_known = owner in known
        if is_known and within is not None:
            is_known = self._opened[table][owner].columns[0] == within
        if not is_known:
            must_exist(None, what=table, name=name)
        return owner

    def upstream(self, name: str | None) -> bytes | None:
        return None if name is None else encode_word(name)

    def opened(self, table: Owner, name: str) -> Row | None:
        found = self._opened[table].get(encode_word(name))
        return None if found is None else found.columns

    def open(self, table: Owner, name: str, values: Sequence[Column], given: Row) -> None:
        self.execute(f"open_{table}", values)
        owner = encode_word(name)
        if table == "conversation":
            self._tails[owner] = NO_PART
        else:
            # A write that comes after it in the batch may name it (S21).
            self._opened[table][owner] = Opened(given, 0)

    def append_event(
        self, table: Owner, name: str, seq: int, event: tuple[Column, bytes, int]
    ) -> bool:
        owner = self.owner(table, name)
        known = self._opened[table]
        columns, last, next_file = known[owner]
        if seq != last + 1:
            return False
        self.execute(f"record_{table}_event", (owner, seq, *event))
        known[owner] = Opened(columns, seq, next_file)
        return True

    def last_event(self, table: Owner, owner: bytes) -> int:
        return self._opened[table][owner].last_event

    def enqueue(self, run: bytes, write: EnqueueTransition) -> None:
        queue = encode_text(write.queue) if write.queue else None
        due = (write.due_at_ms, write.delay_ms)
        # The job is made from the transition's row, and only if no later event has settled that.
        self.execute("enqueue_transition", (run, write.run_seq, *due, queue))
        self.execute("enqueue_job", (run, write.run_seq, write.delay_ms))

    def place_files(self, turn: bytes, ordinals: range) -> Mapping[int, Row]:
        """Return what is stored at some places of a turn; most often that is known: nothing."""
        opened = self._opened["turn"][turn]
        stored: list[Row] = []
        if ordinals and ordinals.start < opened.next_file:
            place = (turn, ordinals.start, ordinals.stop - 1)
            stored = self.content_rows("examined_files", place)
        if ordinals and ordinals.stop > opened.next_file:
            self._opened["turn"][turn] = opened._replace(next_file=ordinals.stop)
        return {row[0]: row[1:] for row in stored}

    def append_attempt(self, last: Row | None, values: Sequence[Column]) -> None:
        # Numbered by what was read: whoever reads the same at the same moment takes the same
        # number, and the unique key lets one of the two in (S23).
        self.execute("record_once", (*values, 1 if last is None else last[4] + 1))

    def tail(self, conversation: bytes) -> Tail:
        return self._tails[conversation]

    def grow(self, conversation: bytes, tail: Tail) -> None:
        # The end before the first of its parts here: that is what the server has.
        self.grown.setdefault(conversation, self._tails[conversation].chain)
        self._tails[conversation] = tail


class Transaction:
    """A transaction: what it looks up, then what it writes, each sent at once.

    Between the two the connection is idle, and whoever is stopped there is cut off in time. Of much
    that is written, each megabyte is an exchange of its own: it is kept in memory until it is sent.
    """

    def __init__(self, connection: Connection, before: Statements = ()) -> None:
        self._connection = connection
        self._before = before
        self._written: list[Statement] = []
        self._written_bytes = 0

    def look_up(
        self, steps: Sequence[Step], fences: Sequence[Fence], take: Sequence[LeaseClaim] = ()
    ) -> Known:
        """Check and take the leases, and read what the steps name.

        FencedError for a lease that is lost, ConflictError for one that cannot be taken.
        """
        leases_named: list[Fence | LeaseClaim] = [*fences, *take]
        ordered = in_order(leases_named)
        # Leases before conversations, and ends after their locks: every statement sees what was
        # committed before it began, so one that came first would not see what was waited for.
        leases = [
            (QUERIES["keep_held"], (encode_text(each.name), each.token))
            if isinstance(each, Fence)
            else (QUERIES["take_lease"], columns_of_claim(each))
            for each in ordered
        ]
        conversations = _named([step.conversation for step in steps])
        names = {
            "lock_conversations": conversations,
            "tails": conversations,
            "turns_to_write": _named([step.turn for step in steps]),
            "runs_to_write": _named([step.run for step in steps]),
        }
        questions = {query: (QUERIES[query], (named,)) for query, named in names.items() if named}
        said = at_once(self._connection, [_BEGIN, *self._before, *leases, *questions.values()])
        # Without those of BEGIN and what was said before.
        answers = said[1 + len(self._before) :]
        for each, held in zip(ordered, answers, strict=False):
            if not held and isinstance(each, LeaseClaim):
                raise taken_lease(each.name)
            if not held and isinstance(each, Fence):
                raise lost_lease(each.name, each.token)
        found = dict(zip(questions, answers[len(leases) :], strict=True))
        known = Known(
            tails={row[0]: NO_PART for row in found.get("lock_conversations", ())},
            turns={
                row[0]: Opened(from_columns(row[1:4]), *row[4:])
                for row in found.get("turns_to_write", ())
            },
            runs={
                row[0]: Opened(from_columns(row[1:4]), row[4])
                for row in found.get("runs_to_write", ())
            },
        )
        for name, seq, ordinal, *author, chain in found.get("tails", ()):
            known.tails[name] = Tail(seq, ordinal, tuple(author), chain)
        return known

    def write(self, query: str, values: Sequence[Column]) -> None:
        """Add a statement whose answer nobody needs."""
        statement = (QUERIES[query], values)
        # Only bytes can be large.
        self._written_bytes += sum([len(each) for each in values if isinstance(each, bytes)])
        if self._written_bytes > AT_ONCE_BYTES_MAX:
            self._sent(statement)
        else:
            self._written.append(statement)

    def rows(self, query: str, values: Sequence[Column]) -> list[Row]:
        """Return rows as they are stored, after what was written so far. Waits for the server."""
        return self._sent((QUERIES[query], values))

    def commit(self) -> None:
        """Send what was written, and end."""
        self._sent(_COMMIT)

    def _sent(self, last: Statement) -> list[Row]:
        written, self._written, self._written_bytes = self._written, [], 0
        return at_once(self._connection, [*written, last])[-1]


# Said here as well as in the session: behind a pooler the session may be another's.
_BEGIN: Final[Statement] = (b"BEGIN ISOLATION LEVEL READ COMMITTED", ())
_COMMIT: Final[Statement] = (b"COMMIT", ())


def _named(names: Iterable[str | None]) -> list[bytes]:
    return [encode_word(name) for name in {*names} - {None} if name is not None]


def columns_of_claim(claim: LeaseClaim) -> tuple[Column, ...]:
    """Return what `-- take_lease` is given."""
    holder, seen = claim.holder, claim.seen
    return to_columns(
        claim.name,
        holder.host,
        holder.boot_id,
        holder.pid,
        holder.started_at_ticks,
        holder.doing,
        holder.call,
        *((None, None) if seen is None else (seen.token, seen.heartbeat)),
    )


def in_order(fences: Sequence[AnyLease]) -> list[AnyLease]:
    """Return leases in the one order they are locked in."""
    # In any other order two writers with the same two leases could wait for each other.
    return sorted(fences, key=lambda fence: fence.name)
