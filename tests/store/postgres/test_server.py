"""The connection: found out of reach, lost and found again; what was acknowledged is there."""

import os
import signal
import subprocess
import sys
import time

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

STOPPED_IN_A_COMMIT = """
import os, signal, sys
from upthread.store.postgres import PostgresStore, server
from upthread.testing.store_conformance import samples

store, send, stops = PostgresStore(sys.argv[1]), server.generators.send, iter([True])
def sent_and_stopped(pgconn):
    yield from send(pgconn)
    if next(stops, False):
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
server.generators.send = sent_and_stopped
try:
    store.commit([*samples.home(), samples.said(1), samples.said(2)])
    print("committed", flush=True)
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
    monkeypatch.setattr("upthread.store.postgres.server.RECONNECT_S", 2)
    server, address = own_server
    migrate(address)
    store = PostgresStore(address)
    server.stop()
    waited_s = []
    for _ in range(2):
        began_s = time.monotonic()
        with pytest.raises(StoreError, match="could not"):
            store.commit(samples.home())
        waited_s.append(time.monotonic() - began_s)
    assert waited_s[0] > 2 > 4 * waited_s[1], "the next one does not wait as long again"
    server.start()
    store.commit([*samples.home(), samples.said(1)])
    assert store.message_count(CONVERSATION) == 1
    store.close()


@pytest.mark.extended
def test_a_writer_that_is_stopped_in_a_commit_holds_up_nobody(address):
    store = PostgresStore(address)
    with child(STOPPED_IN_A_COMMIT, address) as stopped:
        assert stopped.stdout.readline() == "stopped\n"
        started_s = time.monotonic()
        # All of it had left, so the server has it.
        with pytest.raises(ConflictError):
            store.commit([*samples.home(), samples.said(1, TextPart(text="another one"))])
        assert time.monotonic() - started_s < 5
        os.kill(stopped.pid, signal.SIGCONT)
        out, _ = stopped.communicate(timeout=60)
    assert out == "committed\n"
    assert [message.seq for message in store.messages(CONVERSATION)] == [1, 2]
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
