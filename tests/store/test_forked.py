"""A process forks with a store open: parent and children each have their own connection."""

import subprocess
import sys

import pytest
from tests.support.sets import EXTENDED

from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

PROGRAM = """
import multiprocessing, os, sys, threading, time
from upthread.client.framework_record import FrameworkRecord
from upthread.runtime.record.entry_log import NewEntry

database, way = sys.argv[1:]
record = FrameworkRecord(".", database=database, environment={"UPTHREAD_HOME": os.getcwd()})
TIMES = 30

def work(name):
    own, shared = (record.log("openai-agents", thread) for thread in (name, "shared"))
    for number in range(TIMES):
        own.append([NewEntry(value=[name, number])])
        shared.append([NewEntry(value=[name, number])])
        found = [each.value for each in own.entries()]
        assert found == [[name, each] for each in range(number + 1)], found

def child(name):
    work(name)
    record.close()

def forked(name):
    if way == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=child, args=(name,))
        process.start()
        return lambda: (process.join(60), process.exitcode)[1]
    pid = os.fork()
    if pid == 0:
        child(name)
        sys.exit(0)
    return lambda: os.waitpid(pid, 0)[1]

names = ["before", "child-1", "child-2", "beside", "after"]
work("before")
is_over = threading.Event()
def busy():
    while not is_over.is_set():
        record.log("openai-agents", "busy").append([NewEntry(value=0)])
thread = threading.Thread(target=busy)
if way == "busy":
    thread.start()
ends = [forked(name) for name in names[1:3]]
work("beside")
assert [end() for end in ends] == [0, 0]
work("after")
is_over.set()
if way == "busy":
    thread.join()
record.close()
with FrameworkRecord(".", database=database, environment={"UPTHREAD_HOME": os.getcwd()}) as again:
    found = [each.value for each in again.log("openai-agents", "shared").entries()]
    assert sorted(found) == sorted([name, n] for name in names for n in range(TIMES)), found
    assert [each for each in again._parts.store.behind.proofs() if each.damage] == []
print("all of it is there")
"""


IS_KNOWN = "ignore:.*fork:DeprecationWarning"
"""Newer versions of Python warn of each fork beside a thread."""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("address")
    return str(tmp_path / "upthread.db")


@pytest.mark.parametrize("way", ["fork", pytest.param("multiprocessing", marks=EXTENDED), "busy"])
def test_parent_and_children_read_and_write_what_is_theirs(database, way, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", IS_KNOWN, "-c", PROGRAM, database, way],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("all of it is there\n", "", 0)


OUTLIVES = """
import os, sys
from pathlib import Path
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

store = SqliteStore(Path("upthread.db"))
store.commit([*samples.home(), samples.said(1)])
ours, parents = os.pipe()
if os.fork():
    store.close()
    os._exit(0)
os.close(parents)
os.read(ours, 1)
store.commit([samples.said(2)])
print("committed", flush=True)
os._exit(0)  # as if killed
"""


def test_what_a_child_commits_outlives_it_though_its_parent_ended_first(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", OUTLIVES], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.communicate(timeout=60) == ("committed\n", None)
    store = SqliteStore(tmp_path / "upthread.db")
    assert store.message_count(samples.CONVERSATION) == 2
    store.close()
