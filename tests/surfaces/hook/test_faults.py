"""A thousand calls while everything goes wrong: the agent always goes on, and nothing is silent."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED, SOAK, spread
from tests.support.world import eventually
from tests.surfaces.hook.conftest import HookPlace, Said

from upthread.core.decision import words

CALLS = (pytest.param(220, marks=SOAK), pytest.param(1_000, marks=SOAK))
"""The smaller number meets each fault once, with twenty calls at a time."""

AT_ONCE = 20
UNDECIDED = f"upthread: {words.UNDECIDED}"


def disk_is_full() -> None:
    """As a full disk does: no write goes through. Runs in the hook's process, before it begins."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def garbled(path: Path) -> None:
    path.write_bytes(b'{"schema": 1, "claim": [[[')


def of_another_version(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def missing(path: Path) -> None:
    path.unlink()


def from_tomorrow(path: Path) -> None:
    """As a clock that was set back leaves what was written before."""
    tomorrow_s = path.stat().st_mtime + 24 * 3600
    os.utime(path, (tomorrow_s, tomorrow_s))


NAME = attrgetter("__name__")
DAMAGES: list[Callable[[Path], None]] = [
    *(truncated, garbled, of_another_version, a_directory),
    missing,
]


@contextmanager
def locked(place: HookPlace) -> Iterator[None]:
    (lock,) = place.files("lock")
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def seen(place: HookPlace) -> HookPlace:
    """A place where the planner has worked once."""
    place.call("c0", "ses_1")
    place.upthread("drain")
    return place


def line_of(said: Said) -> str:
    assert said.code == 0, said
    assert said.err == "", said
    return said.answer.get("line", "")


@EXTENDED
@pytest.mark.parametrize("damage", spread(DAMAGES, first=3, name=NAME))
def test_a_damaged_binding_is_told_and_the_agent_goes_on(seen, damage):
    path = seen.binding
    damage(path)
    said = seen.hook(seen.request("before", "c1", prompt="Go on."))
    assert line_of(said).startswith(UNDECIDED)
    assert path.name in line_of(said)
    assert "task_id" not in said.answer


@pytest.mark.parametrize("damage", spread(DAMAGES[:3], name=NAME))
def test_a_damaged_binding_is_told_once_and_written_again(seen, damage):
    seen.start_drains_by_words((sys.executable, "-m", "upthread", "drain"))
    damage(seen.binding)
    assert line_of(seen.hook(seen.request("before", "c1"))).startswith(UNDECIDED)
    damaged = seen.binding.read_bytes()
    eventually(lambda: seen.binding.read_bytes() != damaged)
    line = line_of(seen.hook(seen.request("before", "c2")))
    assert line.startswith("upthread: spec-42/planner")
    assert decisions_told(line) == [words.RESUME]


def test_a_spool_that_is_no_directory_is_an_error_that_names_it(seen):
    (spool,) = seen.files("spool")
    spool.rmdir()
    spool.write_text("")
    for verb in (("ls",), ("doctor",)):
        done = seen.run(*verb)
        assert "bug" not in done.err, done.err
        assert "Traceback" not in done.err
        assert str(spool) in done.out + done.err


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no JSON at character 0"),
        (b'{"a": ' + b"[" * 100_000, "JSON that is nested too deeply"),
        (b'{"prompt": "' + b"a" * 20_000_000 + b'"}', "it was handed more than 16 MiB"),
    ],
)
def test_a_request_that_cannot_be_read_is_told_in_words(seen, raw, why):
    assert seen.hook(raw).answer["line"].endswith(why)


@SOAK
def test_what_was_not_decided_is_told_with_the_next_decision_and_once(seen):
    with locked(seen):
        seen.hook(seen.request("before", "c1", prompt="Go on."))
    told = line_of(seen.hook(seen.request("before", "c2", prompt="Go on.")))
    assert words.done_in_words(words.RESUME, "ses_1") in told
    assert f"{words.UNDECIDED} before this: 1, the last because" in told
    again = line_of(seen.hook(seen.request("before", "c2", prompt="Go on.")))
    assert words.UNDECIDED not in again


@EXTENDED
def test_a_program_that_takes_too_long_ends_by_itself(seen):
    """Standard input stays open, as with an agent that hangs; the hook does not wait for it."""
    read, write = os.pipe()
    with os.fdopen(write, "wb"):
        said = seen.hook(b"", before=lambda: os.dup2(read, 0), is_patient=False)
    os.close(read)
    assert "took more than" in line_of(said)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("calls", CALLS)
def test_calls_under_faults_end_well_and_none_is_lost(seen, calls):
    faults = [*DAMAGES, locked, disk_is_full, "garbage", from_tomorrow, None, None]
    turnstile = threading.Lock()
    said: dict[str, tuple[str, Said]] = {}

    def call(number: int) -> None:
        fault = faults[number // AT_ONCE % len(faults)]
        call_id = f"call-{number}"
        request: Any = seen.request("before", call_id, prompt="Go on.", role=f"role-{number % 3}")
        if fault == "garbage":
            request = json.dumps(request).encode()[:-5]
        full = disk_is_full if fault is disk_is_full else None
        result = seen.hook(request, before=full)
        with turnstile:
            said[call_id] = (str(fault), result)

    publish_roles(seen)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, calls, AT_ONCE):
            fault = faults[first // AT_ONCE % len(faults)]
            batch = range(first, first + AT_ONCE)
            restored = {path: path.read_bytes() for path in seen.files("bindings/*.json")}
            if fault in {*DAMAGES, from_tomorrow}:
                for path in restored:
                    fault(path)
            with locked(seen) if fault is locked else nullcontext():
                list(pool.map(call, batch))
            if fault in DAMAGES:
                mend(restored)
            free_claims(seen)

    spooled = {json.loads(p.read_text()).get("call_id") for p in seen.files("spool/*-decided.json")}
    assert len(said) == calls
    for call_id, (fault, result) in said.items():
        told = line_of(result)
        assert told, (fault, result)
        assert call_id in spooled or UNDECIDED in told, (fault, result)


def publish_roles(place: HookPlace) -> None:
    roles = "".join(f'[roles.role-{number}]\ncontinuity = "resume"\n' for number in range(3))
    (place.project / "upthread.toml").write_text(roles)
    place.upthread("use", "spec-42")


def mend(restored: dict[Path, bytes]) -> None:
    for path, raw in restored.items():
        if path.is_dir():
            path.rmdir()
        path.write_bytes(raw)
        path.chmod(0o600)


def free_claims(place: HookPlace) -> None:
    """The calls are over: their slots are free again."""
    for path in place.files("bindings/*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "claim": None}))
