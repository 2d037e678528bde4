"""The connection: found out of reach, lost and found again; what was acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psycopg
import pytest

from upthread.core.types import TextPart
from upthread.errors import ConflictError, StoreError
from upthread.store.postgres import PostgresStore, migrate
from upthread.store.postgres.server import Server
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, HOLDER

OWN_SERVER = pytest.mark.xdist_group("own server")
"""Tests on one worker, so that their server is started once."""


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
    assert store.verify(CONVERSATION).damaged_seq is None
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
