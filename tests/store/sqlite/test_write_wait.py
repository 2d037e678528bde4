"""A writer that is suspended in the middle of a transaction, and the writers beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore, write_wait
from upthread.testing.store_conformance import samples

SUSPENDED = """
import os, signal, sys
from pathlib import Path
from upthread.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
with store.database.transaction(is_synced=False):
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""
WAIT_S = 20.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    store = SqliteStore(path, busy_timeout_s=WAIT_S)
    yield store
    store.close()


@pytest.fixture
def suspended(path, store):
    command = [sys.executable, "-c", SUSPENDED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield process
        process.kill()


def test_a_suspended_writer_is_named_with_its_cure_after_a_bounded_wait(
    store, suspended, monkeypatch
):
    monkeypatch.setattr(write_wait, "SUSPENDED_WAIT_S", 0.3)
    began_s = time.monotonic()
    with pytest.raises(StoreError, match="database is locked") as told:
        store.commit(samples.home())
    assert time.monotonic() - began_s < WAIT_S / 2
    assert f"process {suspended.pid} holds it and is suspended" in str(told.value.hint)
    assert f"kill -CONT {suspended.pid}" in str(told.value.hint)


def test_a_writer_that_continues_in_time_stops_nobody(store, suspended):
    os.kill(suspended.pid, signal.SIGCONT)
    store.commit(samples.home())
    assert suspended.wait(WAIT_S) == 0
    assert write_wait.suspended_writer(store.database.path) is None


def test_a_writer_that_works_is_waited_for_to_the_end(path, store):
    other = SqliteStore(path, busy_timeout_s=0.2)
    with store.database.transaction(is_synced=False), pytest.raises(StoreError) as told:
        other.commit(samples.home())
    other.close()
    assert "suspended" not in str(told.value.hint)


@pytest.mark.parametrize("locks", ["1: POSIX  ADVISORY  READ 1 0:1:2 0 EOF\n", "-> what\n", None])
def test_nobody_is_named_where_the_system_does_not_say_who_holds_it(
    path, store, tmp_path, monkeypatch, locks
):
    told = tmp_path / "locks"
    if locks is not None:
        told.write_text(locks)
    monkeypatch.setattr(write_wait, "_LOCKS", told)
    assert write_wait.suspended_writer(path) is None
