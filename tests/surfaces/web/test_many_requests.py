"""Ten thousand requests while eight writers commit: no error, and memory stays where it is."""

from __future__ import annotations

import http.client
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.support.every_case import environment_of
from tests.surfaces.web.test_web import Site, tell

from upthread.client.framework_record import FrameworkRecord
from upthread.runtime.record.entry_log import NewEntry

REQUESTS, CLIENTS, WRITERS, SECONDS_MAX = 10_000, 8, 8, 60
GROWN_KIB_MAX = 20_000


def write(place: Path, number: int, seconds: float) -> int:
    """Commit as fast as one may, and return how often."""
    end, written = time.monotonic() + seconds, 0
    with FrameworkRecord(place / "project", environment=environment_of(place)) as record:
        while time.monotonic() < end:
            record.log("writer", f"w{number}").append([NewEntry(value=written, text="a word")])
            written += 1
    return written


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def ask(site: Site, times: int) -> list[int]:
    paths = ("/", "/list", "/workstream?name=w1", "/live?name=w2&turns=1", "/search?q=word")
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    found = []
    for at in range(times):
        connection.request("GET", paths[at % len(paths)], headers=site.cookie)
        response = connection.getresponse()
        response.read()
        found.append(response.status)
    connection.close()
    return found


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_many_look_while_many_write(tmp_path: Path):
    (tmp_path / "project").mkdir()
    tell(tmp_path, "spec/planner", 1)
    context = get_context("spawn")
    with context.Pool(WRITERS) as writers:
        alone = sum(writers.starmap(write, [(tmp_path, at, 10.0) for at in range(WRITERS)]))
        site = Site(tmp_path)
        ask(site, 50)
        before = resident_kib(site.pid)
        writing = writers.starmap_async(write, [(tmp_path, at, 10.0) for at in range(WRITERS)])
        began = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            told = list(clients.map(lambda _: ask(site, REQUESTS // CLIENTS), range(CLIENTS)))
        took = time.monotonic() - began
        beside = sum(writing.get())
        after = resident_kib(site.pid)
        site.close()
    sys.stdout.write(
        f"\n{REQUESTS / took:,.0f} requests/s; writers {beside / alone:.2f} of alone; "
        f"{before:,} -> {after:,} KiB\n"
    )
    assert {status for each in told for status in each} == {200}
    assert took <= SECONDS_MAX
    assert after - before <= GROWN_KIB_MAX
