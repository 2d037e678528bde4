"""The queue before SQLite's write lock: who waits, for how long, and who it must never stop."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.files import QUEUE_SUFFIX
from upthread.store.sqlite.write_queue import WriteQueue
from upthread.testing.store_conformance import samples

HOLD = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    store = SqliteStore(path, busy_timeout_s=0.3)
    yield store
    store.close()


@pytest.fixture
def holder(path, store):  # after the store, which makes the file
    queue = path.with_name(path.name + QUEUE_SUFFIX)
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLD, str(queue)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_writer_waits_for_its_turn(path):
    first, second = WriteQueue(path, wait_s=30), WriteQueue(path, wait_s=30)
    first.enter()
    waiting = threading.Thread(target=second.enter)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    first.leave()
    waiting.join(1)
    assert not waiting.is_alive()
    for each in (first, second):
        each.close()


def test_a_holder_that_stands_still_costs_a_wait_and_no_write(store, holder):
    holder.send_signal(signal.SIGSTOP)
    started_s = time.monotonic()
    store.commit(samples.home())
    assert 0.3 <= time.monotonic() - started_s < 5
    holder.send_signal(signal.SIGCONT)
    assert store.conversation(samples.CONVERSATION) is not None


def test_a_queue_that_stood_still_is_waited_for_once_and_not_by_each_write(store, holder):
    store.commit(samples.home())
    started_s = time.monotonic()
    for _ in range(5):
        store.commit(samples.home())
    assert time.monotonic() - started_s < 0.3
    assert holder.poll() is None, "it holds the queue still"


def test_a_holder_that_is_killed_stops_nobody(store, holder):
    holder.kill()
    holder.wait()
    store.commit(samples.home())
    assert store.conversation(samples.CONVERSATION) is not None


def test_who_only_reads_makes_no_file_and_waits_for_nobody(path, store):
    queue = path.with_name(path.name + QUEUE_SUFFIX)
    queue.unlink()
    reader = SqliteStore(path)
    assert reader.conversation(samples.CONVERSATION) is None
    reader.close()
    assert not queue.exists()


def test_a_place_that_cannot_have_the_file_can_have_the_store(tmp_path):
    path = tmp_path / "store.db"
    path.with_name(path.name + QUEUE_SUFFIX).mkdir()
    queue = WriteQueue(path, wait_s=0.1)
    queue.enter()
    queue.leave()
    queue.close()


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path):
    aim, path = tmp_path / "aim", tmp_path / "store.db"
    path.with_name(path.name + QUEUE_SUFFIX).symlink_to(aim)
    queue = WriteQueue(path, wait_s=0.1)
    queue.enter()
    queue.close()
    assert not aim.exists()


def test_a_failed_write_lets_the_next_one_in(path, store):
    other = SqliteStore(path, busy_timeout_s=0.3)
    with pytest.raises(StoreError), store.database.transaction(is_synced=False) as connection:
        connection.execute("INSERT INTO sync_mark (id, touched) VALUES (1, 0)")
    started_s = time.monotonic()
    other.commit(samples.home())
    assert time.monotonic() - started_s < 0.3
    other.close()


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_turn(path):
    queue, next_one = WriteQueue(path, wait_s=30), WriteQueue(path, wait_s=0.3)
    queue.enter()
    child = os.fork()
    if not child:
        time.sleep(5)
        os._exit(0)
    queue.leave()
    next_one.enter()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for each in (queue, next_one):
        each.close()


def test_the_file_is_private_and_empty(path, store):
    store.commit(samples.home())
    queue = path.with_name(path.name + QUEUE_SUFFIX)
    assert (queue.stat().st_mode & 0o777, queue.stat().st_size) == (0o600, 0)


def test_a_lock_that_is_not_to_be_had_is_done_without(path, monkeypatch):
    """As on a file system without them; no such one is at hand, so a pipe stands in for it."""
    queue = WriteQueue(path, wait_s=0.1)
    queue.enter()
    queue.leave()
    queue._descriptor, kept = os.open(os.devnull, os.O_PATH), queue._descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        fcntl.flock(queue._descriptor, fcntl.LOCK_EX)
    queue.enter()
    queue.leave()
    os.close(kept)
