"""The store port on PostgreSQL; decides nothing.

Theory of operation. A commit to one stream is one statement, sent whole with its end: it locks the
leases that must be held, moves the head by compare-and-set, and inserts entries and tags. A commit
to several streams, or with leases to take and give, is such statements in one transaction, sent at
once as well. So no lock is ever held while a client is waited for. A statement that cannot do all
of it divides by zero, which undoes the transaction: then the leases are looked at, and a head that
has moved is drafted on again.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from psycopg import errors

from upthread.core.codec import encode_text
from upthread.core.types import Fence, ProjectId
from upthread.store.drafting import Change
from upthread.store.kinds import RunState, own_tag
from upthread.store.log import (
    FORGET,
    NO_LEASES,
    RELEASE,
    TAKE,
    LogStore,
    Row,
    StreamMovedError,
    Terms,
    lost_lease,
    taken_lease,
)
from upthread.store.postgres.schema import check_schema
from upthread.store.postgres.server import (
    Column,
    Connection,
    Prepared,
    Server,
    Statement,
    blobs,
    lift_time_limit,
    numbers,
    texts,
)
from upthread.store.postgres.workers import DEFER
from upthread.store.streams import SCHEMA_VERSION, as_bytes, encoded

_WORDS = {
    "at": "upthread.",
    "bytes": "BYTEA",
    "key": "name_digest",
    "text": "convert_from($1, 'UTF8')",
}

# $1 to $2: the digests and tokens of leases. One that is taken over meanwhile is waited for, and is
# then not what was asked for.
_HELD = """held AS MATERIALIZED (
    SELECT 1 FROM upthread.lease AS l
    JOIN unnest($1::bytea[], $2::bigint[]) AS f (name_digest, token)
    ON l.name_digest = f.name_digest AND l.token = f.token
    WHERE l.holder IS NOT NULL ORDER BY l.name_digest FOR SHARE OF l
)"""
_ALL_HELD = "(SELECT count(*) FROM held) = cardinality($1::bytea[])"
# A newer version may have folded the heads again while this store was open.
_IS_OURS = f"(SELECT value FROM upthread.meta WHERE name = 'schema') = {SCHEMA_VERSION}"

# $3 to $6: the head as it is to be.
_MOVE = f"""moved AS (
    UPDATE upthread.head SET last = $3, hash = $4, state = $5, seal = $6
    WHERE id = $17 AND last = $18 AND hash = $19 AND {_ALL_HELD} AND {_IS_OURS}
    RETURNING id, project
)"""
_OPEN = f"""moved AS (
    INSERT INTO upthread.head (last, hash, state, seal, kind, name, project)
    SELECT $3, $4, $5, $6, convert_from($17, 'UTF8'), $18::bytea, $19::bytea
    WHERE {_ALL_HELD} AND {_IS_OURS} RETURNING id, project
)"""
# $7 to $13: entries; $14 to $16: tags. A tag of the stream's own may come again.
_APPEND = f"""WITH {_HELD}, {{}}, added AS (
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
_APPEND_TO = _APPEND.format(_MOVE).encode()
_APPEND_NEW = _APPEND.format(_OPEN).encode()
_MUST_HOLD = f"WITH {_HELD} SELECT 1 / ({_ALL_HELD} AND {_IS_OURS})::integer".encode()
# As a step of a transaction, which it ends where it does nothing.
_MUST_TAKE, _MUST_RELEASE = (
    f"WITH done AS ({step.format(**_WORDS)}) SELECT 1 / count(*) FROM done".encode()
    for step in (TAKE, RELEASE)
)

# A run's transition: on its head, by the server's clock, and as a job of the workers' queue.
_OF_RUN = "(SELECT stream FROM upthread.tag WHERE tag = $1 AND nth = 0)"
_IS_DUE = f"""
UPDATE upthread.head SET
    due_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2, due_seq = $3,
    due_queue = convert_from($4, 'UTF8')
WHERE id = {_OF_RUN}
""".encode()
_LATER = "CASE WHEN $2::bigint > 0 THEN clock_timestamp() + $2 * interval '1 ms' END"
_ENQUEUE = f"""
SELECT {DEFER.format(_LATER)} FROM upthread.head AS h WHERE h.id = {_OF_RUN} HAVING count(*) > 0
""".encode()
# Of the jobs of what is settled those go that nobody has taken.
_DROP_JOB = f"""
DELETE FROM upthread.procrastinate_jobs AS j USING upthread.head AS h
WHERE h.id = {_OF_RUN} AND j.status = 'todo' AND j.queueing_lock = h.id || ':' || h.due_seq
""".encode()
_IS_SETTLED = f"""
UPDATE upthread.head SET due_at_ms = NULL, due_seq = NULL, due_queue = NULL
WHERE due_at_ms IS NOT NULL AND id = {_OF_RUN}
""".encode()
_QUEUE = "upthread"

_MOVED = (errors.DivisionByZero, errors.UniqueViolation, errors.DeadlockDetected)
"""What a commit ends with where another writer was there first."""


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
        self._heads.clear()
        self.server.act_for(encode_text(project_id))
        if self.server.is_pooled:  # then each statement says it, and none is prepared
            self._prepared = None

    # --- statements -------------------------------------------------------------------------------

    def read(self, statement: str, *values: Any) -> list[Row]:
        return self._run("read", statement, values)

    def write(self, statement: str, *values: Any, is_repeatable: bool = True) -> list[Row]:
        return self._run("write", statement, values, is_repeatable=is_repeatable)

    def _run(
        self, doing: str, statement: str, values: Row, *, is_repeatable: bool = True
    ) -> list[Row]:
        said = _said(statement)
        return self.server.run(
            doing,
            lambda connection: self._prepared_on(connection).rows(said, values),
            is_repeatable=is_repeatable,
        )

    def column(self, name: str) -> bytes:
        return encode_text(name)

    def lease_key(self, name: str) -> bytes:
        return sha256(encode_text(name)).digest()

    def among(self, seqs: Sequence[int]) -> tuple[str, Row]:
        return "seq = ANY($2::bigint[])", (numbers(seqs),)

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
        held = self._leases(fences)
        statements = [
            *((_MUST_TAKE, self.claim_columns(claim)) for claim in take),
            *(statement for change in changes for statement in _statements(change, held)),
            *((_MUST_RELEASE, self.fence_columns(fence)) for fence in give),
        ]
        if not any(change.entries for change in changes) and fences:
            statements.insert(0, (_MUST_HOLD, held))
        if not statements:
            return []
        # Not done again when the connection is lost: a lease may have been taken, and by us. All
        # else is: whoever did it finds a head that has moved, and then that all of it is there.
        try:
            answers = self.server.run(
                "write",
                lambda connection: self._sent(connection, statements),
                is_repeatable=not (take or give),
            )
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
        except _MOVED as error:
            raise StreamMovedError from error

    def _leases(self, fences: Sequence[Fence]) -> Row:
        return (
            blobs([self.lease_key(fence.name) for fence in fences]),
            numbers([fence.token for fence in fences]),
        )

    def _must_be_free(self, leases: Terms) -> None:
        """Raise where it was a lease that stopped an append."""
        for fence in (*leases.fences, *leases.give):
            held = self.lease(fence.name)
            is_released = held is not None and held.holder is None and fence in leases.fences
            if held is None or held.token != fence.token or is_released:
                raise lost_lease(fence)
        for claim in leases.take:
            held = self.lease(claim.name)
            if held is not None and held.holder is not None and held != claim.seen:
                raise taken_lease(claim.name)

    def scrub(self) -> None:
        """Write the log anew; the server's own log and its backups are its keeper's."""
        self.server.run("scrub", _scrub)

    def close(self) -> None:
        self.server.close()


@lru_cache(maxsize=200)
def _said(statement: str) -> bytes:
    """Return a statement of every backend's as PostgreSQL has it."""
    return statement.format(**_WORDS).encode()


def _statements(change: Change, held: Row) -> list[Statement]:
    """Return what appends to one stream."""
    found: list[Statement] = []
    if change.entries:
        found.append(_append(change, held))
    if change.head.row:
        found += [(_said(FORGET), (change.head.row, *erasure)) for erasure in change.erasures]
    if change.head.kind == "run" and change.entries:
        found += _job(change)
    return found


def _append(change: Change, held: Row) -> Statement:
    head, added = change.head, change.entries
    state, seal = encoded(head)
    # A statement moves a row once, and a tag of the stream's own may come several times.
    tags = {(text, nth): seq for text, nth, seq in change.tags}
    values: list[Column] = [*held, head.last, head.hash, state, seal]
    values += (
        numbers([each.seq for each in added]),
        texts([each.kind for each in added]),
        numbers([each.at_ms for each in added]),
        blobs([as_bytes(each.kept) for each in added]),
        blobs([each.hash for each in added]),
        blobs([each.digest for each in added]),
        blobs([as_bytes(each.said) for each in added]),
        blobs([text.encode() for text, _ in tags]),
        numbers([nth for _, nth in tags]),
        numbers(list(tags.values())),
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
    with connection.transaction():
        lift_time_limit(connection)
        connection.execute(b"SELECT upthread.scrub()")
