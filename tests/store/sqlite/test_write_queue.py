"""The queue before SQLite's write lock: who waits, for how long, and who it must never stop."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore, database
from upthread.store.sqlite.database import WriteQueue
from upthread.store.sqlite.files import QUEUE_SUFFIX
from upthread.testing.store_conformance import samples

WAIT_S = 0.3
HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class Clock:
    """A clock that stands still, except when somebody sleeps."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def monotonic(self):
        return self.slept_s

    def sleep(self, seconds):
        self.slept_s += seconds


@pytest.fixture
def clock(monkeypatch):
    """The clock of the queue."""
    clock = Clock()
    monkeypatch.setattr(database, "time", clock)
    return clock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    store = SqliteStore(path, busy_timeout_s=WAIT_S)
    yield store
    store.close()


@pytest.fixture
def holder(path, store):  # after the store, which makes the file
    queue = path.with_name(path.name + QUEUE_SUFFIX)
    command = [sys.executable, "-I", "-c", HOLD, str(queue)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_writer_waits_for_its_turn(path, monkeypatch):
    first, second = WriteQueue(path, wait_s=30), WriteQueue(path, wait_s=30)
    is_waiting, sleep = threading.Event(), time.sleep

    def sleep_and_say_so(seconds):
        is_waiting.set()
        sleep(seconds)

    monkeypatch.setattr(database.time, "sleep", sleep_and_say_so)
    first.enter()
    waiting = threading.Thread(target=second.enter)
    waiting.start()
    assert is_waiting.wait(30)
    assert waiting.is_alive()
    first.leave()
    waiting.join(30)
    assert not waiting.is_alive()
    for each in (first, second):
        each.close()


def test_a_holder_that_stands_still_is_waited_for_once_and_stops_no_write(store, holder, clock):
    holder.send_signal(signal.SIGSTOP)
    store.commit(samples.home())
    assert store.conversation(samples.CONVERSATION) is not None
    waited_s = clock.slept_s
    assert waited_s >= WAIT_S
    for _ in range(5):
        store.commit(samples.home())
    assert clock.slept_s == waited_s
    assert holder.poll() is None, "it still holds the queue"


STOP_WITHIN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from upthread.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
with store.database.transaction(is_synced=False):
    os.kill(os.getpid(), signal.SIGSTOP)
store.close()
"""


def test_a_writer_that_is_suspended_is_named_with_the_cure(path, store, clock, monkeypatch):
    monkeypatch.setattr(database, "time", clock)
    patient = SqliteStore(path)
    command = [sys.executable, "-c", STOP_WITHIN_A_TRANSACTION, str(path)]
    with subprocess.Popen(command) as stopped:
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
        for waits_s in (database._WAIT_MAX_S, 0):  # the second time the queue is passed by
            began_s = clock.slept_s
            with pytest.raises(StoreError, match=f"process {stopped.pid} .* suspended") as caught:
                patient.commit(samples.home())
            assert f"kill -CONT {stopped.pid}" in caught.value.hint
            assert clock.slept_s - began_s == pytest.approx(waits_s, abs=0.1)
        assert patient.conversation(samples.CONVERSATION) is None, "reading waits for nobody"
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(30) == 0
    patient.commit(samples.home())
    patient.close()


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


def test_a_directory_or_a_link_in_place_of_the_file_is_passed_by(tmp_path):
    aim = tmp_path / "aim"
    (tmp_path / f"one{QUEUE_SUFFIX}").mkdir()
    (tmp_path / f"two{QUEUE_SUFFIX}").symlink_to(aim)
    for name in ("one", "two"):
        queue = WriteQueue(tmp_path / name, wait_s=0.1)
        queue.enter()
        queue.leave()
        queue.close()
    assert not aim.exists()


def test_a_failed_write_lets_the_next_one_in(path, store, clock):
    other = SqliteStore(path, busy_timeout_s=WAIT_S)
    with pytest.raises(StoreError), store.database.transaction(is_synced=False) as connection:
        connection.execute("INSERT INTO sync_mark (id, touched) VALUES (1, 0)")
    other.commit(samples.home())
    assert clock.slept_s == 0
    other.close()


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_turn(path, clock):
    queue, next_one = WriteQueue(path, wait_s=30), WriteQueue(path, wait_s=WAIT_S)
    queue.enter()
    child = os.fork()
    if not child:
        signal.pause()
    queue.leave()
    next_one.enter()
    assert clock.slept_s == 0
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
