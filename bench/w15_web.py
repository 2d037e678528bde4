"""W15: `upthread web` and the page of an audit, on 1,000 workstreams and 100,000 messages.

Half of the messages are in one workstream. Raw is what each may take. A request is a new connection
to a server that runs; the first of each kind stands apart, as it fills the caches. The audit's page
is a process of its own: of so long a workstream it is 120 MB, which no browser is glad of.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

import anyio
from measure import Row, memory_watched, most_kb, percentile
from scratch import scratch
from tests.support.default_turn import open_place, prepare_turn, record_turn

import upthread
from upthread.runtime.record.project_store import ProjectStore
from upthread.store.log import LogStore

WORKSTREAMS = 1_000
TURNS_EACH, TURNS_OF_LARGEST = 8, 8_340
QUICK_WORKSTREAMS, QUICK_TURNS_OF_LARGEST = 100, 400
ROUNDS = 7
SECOND_US = 1e6
MEMORY_KB_MAX = 120 * 1024
ASKED = {
    "the list": ("/", 0.2),
    "a search that finds nothing": ("/search?q=quaggazebra{number}", 0.5),
    "a search that finds much": ("/search?q=the&again={number}", 0.5),
    "the page of the largest workstream": ("/workstream?name=largest&again={number}", 5.0),
}


def measure(*, is_quick: bool) -> list[Row]:
    """Return the rows."""
    with scratch() as directory:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "UPTHREAD_HOME": str(directory / "upthread"),
        }
        project = directory / "project"
        project.mkdir()
        turns = QUICK_TURNS_OF_LARGEST if is_quick else TURNS_OF_LARGEST
        with chdir(project):
            count = QUICK_WORKSTREAMS if is_quick else WORKSTREAMS
            anyio.run(_fill, environment, count, turns)
        rows = _asked(project, environment, 2 if is_quick else ROUNDS)
        return [*rows, *_audit(project, environment)]


async def _fill(environment: Mapping[str, str], workstreams: int, turns: int) -> None:
    async with upthread.open_project(environment=environment) as project:
        store = cast("LogStore", cast("ProjectStore", project.store).behind)
        for name, count in (
            *((f"ws-{n}", TURNS_EACH) for n in range(workstreams)),
            ("largest", turns),
        ):
            place = open_place(store, name, project=project.project_id)
            for number in range(count):
                record_turn(store, place, prepare_turn(place, number))


def _asked(project: Path, environment: Mapping[str, str], rounds: int) -> list[Row]:
    with subprocess.Popen(
        (sys.executable, "-m", "upthread", "web", "--no-open"),
        cwd=project,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+", server.stderr.readline())
            assert found is not None
            rows = []
            for what, (path, seconds_max) in ASKED.items():
                took = [_ask(found[0], path, number) for number in range(rounds + 1)]
                rows += [
                    _row(f"{what}, the first time", [took[0]], seconds_max, is_trend=True),
                    _row(what, took[1:], seconds_max),
                ]
            return [*rows, _memory("the server", most_kb(server.pid) or 0.0)]
        finally:
            server.terminate()


def _ask(address: str, path: str, number: int) -> float:
    """Return how long a page takes, in microseconds; asked again it is another page."""
    parts = urlsplit(address)
    token = parse_qs(parts.query)["token"][0]
    time.sleep(0.6)  # an answer holds for half a second
    began_s = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=120)
    cookie = {"Cookie": f"upthread-{parts.port}={token}"}
    connection.request("GET", path.format(number=number), headers=cookie)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200
    return (time.perf_counter() - began_s) * SECOND_US


def _audit(project: Path, environment: Mapping[str, str]) -> list[Row]:
    page = project.parent / "largest.html"
    words = ("audit", "largest", "--format", "html", "-o", str(page))
    began_s = time.perf_counter()
    child = subprocess.Popen(
        (sys.executable, "-m", "upthread", *words),
        cwd=project,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    with memory_watched(child.pid) as memory_kb:
        assert child.wait() == 0
    wall_us = (time.perf_counter() - began_s) * SECOND_US
    what = f"the largest workstream's audit as HTML, {page.stat().st_size / 1e6:.0f} MB"
    return [_row(what, [wall_us], 5, is_trend=True), _memory("that audit", memory_kb[-1])]


def _row(what: str, took: list[float], seconds_max: float, *, is_trend: bool = False) -> Row:
    return Row(
        workload="W15",
        what=what,
        raw=seconds_max * SECOND_US,
        ours=percentile(took, 0.1),
        limit=None if is_trend else 1,
    )


def _memory(what: str, kilobytes: float) -> Row:
    return Row(
        workload="W15",
        what=f"{what}, the most memory",
        raw=MEMORY_KB_MAX,
        ours=kilobytes,
        unit="kB",
        limit=1,
    )
