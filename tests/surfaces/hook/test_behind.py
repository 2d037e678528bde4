"""What hooks saw and nobody takes in: whoever reads takes it in, or is told that it is lacking."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator

import pytest
from tests.support.sets import spread
from tests.support.world import eventually
from tests.surfaces.hook.conftest import KEEP_WORDS, HookPlace

STANDS_STILL = "import time; time.sleep(600)"


@pytest.fixture
def stuck(place) -> Iterator[HookPlace]:
    """A place where a first call is on record, and the process with the second's words stops."""
    place.call("c1", "ses_1")
    place.upthread("drain")
    place.start_drains_by(STANDS_STILL)
    end(place, "c2", "ses_1", "Second.")
    place.start_drains_by(KEEP_WORDS)
    yield place
    for pid in takers(place):
        os.kill(pid, signal.SIGKILL)


def end(place: HookPlace, call_id: str, child: str, reply: str) -> None:
    place.hook(place.request("before", call_id, prompt="Go on."))
    place.hook(place.request("started", call_id, child=child))
    said = {"child": child, "prompt": "Go on.", "outcome": "ok", "reply": reply}
    place.hook(place.request("ended", call_id, **said))


def takers(place: HookPlace) -> list[int]:
    kept = [json.loads(path.read_text()) for path in place.files("spool/*-ended.json")]
    return [each["drain"]["pid"] for each in kept if each["call_id"] == "c2"]


def test_a_reader_takes_in_what_is_over_while_the_process_that_should_stands_still(place):
    place.call("c1", "ses_1")
    lock = place.files("lock")[0].with_name("drain")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shown = place.upthread("show", "spec-42/planner")
    assert shown["last_turn"]["outcome"] == "ok"
    assert place.files("spool/*.json") == []


READING = (
    *("show spec-42/planner", "ls", "show spec-42", "show spec-42 --effects"),
    *("why spec-42/planner", "brief spec-42/planner", "audit spec-42"),
)


@pytest.mark.soak
@pytest.mark.parametrize("words", spread(READING, extended=1))
def test_whoever_reads_a_record_that_lacks_a_turn_is_told_so_and_what_helps(stuck, words):
    words = words.split()
    (taker,) = takers(stuck)
    told = stuck.run(*words).err
    assert "the record is behind: 3 events" in told
    assert f"kill -9 {taker}" in told
    behind = stuck.upthread(*words)["behind"]
    assert (behind["events"], behind["takers"]) == (3, [taker])
    os.kill(taker, signal.SIGKILL)
    done = stuck.run(*words)
    assert "behind" not in done.err
    assert "behind" not in stuck.upthread(*words)


def test_turns_stand_in_the_order_they_were_decided_in(stuck):
    end(stuck, "c3", "ses_3", "Third.")
    eventually(lambda: stuck.files("spool/*-said.json"))
    stuck.upthread("show", "spec-42/planner")
    os.kill(takers(stuck)[0], signal.SIGKILL)
    (conversation,) = stuck.upthread("audit", "spec-42")["conversations"]
    assert "Third." in json.dumps(conversation["turns"][-1])
    assert conversation["chain"][-1]["upstream_session_id"] == "ses_3"


@pytest.mark.soak
def test_a_turn_of_ours_is_refused_while_an_earlier_one_is_not_on_record(stuck):
    (taker,) = takers(stuck)
    refused = stuck.run("tell", "spec-42/planner", "Go on.", "--agent", "rehearsal")
    assert refused.code == 6
    assert f"`upthread drain` (pid {taker}), which has words of its last call" in refused.err
