"""Calls while everything goes wrong: the agent always goes on, and nothing is silent."""

import json
import os
import resource
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED, SOAK
from tests.surfaces.hook.conftest import HookPlace, Said

from upthread.core.decision import words

AT_ONCE = 8
UNDECIDED = f"upthread: {words.UNDECIDED}"


def disk_is_full() -> None:
    """As a full disk does: no write goes through. Runs in the hook's process, before it begins."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@contextmanager
def locked(place: HookPlace) -> Iterator[None]:
    with closing(sqlite3.connect(place.home / "upthread.db", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        yield


@pytest.fixture
def seen(place: HookPlace) -> HookPlace:
    """A place where the planner has worked once."""
    place.call("c0", "ses_1")
    return place


def line_of(said: Said) -> str:
    assert said.code == 0, said
    assert said.err == "", said
    return str(said.answer.get("line", ""))


@pytest.mark.parametrize("content", [b"", b"no database" * 1_000])
def test_a_damaged_record_is_told_and_the_agent_goes_on(seen, content):
    for each in seen.home.glob("upthread.db*"):
        each.write_bytes(content)
    said = seen.hook(seen.request("before", "c1", prompt="Go on."))
    assert not content or line_of(said).startswith(UNDECIDED)
    assert "task_id" not in said.answer or not said.answer["task_id"]


def test_a_record_that_is_gone_from_beside_its_key_is_told(seen):
    (seen.home / "upthread.db").rename(seen.home / "kept")
    assert "is not there" in line_of(seen.hook(seen.request("before", "c1", prompt="Go on.")))
    asked = seen.request("guard", "c2", tool="bash", arguments={"command": "./deploy.sh"})
    assert line_of(seen.hook(asked, event="Guard")).startswith(UNDECIDED)
    assert not (seen.home / "upthread.db").exists()


def test_a_record_that_is_in_use_is_waited_for_and_not_for_long(seen):
    with locked(seen):
        told = line_of(seen.hook(seen.request("before", "c1", prompt="Go on.")))
    assert told.startswith(UNDECIDED)
    queue = seen.home / "upthread.db-queue"
    assert queue.stat().st_size, "the next command knows that there is something to read back"
    seen.upthread("ls")
    assert not queue.stat().st_size
    told = line_of(seen.hook(seen.request("before", "c2", prompt="Go on.")))
    assert decisions_told(told) == [words.RESUME]


@pytest.mark.parametrize("host", ["127.0.0.1:1", pytest.param("192.0.2.1", marks=EXTENDED)])
def test_a_server_that_does_not_answer_is_one_line_a_call_and_the_agent_goes_on(seen, host):
    """Nothing listens at port 1; 192.0.2.0/24 leads nowhere (RFC 5737)."""
    database = {"UPTHREAD_DB": f"postgresql://nobody@{host}/none"}
    events = ("before", "started", "ended", "prompt")
    said = [seen.hook(seen.request(each, "c1", prompt="Go on."), **database) for each in events]
    assert line_of(said[0]).startswith(UNDECIDED)
    assert [each.answer for each in said[1:]] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "JSONDecodeError"),
        (b'{"a": ' + b"[" * 100_000, "RecursionError"),
        (b'{"prompt": "' + b"a" * 20_000_000 + b'"}', "it was handed more than 16 MiB"),
    ],
)
def test_a_request_that_cannot_be_read_is_told_in_words(seen, raw, why):
    assert why in seen.hook(raw).answer["line"]


@EXTENDED
def test_a_program_that_takes_too_long_ends_by_itself(seen):
    """Standard input stays open, as with an agent that hangs; the hook does not wait for it."""
    read, write = os.pipe()
    with os.fdopen(write, "wb"):
        said = seen.hook(b"", before=lambda: os.dup2(read, 0))
    os.close(read)
    assert "took more than" in line_of(said)


@SOAK
@pytest.mark.timeout(900)
def test_calls_under_faults_end_well_and_none_is_lost(seen):
    roles = "".join(f'[roles.role-{number}]\ncontinuity = "resume"\n' for number in range(3))
    (seen.project / "upthread.toml").write_text(roles)
    said: dict[str, Said] = {}
    seen.commits_max = None

    def call(number: int, fault: str) -> None:
        call_id = f"call-{number}"
        request = seen.request("before", call_id, prompt="Go on.", role=f"role-{number % 3}")
        raw = json.dumps(request).encode()[: -5 if fault == "garbage" else None]
        said[call_id] = seen.hook(raw, before=disk_is_full if fault == "full" else None)

    for turn, fault in enumerate(("", "locked", "full", "garbage") * 5):
        with locked(seen) if fault == "locked" else nullcontext(), ThreadPoolExecutor() as pool:
            batch = range(turn * AT_ONCE, (turn + 1) * AT_ONCE)
            list(pool.map(lambda number, f=fault: call(number, f), batch))
    kept = json.dumps(seen.upthread("audit", "spec-42"))
    for call_id, told in said.items():
        assert line_of(told), told
        assert f'"{call_id}"' in kept or words.UNDECIDED in line_of(told), told
