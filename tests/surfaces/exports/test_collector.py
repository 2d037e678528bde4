"""Spans reach a receiver of OTLP as they end: each once, and again where none took them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.otlp_receiver import Receiver

CHILD = "[[rehearse: child explorer look around]] [[rehearse: read README.md]]"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


class Place:
    """An empty home and a project; `upthread` runs the program there."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "shop"
        self.project.mkdir()
        home = directory / "home"
        home.mkdir(mode=0o700)
        self.environment = {
            "HOME": str(home),
            "UPTHREAD_HOME": str(home / "upthread"),
            "PATH": os.environ["PATH"],
            # Else it tries again for ten seconds before it says that nobody answers.
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "upthread", *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def upthread(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, out + err
        return out + err

    def tell(self, address: str, text: str, code: int = 0) -> None:
        self.upthread("tell", address, text, "--agent", "rehearsal", code=code)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def until(holds: Callable[[], object], *, seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def told_of(span: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


def test_what_has_ended_is_sent_with_its_tools_and_sub_agents_in_one_trace(place, receiver):
    place.tell("w/planner", CHILD)
    place.tell("other/planner", "[[rehearse: say secret words]]")
    told = json.loads(place.upthread("export", "--endpoint", receiver.endpoint, "--json"))
    assert told["spans"] == len(receiver.spans) == 5
    by_id = {span.span_id: span for span in receiver.spans}
    (child,) = [span for span in receiver.spans if span.name == "invoke_agent explorer"]
    call = by_id[child.parent_span_id]
    turn = by_id[call.parent_span_id]
    assert (call.name, turn.name) == ("execute_tool other", "invoke_agent planner")
    assert child.trace_id == call.trace_id == turn.trace_id
    assert told_of(turn)["upthread.decision"] == "first"
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in receiver.spans)
    assert "secret" not in "".join(map(str, receiver.spans))
    place.upthread("export", "other", "--endpoint", receiver.endpoint, "--content")
    assert "secret words" in str(receiver.spans[-1])


def test_followed_each_is_sent_once_as_it_ends_and_none_is_lost_while_nobody_takes_it(place):
    place.tell("w/planner", CHILD)  # before: not sent
    receiver = Receiver()
    port = int(receiver.endpoint.rpartition(":")[2])
    following = place.start("export", "--follow", "--endpoint", receiver.endpoint)
    try:
        assert following.stderr is not None
        assert "what ends from now on goes to" in following.stderr.readline()
        place.tell("w/planner", CHILD)
        place.tell("new/planner", "[[rehearse: say hello]]")
        until(lambda: len(receiver.spans) == 5)
        receiver.close()
        place.tell("w/planner", "[[rehearse: say while away]]")
        assert "did not take 1 spans" in following.stderr.readline()
        again = Receiver(port)
        try:
            until(lambda: again.names() == ["invoke_agent planner"])
            place.tell("w/auditor", "[[rehearse: say and on]]")
            until(lambda: len(again.spans) == 2)
        finally:
            again.close()
        spans = [span.span_id for span in (*receiver.spans, *again.spans)]
        assert len(spans) == len(set(spans)) == 7
    finally:
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=30)
    assert following.returncode == 130


def test_a_turn_that_goes_on_is_sent_once_it_has_ended(place, receiver):
    slow = place.start("tell", "w/planner", "[[rehearse: slow 20 100]]", "--agent", "rehearsal")
    until(lambda: "running" in place.upthread("ls"))
    place.upthread("export", "--endpoint", receiver.endpoint)
    assert receiver.spans == []
    slow.communicate(timeout=60)
    place.upthread("export", "--endpoint", receiver.endpoint)
    assert receiver.names() == ["invoke_agent planner"]


def test_nobody_there_and_an_address_that_is_none_are_said(place):
    place.tell("w/planner", "[[rehearse: say hello]]")
    gone = Receiver()
    nobody = gone.endpoint
    gone.close()
    said = place.upthread("export", "--endpoint", nobody, code=1)
    assert f"the collector at {nobody} did not take 1 spans" in said
    assert "Traceback" not in said
    for word in ("ftp://x", "localhost:4318", "http://"):
        assert "is no address" in place.upthread("export", "--endpoint", word, code=2)
    place.upthread("export", "nothing", "--endpoint", nobody, code=3)


def test_hostile_text_and_secrets_reach_no_collector_whole(place, receiver):
    key = "AKIA" + "Q7ZXW2VN4KPL5RTM"
    place.tell("w/planner", f"[[rehearse: say \x1b[31m{key}\u202e]]")
    place.upthread("export", "--endpoint", receiver.endpoint, "--content")
    (turn,) = receiver.spans
    said = told_of(turn)["gen_ai.output.messages"]
    assert key not in str(turn)
    assert json.loads(said)[0]["role"] == "assistant"
