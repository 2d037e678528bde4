"""Ten thousand requests in a minute while eight writers commit: no error, memory stays where it is,
and the writers are as quick as beside a server that has nothing to say.
"""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.support.every_case import environment_of
from tests.surfaces.web.test_web import Site, tell

from upthread.client.framework_record import FrameworkRecord
from upthread.runtime.record.entry_log import NewEntry

REQUESTS, CLIENTS, WRITERS, SECONDS = 10_000, 8, 8, 60.0
ROUNDS = 6
ROUND_SECONDS = SECONDS / ROUNDS
GROWN_KIB_MAX = 20_000

SLOWER_MAX = 0.05
PATHS = ("/", "/list", "/workstream?name=w1", "/live?name=w2&turns=1", "/search?q=word")
SILENT = """
import sys, uvicorn
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 3000})
uvicorn.run(app, fd=int(sys.argv[1]), log_level="error", lifespan="off")
"""


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


def ask(port: int | None, headers: dict[str, str], *, seconds: float) -> list[int]:
    """One client: as many requests a second as are its share of them all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found: list[int] = []
    began = time.monotonic()
    for at in range(int(REQUESTS / CLIENTS * seconds / SECONDS)):
        time.sleep(max(0.0, began + at * SECONDS * CLIENTS / REQUESTS - time.monotonic()))
        connection.request("GET", PATHS[at % len(PATHS)], headers=headers)
        response = connection.getresponse()
        response.read()
        found.append(response.status)
    connection.close()
    return found


class Load:
    """Eight writers, and what is asked beside them."""

    def __init__(self, place: Path, writers: Any) -> None:
        self._place, self._writers = place, writers

    def commits(self, seconds: float, beside: Callable[[], None] = lambda: None) -> float:
        """Return how many commits there are in a second while `beside` goes on."""
        asked = [(self._place, at, seconds) for at in range(WRITERS)]
        writing = self._writers.starmap_async(write, asked)
        beside()
        return sum(writing.get()) / seconds


def clients(port: int | None, headers: dict[str, str], seconds: float) -> set[int]:
    """Ask, all clients at once; returns the statuses that there were."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        told = pool.map(lambda _: ask(port, headers, seconds=seconds), range(CLIENTS))
        return {status for each in told for status in each}


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_many_look_while_many_write(tmp_path: Path):
    (tmp_path / "project").mkdir()
    tell(tmp_path, "spec/planner", 1)
    with get_context("spawn").Pool(WRITERS) as writers:
        load = Load(tmp_path, writers)
        alone = load.commits(ROUND_SECONDS)
        site = Site(tmp_path)
        listener = socket.create_server(("127.0.0.1", 0))
        silent_port = listener.getsockname()[1]
        silent = subprocess.Popen(
            [sys.executable, "-c", SILENT, str(listener.fileno())], pass_fds=(listener.fileno(),)
        )
        clients(site.port, site.cookie, 1)
        before = resident_kib(site.pid)
        statuses: set[int] = set()
        floors: list[float] = []
        beside_ours: list[float] = []
        took = 0.0
        # In turns, since a shared machine is not as quick in one minute as in the next.
        for _ in range(ROUNDS):
            floors.append(
                load.commits(
                    ROUND_SECONDS, lambda: clients(silent_port, {}, ROUND_SECONDS) and None
                )
            )
            began = time.monotonic()
            beside_ours.append(
                load.commits(
                    ROUND_SECONDS,
                    lambda: statuses.update(clients(site.port, site.cookie, ROUND_SECONDS)),
                )
            )
            took += time.monotonic() - began
        after = resident_kib(site.pid)
        silent.kill()
        silent.wait()
        listener.close()
        site.close()
    floor, ours = fmean(floors), fmean(beside_ours)
    sys.stdout.write(
        f"\n{REQUESTS} requests in {took:.0f} s; commits/s: alone {alone:,.0f}, beside a silent "
        f"server {floor:,.0f}, beside ours {ours:,.0f} "
        f"({ours / floor:.2f}; {ours / alone:.2f} of alone); {before:,} -> {after:,} KiB\n"
    )
    assert statuses == {200}
    assert took <= SECONDS + ROUNDS
    assert after - before <= GROWN_KIB_MAX
    assert ours >= (1 - SLOWER_MAX) * floor
