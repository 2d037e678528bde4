"""W1: resolve an address among a hundred, ten thousand and a million conversations.

Raw: one lookup of the upstream id in one table, by workstream and role. Ours:
`SqliteStore.resolve`, which looks in two tables (the tag of the key, the head of the conversation)
and returns values.
The million rows are written with SQL, on both sides: through `commit` they would take minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from measure import Row, Side, compared, interleaved
from raw import RawStore
from scratch import scratch

from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Link,
    ProjectId,
    UpstreamSessionId,
)
from upthread.store.kinds import ConversationState, key_tag
from upthread.store.sqlite import SqliteStore
from upthread.store.streams import encoded, new_head

PROJECT = ProjectId("prj_measured")
SIZES = (100, 10_000, 1_000_000)
SIZES_QUICK = (100, 10_000)
LOOKUPS = 200
BATCHES = 40
LIMIT = 1.5
GROWTH_LIMIT = 2.0

_HEAD = """
INSERT INTO head (id, kind, name, project, last, hash, state, seal)
VALUES (?, 'conversation', ?, ?, ?, ?, ?, ?)
"""
_TAG = "INSERT INTO tag (tag, nth, stream, seq) VALUES (?, 1, ?, 1)"
_RAW = """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last})
INSERT INTO address (workstream, role, upstream)
SELECT 'spec-' || i, 'planner', printf('ses_%026d', i) FROM n;
"""


def measure(*, is_quick: bool) -> list[Row]:
    """Return one row for each size, and the growth."""
    sizes = SIZES_QUICK if is_quick else SIZES
    with scratch() as directory:
        sides: dict[str, Side] = {}
        for size in sizes:
            sides[f"raw {size}"] = _raw(directory / f"raw-{size}.db", size)
            sides[f"ours {size}"] = _ours(directory / f"ours-{size}.db", size)
        timings = interleaved(sides, repetitions=150, budget_s=12, operations=LOOKUPS)
    rows = [
        compared("W1", f"resolve among {size:,}", timings[f"raw {size}"], ours, LIMIT)
        for size in sizes
        for ours in (timings[f"ours {size}"],)
    ]
    smallest, largest = (timings[f"ours {size}"].wall_p10_us for size in (sizes[0], sizes[-1]))
    first, last = (timings[f"raw {size}"].wall_p10_us for size in (sizes[0], sizes[-1]))
    growth = Row(
        workload="W1",
        what=f"growth, {sizes[0]:,} to {sizes[-1]:,}",
        raw=smallest,
        ours=largest,
        limit=GROWTH_LIMIT,
        note=f"ours to ours; raw to raw {last / first:.2f}",
    )
    return [*rows, growth]


class Opened(NamedTuple):
    """The head of a conversation that has a link, and the tag of its key."""

    row: int
    name: str
    last: int
    hash: bytes
    state: str
    seal: bytes
    tag: str


def many_heads(size: int) -> Iterator[Opened]:
    """Yield the heads of so many conversations; resolving reads none of their entries."""
    for number in range(size):
        key = ConversationKey(project_id=PROJECT, workstream=f"spec-{number}", role="planner")
        conversation = Conversation(
            conversation_id=ConversationId(f"con_{number:026d}"),
            key=key,
            generation=1,
            base_name=f"Kael-{number}",
            opened_at_ms=1_790_000_000_000,
        )
        link = Link(
            conversation_id=conversation.conversation_id,
            seq=1,
            upstream_session_id=UpstreamSessionId(f"ses_{number:026d}"),
            agent="opencode",
            agent_version="1.0.217",
            working_directory="/home/kim/projects/checkout",
            opened_because="none_yet",
            opened_at_ms=1_790_000_000_000,
        )
        head = new_head("conversation", conversation.conversation_id, PROJECT)
        head.last = 2
        head.state = ConversationState(
            conversation, links=1, session=link.upstream_session_id, open_links=(link,)
        )
        state, seal = encoded(head)
        yield Opened(
            number + 1, head.name, head.last, head.hash, state.decode(), seal, key_tag(key)
        )


@contextmanager
def _filling(connection: Any) -> Iterator[None]:
    """Write all that the block writes in one transaction, and leave no log."""
    connection.execute("PRAGMA synchronous=OFF")
    with connection:
        yield
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _numbers(size: int) -> list[list[int]]:
    """Return what each repetition looks up, the same for both sides."""
    chance = random.Random(size)
    return [[chance.randrange(size) for _ in range(LOOKUPS)] for _ in range(BATCHES)]


def _raw(path: Path, size: int) -> Side:
    store = RawStore(path)
    with _filling(store.connection):
        store.connection.execute(_RAW.format(last=size - 1))
    batches = [[f"spec-{number}" for number in batch] for batch in _numbers(size)]

    def lookups(repetition: int) -> None:
        for name in batches[repetition % BATCHES]:
            assert store.resolve(name, "planner")

    return lookups


def _ours(path: Path, size: int) -> Side:
    SqliteStore(path).close()
    connection: Any = apsw.Connection(str(path))
    with _filling(connection):
        for each in many_heads(size):
            head = (each.row, each.name, PROJECT, each.last, each.hash, each.state, each.seal)
            connection.execute(_HEAD, head)
            connection.execute(_TAG, (each.tag, each.row))
    connection.close()
    store = SqliteStore(path)
    batches = [
        [
            ConversationKey(project_id=PROJECT, workstream=f"spec-{number}", role="planner")
            for number in batch
        ]
        for batch in _numbers(size)
    ]

    def lookups(repetition: int) -> None:
        for key in batches[repetition % BATCHES]:
            assert store.resolve(key)

    return lookups
