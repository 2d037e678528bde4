"""The connection: found out of reach, lost and found again; what was acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from upthread.core.types import ConversationId, TextPart
from upthread.errors import ConflictError, StoreError
from upthread.store.postgres import PostgresStore, migrate
from upthread.store.postgres.server import Server
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, HOLDER

OWN_SERVER = pytest.mark.xdist_group("own server")
"""Tests on one worker, so that their server is started once."""

BLOCKED = """
SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
    AND clock_timestamp() - query_start > interval '1 ms' * %s
"""

WRITER = """
import sys
from upthread.core.types import TextPart
from upthread.store.postgres import PostgresStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

store = PostgresStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for seq in range(store.message_count(CONVERSATION) + 1, 1_000_000):
    store.commit([samples.said(seq, TextPart(text=f"{seq} " + "x" * 3_000))])
    print(seq, flush=True)
"""

STOPPED_WITHIN_A_TRANSACTION = """
import os, signal, sys
from upthread.store.postgres.batch import Transaction
from upthread.store.postgres import PostgresStore, server
from upthread.testing.store_conformance import samples

server._SESSION = {**server._SESSION, "idle_in_transaction_session_timeout": "300ms"}
method, stops = sys.argv[2], iter([True])
done = getattr(Transaction, method)
def done_and_stopped(*given):
    found = done(*given)
    if next(stops, False):
        print("holds its locks", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    return found
setattr(Transaction, method, done_and_stopped)
try:
    PostgresStore(sys.argv[1]).commit([samples.said(1), samples.said(2)])
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def wait_until_blocked(address, *, for_ms):
    """Wait until a statement of the database has waited for a lock so long."""
    deadline_s = time.monotonic() + 60
    with psycopg.connect(address, autocommit=True) as watch:
        while watch.execute(BLOCKED, (for_ms,)).fetchone() is None:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


def child(program, *arguments: str):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "address",
    [
        "postgres://ada:s3cret@127.0.0.1:1/work?connect_timeout=2",
        "postgres://ada:s3cret@/work?host=%2Fnowhere",
        "postgres://ada:s3cret@[broken/work",
        "postgres://ada:s3cret@127.0.0.1:1/work?no_such_option=1",
    ],
)
def test_a_server_out_of_reach_is_named_without_its_password(address):
    with pytest.raises(StoreError) as caught:
        PostgresStore(address)
    assert "s3cret" not in str(caught.value)
    assert caught.value.hint


def test_every_commit_is_synced_whatever_the_server_says(address):
    """S5: the death of the server's processes must not take what was acknowledged."""
    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    server = Server(address)
    row = server.run("read", lambda found: found.execute(b"SHOW synchronous_commit").fetchone())
    server.close()
    assert row == ("on",)


@pytest.mark.extended
@OWN_SERVER
def test_everything_acknowledged_survives_a_crash_of_the_server_and_writers_go_on(own_server):
    server, address = own_server
    migrate(address)
    store = PostgresStore(address)
    store.commit(samples.home())
    writer = child(WRITER, address)
    assert writer.stdout.readline() == "ready\n"
    writer.stdin.write("go\n")
    writer.stdin.flush()
    acknowledged = 0
    for _ in range(3):
        while acknowledged < 10 or acknowledged % 10:
            acknowledged = int(writer.stdout.readline())
        server.crash()
        server.start()
        after = store.message_count(CONVERSATION)
        assert after >= acknowledged
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    kept = store.messages(CONVERSATION)
    assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
    assert len(kept) >= acknowledged
    assert store.verify(CONVERSATION) is None
    store.close()


@pytest.mark.extended
@OWN_SERVER
def test_a_lease_that_may_have_been_taken_is_not_taken_again_unseen(own_server):
    server, address = own_server
    migrate(address)
    store = PostgresStore(address)
    server.crash()
    server.start()
    with pytest.raises(StoreError) as caught:
        store.acquire_lease("spec-42", HOLDER)
    assert "again" in caught.value.hint
    assert store.acquire_lease("spec-42", HOLDER) is not None
    store.close()


@pytest.mark.extended
@OWN_SERVER
def test_a_server_that_stays_away_is_an_error_and_the_store_works_when_it_is_back(
    own_server, monkeypatch
):
    monkeypatch.setattr("upthread.store.postgres.server.RECONNECT_S", 0.5)
    server, address = own_server
    migrate(address)
    store = PostgresStore(address)
    server.stop()
    with pytest.raises(StoreError, match="could not write"):
        store.commit(samples.home())
    server.start()
    store.commit([*samples.home(), samples.said(1)])
    assert store.message_count(CONVERSATION) == 1
    store.close()


@pytest.mark.extended
@pytest.mark.parametrize("after", ["look_up", "write"])
def test_a_writer_stopped_within_a_transaction_is_cut_off_and_the_others_write(address, after):
    store = PostgresStore(address)
    store.commit(samples.home())
    stopped = child(STOPPED_WITHIN_A_TRANSACTION, address, after)
    assert stopped.stdout.readline() == "holds its locks\n"
    store.commit([samples.said(1, TextPart(text="the one that lives"))])
    os.kill(stopped.pid, signal.SIGCONT)
    out, _ = stopped.communicate(timeout=60)
    # Its connection was cut; what it does again meets what was written meanwhile.
    assert out.startswith("ConflictError part 0 of message 1")
    assert [message.text for message in store.messages(CONVERSATION)] == ["the one that lives"]
    store.close()


@pytest.mark.extended
def test_scrubbing_is_not_cut_off_however_long_it_takes_and_all_else_is(address, monkeypatch):
    monkeypatch.setattr("upthread.store.postgres.server._TRANSACTION_TIMEOUT", "300ms")
    store = PostgresStore(address)

    def backend():
        return store.server.run("read", lambda connection: connection.info.backend_pid)

    scrubbed_by = backend()
    with psycopg.connect(address) as reader, ThreadPoolExecutor() as pool:
        reader.execute("SELECT FROM upthread.part")
        scrubbing = pool.submit(store.scrub)  # which waits for the reader
        wait_until_blocked(address, for_ms=600)
        reader.rollback()
        scrubbing.result(60)
    assert backend() == scrubbed_by  # else it was cut off, and done again
    with pytest.raises(StoreError, match="transaction timeout"):
        store.server.run_once("read", lambda found: found.execute(b"SELECT pg_sleep(1)"))
    store.close()


@pytest.mark.extended
def test_a_killed_writer_does_not_hold_up_the_next(address):
    store = PostgresStore(address)
    store.commit(samples.home())
    stopped = child(STOPPED_WITHIN_A_TRANSACTION, address, "look_up")
    assert stopped.stdout.readline() == "holds its locks\n"
    os.kill(stopped.pid, signal.SIGKILL)
    stopped.communicate()
    store.commit([samples.said(1)])
    assert store.message_count(CONVERSATION) == 1
    store.close()


@pytest.mark.extended
def test_threads_may_share_a_store(store):
    store.commit([samples.home()[0], *(each for number in range(8) for each in home_of(number))])

    def write(number):
        for seq in range(1, 21):
            store.commit([said_by(number, seq)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert [store.message_count(ConversationId(f"con_{number}")) for number in range(8)] == [20] * 8


def home_of(number):
    owner = ConversationId(f"con_{number}")
    new = samples.conversation(owner, key=samples.sibling_key(number + 1))
    return [samples.OpenConversation(conversation=new), samples.turn(f"trn_{number}", owner=owner)]


def said_by(number, seq):
    return samples.said(seq, owner=ConversationId(f"con_{number}"), turn_id=f"trn_{number}")


def test_a_pooler_without_prepared_statements_is_served(address):
    store = PostgresStore(f"{address}&prepared=no")
    store.commit([*samples.home(), samples.said(1)])
    for _ in range(10):
        assert store.message_count(CONVERSATION) == 1
    left = store.server.run(
        "read", lambda found: found.execute(b"SELECT name FROM pg_prepared_statements").fetchall()
    )
    assert left == []
    store.close()


def test_a_refused_batch_leaves_the_connection_usable(store):
    store.commit(samples.home())
    for _ in range(20):
        with pytest.raises(ConflictError):
            store.commit([samples.said(7)])
        store.commit([samples.turn()])
    store.commit([samples.said(1)])
    assert store.message_count(CONVERSATION) == 1
