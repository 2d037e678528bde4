"""The store port on PostgreSQL; decides nothing.

Theory of operation. A commit to one stream is one statement, sent whole with its end: it locks the
leases that must be held, moves the head by compare-and-set, and inserts entries and tags. A commit
to several streams, or with leases to take and give, is such statements in one transaction, sent at
once as well. So no lock is ever held while a client is waited for. A statement that cannot do all
of it divides by zero, which undoes the transaction: then the leases are looked at, and a head that
has moved is drafted on again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final, cast

from psycopg import errors

from upthread.core.codec import encode_plain_json, encode_text
from upthread.core.types import Fence, Holder, Lease, LeaseClaim, ProjectId
from upthread.store._rules import conversation_leases, lease_of, lost_lease, taken_lease
from upthread.store.chain import as_bytes
from upthread.store.drafting import Change
from upthread.store.entries import Entry, SpokenRow
from upthread.store.kinds import FREQUENT, SAID, RunState
from upthread.store.log import NO_LEASES, LogStore, StreamMovedError, Terms
from upthread.store.postgres.at_once import Column, Row, Statement, blobs, numbers, texts
from upthread.store.postgres.prepared import Prepared
from upthread.store.postgres.schema import check_schema
from upthread.store.postgres.server import Connection, Server, unhurried
from upthread.store.stream_reads import Found, Rows, Span, found_in
from upthread.store.streams import SCHEMA_VERSION, Head, encoded, head_of
from upthread.store.tags import StreamKind, own_tag

_LAST: Final = 2**31 - 1  # PostgreSQL's INTEGER

_HEAD: Final = "h.id, h.kind, h.name, h.project, h.last, h.hash, h.state, h.seal"
_FOUND: Final = (
    f"SELECT t.seq, t.nth, {_HEAD} FROM upthread.tag AS t LEFT JOIN upthread.head AS h"
    " ON h.id = t.stream WHERE t.tag = $1 ORDER BY t.nth"
).encode()
_NEWEST: Final = _FOUND + b" DESC LIMIT 1"
_HEADS: Final = (
    f"SELECT {_HEAD} FROM upthread.head AS h WHERE ($1::bytea IS NULL OR h.project = $1)"
    " AND h.kind = convert_from($2, 'UTF8') ORDER BY h.id"
).encode()
# Tags first and heads last: then a stream that is opened meanwhile is among the heads.
_ALL_TAGS: Final = b"SELECT tag, nth, stream, seq FROM upthread.tag"
_ALL_STREAMS: Final = b"SELECT DISTINCT stream FROM upthread.entry"
_RAW_HEADS: Final = f"SELECT {_HEAD} FROM upthread.head AS h ORDER BY h.id".encode()

_SPOKEN: Final = "seq, at_ms, kept, said"
# What proves an entry: the one before it. Messages are proved by `verify` (S33).
_ENTRY: Final = (
    "seq, kind, at_ms, kept, said, digest, hash,"
    " (SELECT b.hash FROM upthread.entry AS b WHERE b.stream = $1 AND b.seq = e.seq - 1)"
)
_ONLY: Final = (
    f"SELECT {_ENTRY} FROM upthread.entry AS e"
    " WHERE stream = $1 AND seq = ANY($2::bigint[]) ORDER BY seq"
).encode()

# $1 to $2: the digests and tokens of leases. One that is taken over meanwhile is waited for, and is
# then not what was asked for.
_HELD: Final = """held AS MATERIALIZED (
    SELECT 1 FROM upthread.lease AS l
    JOIN unnest($1::bytea[], $2::bigint[]) AS f (name_digest, token)
    ON l.name_digest = f.name_digest AND l.token = f.token
    WHERE l.holder IS NOT NULL ORDER BY l.name_digest FOR SHARE OF l
)"""
_ALL_HELD: Final = "(SELECT count(*) FROM held) = cardinality($1::bytea[])"
# A newer version may have folded the heads again while this store was open.
_IS_OURS: Final = f"(SELECT value FROM upthread.meta WHERE name = 'schema') = {SCHEMA_VERSION}"

# $3 to $6: the head as it is to be.
_MOVE: Final = f"""moved AS (
    UPDATE upthread.head SET last = $3, hash = $4, state = $5, seal = $6
    WHERE id = $17 AND last = $18 AND hash = $19 AND {_ALL_HELD} AND {_IS_OURS}
    RETURNING id, project
)"""
_OPEN: Final = f"""moved AS (
    INSERT INTO upthread.head (last, hash, state, seal, kind, name, project)
    SELECT $3, $4, $5, $6, convert_from($17, 'UTF8'), $18::bytea, $19::bytea
    WHERE {_ALL_HELD} AND {_IS_OURS} RETURNING id, project
)"""
# $7 to $13: entries; $14 to $16: tags. A tag of the stream's own may come again.
_APPEND: Final = f"""WITH {_HELD}, {{}}, added AS (
    INSERT INTO upthread.entry (stream, project, seq, kind, at_ms, kept, hash, digest, said)
    SELECT m.id, m.project, e.* FROM moved AS m, unnest(
        $7::bigint[], $8::text[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bytea[],
        $13::bytea[]
    ) AS e
), tagged AS (
    INSERT INTO upthread.tag AS t (stream, project, tag, nth, seq)
    SELECT m.id, m.project, n.tag, coalesce(n.nth, m.id), n.seq FROM moved AS m, unnest(
        $14::bytea[], $15::bigint[], $16::bigint[]
    ) AS n (tag, nth, seq)
    ON CONFLICT (tag, nth, project) DO UPDATE SET seq = excluded.seq
    WHERE t.stream = excluded.stream AND t.nth = t.stream RETURNING 1
) SELECT
    (SELECT id FROM moved),
    1 / (
        (SELECT count(*) FROM moved)
        * ((SELECT count(*) FROM tagged) = cardinality($14::bytea[]))::integer
    )"""
_APPEND_TO: Final = _APPEND.format(_MOVE).encode()
_APPEND_NEW: Final = _APPEND.format(_OPEN).encode()
_MUST_HOLD: Final = f"WITH {_HELD} SELECT 1 / ({_ALL_HELD} AND {_IS_OURS})::integer".encode()
_FORGET: Final = b"""
UPDATE upthread.entry SET digest = sha256(said), said = NULL
WHERE stream = $1 AND seq <= $2 AND said IS NOT NULL
    AND ($3::bigint IS NULL OR at_ms < $3) AND ($4::bigint[] IS NULL OR seq = ANY($4))
"""

_LEASE: Final = b"SELECT token, heartbeat, holder FROM upthread.lease WHERE name_digest = $1"
_HELD_LEASES: Final = b"""
SELECT name, token, heartbeat, holder FROM upthread.lease
WHERE project = $1 AND name >= $2 AND name < $3 AND holder IS NOT NULL ORDER BY name
"""
_TAKE: Final = b"""
INSERT INTO upthread.lease AS l (name, token, heartbeat, holder) VALUES ($1, 1, 1, $2)
ON CONFLICT (name_digest) DO UPDATE SET
    token = l.token + 1, heartbeat = l.heartbeat + 1, holder = excluded.holder
WHERE l.holder IS NULL OR (l.token = $3::bigint AND l.heartbeat = $4::bigint)
RETURNING token, heartbeat
"""
_BEAT: Final = b"""
UPDATE upthread.lease SET heartbeat = heartbeat + 1
WHERE name_digest = $1 AND token = $2 AND holder IS NOT NULL RETURNING token
"""
_RELEASE: Final = b"""
UPDATE upthread.lease SET holder = NULL WHERE name_digest = $1 AND token = $2 RETURNING token
"""
# As a step of a transaction, which it ends where it does nothing.
_MUST_TAKE: Final = b"WITH done AS (%b) SELECT 1 / count(*) FROM done" % _TAKE
_MUST_RELEASE: Final = b"WITH done AS (%b) SELECT 1 / count(*) FROM done" % _RELEASE

# A run's transition: on its head, by the server's clock, and as a job of the workers' queue.
_OF_RUN: Final = "(SELECT stream FROM upthread.tag WHERE tag = $1 AND nth = 0)"
_IS_DUE: Final = f"""
UPDATE upthread.head SET
    due_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2, due_seq = $3,
    due_queue = convert_from($4, 'UTF8')
WHERE id = {_OF_RUN}
""".encode()
_ENQUEUE: Final = f"""
SELECT upthread.procrastinate_defer_jobs_v1(
    array_agg(
        row(
            h.due_queue, 'transition', 0, NULL, h.id || ':' || h.due_seq,
            jsonb_build_object('run', h.id, 'seq', h.due_seq),
            CASE WHEN $2::bigint > 0 THEN clock_timestamp() + $2 * interval '1 ms' END
        )::upthread.procrastinate_job_to_defer_v1
    )
)
FROM upthread.head AS h WHERE h.id = {_OF_RUN} HAVING count(*) > 0
""".encode()
# Of the jobs of what is settled those go that nobody has taken.
_DROP_JOB: Final = f"""
DELETE FROM upthread.procrastinate_jobs AS j USING upthread.head AS h
WHERE h.id = {_OF_RUN} AND j.status = 'todo' AND j.queueing_lock = h.id || ':' || h.due_seq
""".encode()
_IS_SETTLED: Final = f"""
UPDATE upthread.head SET due_at_ms = NULL, due_seq = NULL, due_queue = NULL
WHERE due_at_ms IS NOT NULL AND id = {_OF_RUN}
""".encode()
_QUEUE: Final = "upthread"


class PostgresStore(LogStore):
    """A store in the schema `upthread` of a database. Usable from any thread, one call at a time.

    `address` is a libpq URL; nothing of it is read from the environment but what libpq itself
    reads. StoreError when the database cannot be reached, or its schema is not this version's.
    `wait_s` is how long the server and other writers are waited for, None: as long as usual.
    """

    def __init__(self, address: str, *, wait_s: float | None = None) -> None:
        super().__init__()
        self.server = Server(address, wait_s=wait_s)
        self._prepared: Prepared | None = None
        try:
            self._check_schema()
        except BaseException:
            self.server.close()
            raise

    def _check_schema(self) -> None:
        self.server.run("open", lambda found: check_schema(found, self.server.name))

    def act_for(self, project_id: ProjectId) -> None:
        # What was there under another project is not to be believed under this one.
        for known in (self._heads, self._turns):
            known.clear()
        self.server.act_for(encode_text(project_id))
        if self.server.is_pooled:  # then each statement says it, and none is prepared
            self._prepared = None

    # --- reads ------------------------------------------------------------------------------------

    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        return found_in(self._read(_NEWEST if newest else _FOUND, text.encode()), text)

    def rows(self) -> Rows:
        return Rows(*map(self._read, (_ALL_TAGS, _ALL_STREAMS, _RAW_HEADS)))

    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        project = None if project_id is None else encode_text(project_id)
        return tuple(map(head_of, self._read(_HEADS, project, kind.encode())))

    def read_entries(self, span: Span) -> Sequence[Entry]:
        if span.only is not None:
            return list(map(Entry._make, self._read(_ONLY, span.row, numbers(span.only))))
        is_newest = span.newest is not None
        rows = self._read(_select(_ENTRY, span.kinds, is_newest), *_bounds(span))
        return list(map(Entry._make, rows[::-1] if is_newest else rows))

    def read_spoken(self, span: Span) -> Iterable[SpokenRow]:
        statement = _select(_SPOKEN, span.kinds, span.newest is not None)
        return cast("list[SpokenRow]", self._read(statement, *_bounds(span)))

    def _read(self, statement: bytes, *values: Column) -> list[Row]:
        return self.server.run(
            "read", lambda connection: self._prepared_on(connection).rows(statement, values)
        )

    def _prepared_on(self, connection: Connection) -> Prepared:
        """Return the statements of a connection."""
        if self._prepared is None or self._prepared.connection is not connection:
            before = self.server.said_in_transaction
            self._prepared = Prepared(connection, is_allowed=self.server.prepares, before=before)
        return self._prepared

    # --- writes -----------------------------------------------------------------------------------

    def append(
        self, changes: Sequence[Change], leases: Terms = NO_LEASES, *, is_synced: bool = True
    ) -> Sequence[int]:
        fences, take, give = leases
        statements = [
            *((_MUST_TAKE, _columns_of(claim)) for claim in take),
            *(statement for change in changes for statement in _statements(change, fences)),
            *((_MUST_RELEASE, _columns(fence)) for fence in give),
        ]
        if not any(change.entries for change in changes) and fences:
            statements.insert(0, (_MUST_HOLD, _leases(fences)))
        if not statements:
            return []
        # Not done again when the connection is lost: a lease may have been taken, and by us. All
        # else is: whoever did it finds a head that has moved, and then that all of it is there.
        run = self.server.run_once if take or give else self.server.run
        try:
            answers = run("write", lambda connection: self._sent(connection, statements))
        except StreamMovedError:
            self._check_schema()
            self._must_be_free(leases)
            raise
        opened = iter(
            [
                rows[0][0]
                for (text, _), rows in zip(statements, answers, strict=True)
                if text is _APPEND_NEW
            ]
        )
        return [change.head.row or next(opened) for change in changes]

    def _sent(self, connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
        prepared = self._prepared_on(connection)
        try:
            if len(statements) == 1:
                return [prepared.rows(*statements[0])]
            return prepared.transaction(statements)
        except (errors.DivisionByZero, errors.UniqueViolation) as error:
            raise StreamMovedError from error

    def _must_be_free(self, leases: Terms) -> None:
        """Raise where it was a lease that stopped an append."""
        for fence in (*leases.fences, *leases.give):
            held = self.lease(fence.name)
            is_released = held is not None and held.holder is None and fence in leases.fences
            if held is None or held.token != fence.token or is_released:
                raise lost_lease(fence.name, fence.token)
        for claim in leases.take:
            held = self.lease(claim.name)
            if held is not None and held.holder is not None and held != claim.seen:
                raise taken_lease(claim.name)

    def scrub(self) -> None:
        """Write the log anew; the server's own log and its backups are its keeper's."""
        self.server.run("scrub", _scrub)

    # --- leases -----------------------------------------------------------------------------------

    def acquire_lease(
        self, name: str, holder: Holder, *, seen: Lease | None = None
    ) -> Lease | None:
        values = _columns_of(LeaseClaim(name=name, holder=holder, seen=seen))
        # Not done again when the connection is lost: it may have been taken, and by us.
        taken = self.server.run_once(
            "write", lambda connection: self._prepared_on(connection).rows(_TAKE, values)
        )
        for token, heartbeat in taken:
            return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)
        return None

    def heartbeat(self, fence: Fence) -> None:
        self._move_lease(_BEAT, fence)

    def release_lease(self, fence: Fence) -> None:
        self._move_lease(_RELEASE, fence)

    def _move_lease(self, statement: bytes, fence: Fence) -> None:
        values = _columns(fence)
        moved = self.server.run(
            "write", lambda connection: self._prepared_on(connection).rows(statement, values)
        )
        if not moved:
            raise lost_lease(fence.name, fence.token)

    def lease(self, name: str) -> Lease | None:
        for row in self._read(_LEASE, _digest(name)):
            return lease_of(name, row)
        return None

    def held_leases(self, project_id: ProjectId) -> tuple[Lease, ...]:
        bounds = map(encode_text, conversation_leases(project_id))
        rows = self._read(_HELD_LEASES, encode_text(project_id), *bounds)
        return tuple(lease_of(name, row) for name, *row in rows)

    def close(self) -> None:
        self.server.close()


@lru_cache(maxsize=100)
def _select(columns: str, kinds: tuple[str, ...], is_newest: bool) -> bytes:  # noqa: FBT001
    """Return the statement for entries of stream $1, after $2 and before $3, $4 of them."""
    where = f" AND kind IN ({', '.join(map(repr, kinds))})" if kinds else ""
    # A partial index is used only where its condition follows from the statement's.
    if kinds and not set(kinds) & set(FREQUENT):
        where += f" AND kind NOT IN ({', '.join(map(repr, FREQUENT))})"
    elif kinds == (SAID,):
        where = " AND kind = 'said'"
    return (
        f"SELECT {columns} FROM upthread.entry AS e"
        f" WHERE stream = $1 AND seq > $2 AND seq < $3{where}"
        f" ORDER BY seq {'DESC' if is_newest else 'ASC'} LIMIT $4::bigint"
    ).encode()


def _bounds(span: Span) -> tuple[Column, ...]:
    return (span.row, span.after, _LAST if span.before is None else span.before, span.limit)


def _digest(name: str) -> bytes:
    return sha256(encode_text(name)).digest()


def _columns(fence: Fence) -> tuple[Column, ...]:
    return (_digest(fence.name), fence.token)


def _leases(fences: Sequence[Fence]) -> tuple[Column, ...]:
    return (
        blobs([_digest(fence.name) for fence in fences]),
        numbers([fence.token for fence in fences]),
    )


def _columns_of(claim: LeaseClaim) -> tuple[Column, ...]:
    seen = (None, None) if claim.seen is None else (claim.seen.token, claim.seen.heartbeat)
    return (encode_text(claim.name), encode_plain_json(claim.holder), *seen)


def _statements(change: Change, fences: Sequence[Fence]) -> list[Statement]:
    """Return what appends to one stream."""
    found: list[Statement] = []
    if change.entries:
        found.append(_append(change, fences))
    for last, before_ms, seqs in change.erasures:
        if change.head.row:
            some = None if seqs is None else numbers(seqs)
            found.append((_FORGET, (change.head.row, last, before_ms, some)))
    if change.head.kind == "run" and change.entries:
        found += _job(change)
    return found


def _append(change: Change, fences: Sequence[Fence]) -> Statement:
    head, added = change.head, change.entries
    state, seal = encoded(head)
    values: list[Column] = [*_leases(fences), head.last, head.hash, state, seal]
    values += (
        numbers([each.seq for each in added]),
        texts([each.kind for each in added]),
        numbers([each.at_ms for each in added]),
        blobs([as_bytes(each.kept) for each in added]),
        blobs([each.hash for each in added]),
        blobs([each.digest for each in added]),
        blobs([as_bytes(each.said) for each in added]),
        blobs([text.encode() for text, _, _ in change.tags]),
        numbers([nth for _, nth, _ in change.tags]),
        numbers([seq for _, _, seq in change.tags]),
    )
    if head.row:
        return (_APPEND_TO, (*values, head.row, change.last, change.hash))
    names = (head.kind.encode(), encode_text(head.name), encode_text(head.project_id))
    return (_APPEND_NEW, (*values, *names))


def _job(change: Change) -> list[Statement]:
    """Return what hands a run's transition to the workers, or takes it back."""
    head = change.head
    run: tuple[Column, ...] = (own_tag("run", head.name, head.project_id).encode(),)
    due = head.state.due if isinstance(head.state, RunState) else None
    if due is None:
        return [(_DROP_JOB, run), (_IS_SETTLED, run)]
    job = change.job
    if job is None or job.run_seq != due[1]:
        return []
    queue = (job.queue or _QUEUE).encode()
    return [
        (_DROP_JOB, run),  # of the transition that this one follows
        (_IS_DUE, (*run, job.delay_ms, job.run_seq, queue)),
        (_ENQUEUE, (*run, job.delay_ms)),
    ]


def _scrub(connection: Connection) -> None:
    with unhurried(connection):
        connection.execute(b"SELECT upthread.scrub()")
