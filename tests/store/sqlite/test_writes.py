"""What a turn costs: syncs, statements and bytes are counted, not timed."""

from __future__ import annotations

import json

import apsw
import pytest
from tests.support.sqlite_faults import faulty_file_system

from upthread.core.commands import OpenLink, OpenTurn, RecordParts, RecordTurnEvent
from upthread.core.events import PromptSent, SessionAttached, TurnEnded, TurnIntended
from upthread.core.types import (
    Durability,
    Outcome,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
)
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

UPSTREAM = "0f3b6b6e-5d9c-4a6e-9b6d-2f1e8a7c4d10"
TURNS = 200
SAID_IN_A_TURN = 4

WORDS = "the session of agent error value import test patch line commit branch query index".split()


def words(size, seed):
    """Text of so many characters, as an agent would write it: with line breaks and quotes."""
    pieces = [
        f'{WORDS[(n * seed) % len(WORDS)]}{n % 7}"\n'[: -1 - (n % 5 > 0)] for n in range(size)
    ]
    return " ".join(pieces)[:size]


def turn_writes(number):
    """A turn of 6 messages and 8 parts, 13 kB of text, in the batches a turn commits."""
    turn_id = TurnId(f"trn_{number:026}")
    first = 6 * (number - 1) + 1

    def said(offset, speaker, *parts: Part):
        return RecordParts(
            conversation_id=CONVERSATION,
            seq=first + offset,
            first_ordinal=0,
            speaker=speaker,
            turn_id=turn_id,
            upstream_session_id=UPSTREAM,
            recorded_at_ms=1_795_000_000_000 + number,
            parts=parts,
        )

    def call(name):
        return ToolCallPart(
            call_id=f"call_{number}_{name}",
            title="pytest -q tests/test_x.py",
            tool_kind="execute",
            arguments={"command": "pytest -q tests/test_x.py"},
        )

    def result(name, size):
        return ToolResultPart(
            call_id=f"call_{number}_{name}", status="completed", text=words(size, number)
        )

    def event(seq, value, durability=Durability.PROCESS):
        return RecordTurnEvent(
            turn_id=turn_id,
            seq=seq,
            event=value,
            recorded_at_ms=1_795_000_000_000 + number,
            durability=durability,
        )

    intended = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=first)
    attached = SessionAttached(upstream_session_id=UPSTREAM, how="resumed", agent="claude_code")
    return [
        [
            OpenTurn(turn_id=turn_id, conversation_id=CONVERSATION, opened_at_ms=1_795_000_000_000),
            said(0, Speaker.USER, TextPart(text=words(300, number))),
            event(1, intended),
        ],
        [event(2, attached), event(3, PromptSent(prompt_seq=first, prompts_before=number))],
        [said(1, Speaker.ASSISTANT, TextPart(text=words(500, number)), call("a"))],
        [said(2, Speaker.TOOL, result("a", 8_000))],
        [said(3, Speaker.ASSISTANT, TextPart(text=words(400, number)), call("b"))],
        [said(4, Speaker.TOOL, result("b", 2_000))],
        [
            said(5, Speaker.ASSISTANT, TextPart(text=words(1_500, number))),
            event(4, TurnEnded(outcome=Outcome.OK), Durability.SYNCED),
        ],
    ]


def open_home(store):
    first_link = samples.link(upstream=UPSTREAM)
    store.commit([samples.home()[0], samples.home()[1], OpenLink(link=first_link)])


def raw_body(write):
    """A message as the plainest store would keep it: one JSON object."""
    parts = [
        {"type": type(part).__name__}
        | {name: getattr(part, name) for name in part.__dataclass_fields__}
        for part in write.parts
    ]
    body = {"id": f"{write.turn_id}-{write.seq}", "role": write.speaker, "parts": parts}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.fixture
def store(tmp_path):
    with faulty_file_system() as disk:
        store = SqliteStore(tmp_path / "store.db", vfs=disk.name)
        open_home(store)
        store.disk = disk
        yield store
        store.close()


def test_a_turn_on_an_existing_link_costs_one_sync(store):
    for number in range(1, 21):
        before = store.disk.log_syncs
        for batch in turn_writes(number):
            store.commit(batch)
        assert store.disk.log_syncs - before == 1


def test_a_synced_batch_that_was_there_already_is_synced_again(store):
    """Whoever wrote it may have died between writing and syncing."""
    batches = turn_writes(1)
    for batch in batches:
        store.commit(batch)
    before = store.disk.log_syncs
    store.commit(batches[-1])
    assert store.disk.log_syncs - before == 1
    store.commit(batches[0])
    assert store.disk.log_syncs - before == 1


def test_a_new_link_is_synced_at_once(store):
    before = store.disk.log_syncs
    store.commit([OpenLink(link=samples.link(2, "ses_b"))])
    assert store.disk.log_syncs - before == 1


def test_statements_per_turn_do_not_grow_with_history(store):
    counts = []
    for number in range(1, 41):
        statements = []
        store.database.connection.set_exec_trace(
            lambda _cursor, statement, _bindings, found=statements: found.append(statement) or True
        )
        for batch in turn_writes(number):
            store.commit(batch)
        counts.append(len(statements))
    assert len(set(counts[1:])) == 1
    # 7 batches of BEGIN and COMMIT, 2 changes of `synchronous`; 8 parts, 4 events, 1 turn written;
    # the turn looked up. The ends of the conversation and of the turn are as the last batch left
    # them.
    assert counts[1] <= 14 + 2 + 13 + 1


def test_one_part_costs_four_statements(store):
    for batch in turn_writes(1)[:2]:
        store.commit(batch)
    statements = []
    store.database.connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    store.commit(turn_writes(1)[2])
    assert [statement.split(" ", 2)[0] for statement in statements] == [
        "BEGIN",
        "INSERT",
        "INSERT",
        "COMMIT",
    ]


def test_a_turn_grows_the_database_by_little_more_than_raw_rows(tmp_path):
    ours, raw = tmp_path / "store.db", tmp_path / "raw.db"
    store = SqliteStore(ours)
    open_home(store)
    connection = apsw.Connection(str(raw))
    connection.execute(
        "CREATE TABLE stream (id INTEGER PRIMARY KEY, workstream TEXT, agent TEXT);"
        "CREATE TABLE msg (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, body BLOB NOT NULL);"
        "CREATE INDEX msg_by_stream ON msg (stream, id)"
    )

    def sizes():
        pages = store.database.connection.pragma("page_count"), connection.pragma("page_count")
        return tuple(4096 * each for each in pages)

    before = sizes()
    with connection:
        for number in range(1, TURNS + 1):
            batch = [write for each in turn_writes(number) for write in each]
            store.commit(batch)
            for write in batch:
                if isinstance(write, RecordParts):
                    connection.execute(
                        "INSERT INTO msg (stream, body) VALUES (1, ?)", (raw_body(write),)
                    )
    grown = [after - start for after, start in zip(sizes(), before, strict=True)]
    store.close()
    connection.close()
    assert grown[1] / TURNS > 13_000
    assert grown[0] <= 1.2 * grown[1], f"{grown[0] / TURNS:.0f} against {grown[1] / TURNS:.0f}"


def test_resolve_is_one_statement_on_indexes_alone(store):
    statements = []
    connection = store.database.connection
    connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    assert store.resolve(samples.KEY) is not None
    connection.set_exec_trace(None)
    (statement,) = statements
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("", "", "", 1)).fetchall()
    assert not [row for row in plan if "SCAN" in row[3] or "TEMP B-TREE" in row[3]], plan


def test_prior_messages_are_one_range_scan_however_long_the_chain(store):
    for number in range(1, 41):
        for batch in turn_writes(number):
            store.commit(batch)
    connection = store.database.connection
    steps, statements = [], []
    chain = [UPSTREAM, *(f"ses_{number}" for number in range(15))]

    def look(sessions):
        before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0]
        found = store.prior_messages(CONVERSATION, upstream_session_ids=sessions, newest=20)
        assert len(found) == 20 * SAID_IN_A_TURN
        return connection.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0] - before

    look(chain)
    connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    steps = [look(chain[:1]), look(chain)]
    connection.set_exec_trace(None)
    assert steps[0] == steps[1]
    # The empty one ends it, newest first and before all was read.
    assert statements == [statements[0], ""] * 2
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}", (1, 10_000)).fetchall()
    assert not [row for row in plan if "SCAN p" in row[3] or "TEMP B-TREE" in row[3]], plan


def test_prior_messages_cost_the_same_after_ten_times_the_history(store):
    connection = store.database.connection

    def pages_read():
        before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0]
        store.prior_messages(CONVERSATION, upstream_session_ids=[UPSTREAM], newest=20)
        return connection.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0] - before

    costs = []
    for first, last in ((1, 30), (30, 300)):
        for number in range(first, last):
            store.commit([write for batch in turn_writes(number) for write in batch])
        pages_read()
        costs.append(pages_read())
    rows = 8 * 20  # of twenty turns; a row's page is a level deeper in a larger tree
    assert costs[1] <= costs[0] + rows + 8, costs


def test_a_tail_is_one_range_scan(store):
    statements = []
    connection = store.database.connection
    store.messages(CONVERSATION, newest=20)
    connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    store.messages(CONVERSATION, newest=20)
    connection.set_exec_trace(None)
    (statement,) = statements
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1, 0, 20)).fetchall()
    assert not [row for row in plan if "SCAN" in row[3] or "TEMP B-TREE" in row[3]], plan
