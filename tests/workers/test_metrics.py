"""What a worker shows to those who watch over it."""

import re
import urllib.request

import pytest
from tests.support.laboratory.sharing import until
from tests.support.sets import EXTENDED

from upthread.client.worker_metrics import Metrics, served
from upthread.errors import UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

NOBODY_THERE = "postgres://127.0.0.1:1/nothing"


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def numbers(text: str) -> dict[str, float]:
    found = re.findall(r"^(upthread\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


@EXTENDED
async def test_a_worker_counts_what_it_does_and_measures_what_waits(passage, workers):
    workers.start("--metrics", "0")
    await until(lambda: workers.told("worker_started"))
    (told,) = workers.told("worker_metrics")
    url = told["detail"]
    before = numbers(read(url))
    assert before["upthread_database_up"] == 1
    assert before['upthread_workers{state="living"}'] == 1
    assert before["upthread_transitions_waiting"] == 0
    await passage.play()
    after = read(url)
    assert numbers(after)['upthread_worker_events_total{event="step_ended"}'] >= 5
    assert str(passage.world.project) not in after
    assert "constructor" not in after, "no role is a label"
    decided = [each["detail"] for each in workers.told("turn_started")]
    assert any("constructor" in each and "STARTED" in each for each in decided)
    workers.check_no_traceback()


def test_a_database_that_does_not_answer_is_a_measurement():
    with served(Metrics(NOBODY_THERE), 0) as url:
        measured = numbers(read(url))
    assert measured["upthread_database_up"] == 0
    assert "upthread_transitions_waiting" not in measured


def test_a_port_that_is_taken_is_an_error_with_its_cure():
    with served(Metrics(NOBODY_THERE), 0) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UsageError, match=f"port {port}"), served(Metrics(NOBODY_THERE), port):
            pass
