"""W16: calls of sub-agents over a thousand conversations, while the record is at work.

Each call is three hooks, as an agent runs them: before it, when its session begins, and when it
ends. Beside them one process tells a role without end. Raw: what
a person may wait for, whatever else the machine does. No call may be left undecided: each has a
session by then that the hook before it has to know.

Then twenty hooks at once, with nothing beside them. Raw: twenty interpreters that do nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from many_conversations import ROLES, WORKSTREAMS
from measure import Row, percentile
from scratch import scratch
from tests.support.decisions_told import decisions_told
from w13_tell import UPTHREAD, Project, make_project, publish_many, run_in, tell

from upthread.surfaces.cli.setup import launcher

CALLS = 1_000
CALLS_QUICK = 60
AT_ONCE = 20
PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S")
ROUNDS = 25
ROUNDS_QUICK = 5
WAIT_MS_MAX = 100.0
WORKSTREAM_VARIABLE = "UPTHREAD_WORKSTREAM"


def measure(*, is_quick: bool) -> list[Row]:
    """Return how many calls were not decided, and how long the hooks before them took."""
    with scratch() as directory:
        project = make_project(directory / "many")
        roles = "\n".join(f'[roles.role-{number}]\ncontinuity = "auto"' for number in range(ROLES))
        (project.directory / "upthread.toml").write_text(roles)
        run_in([*UPTHREAD, "trust", "--yes"], project)
        tell(project)
        publish_many(project)
        with _without_end(lambda: tell(project)):
            calls = list(_calls(project, CALLS_QUICK if is_quick else CALLS))
        crowd = _crowd(project, ROUNDS_QUICK if is_quick else ROUNDS)
    walls = [wall_ms for wall_ms, _ in calls]
    undecided = sum(not told for _, told in calls)
    what = f"beside tell, {WORKSTREAMS * ROLES:,} conversations"
    return [
        Row(
            workload="W16",
            what=f"calls left undecided, of {len(calls):,}, {what}",
            raw=None,
            ours=undecided,
            unit="calls",
            limit=0,
        ),
        *(
            Row(
                workload="W16",
                what=f"hook before a call, p{share:.0%}".removesuffix("%") + f", {what}",
                raw=WAIT_MS_MAX,
                ours=percentile(walls, share),
                unit="ms",
                limit=1.0 if share > 0.5 else None,
                note="raw: the most it may be",
            )
            for share in (0.5, 0.95)
        ),
        Row(
            workload="W16",
            what=f"hook before a call, p99, {AT_ONCE} at once",
            raw=percentile([nothing_ms for nothing_ms, _ in crowd], 0.99),
            ours=percentile([hook_ms for _, hook_ms in crowd], 0.99),
            unit="ms",
            limit=3.0,
            note="raw: interpreters that do nothing",
        ),
    ]


def _crowd(project: Project, rounds: int) -> list[tuple[float, float]]:
    """Start many at once, interpreters that do nothing and hooks in turn; returns ms of each."""
    nothing = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", "pass"]

    def interpreter(_call: int) -> float:
        started_s = time.perf_counter()
        subprocess.run(nothing, capture_output=True, check=True)
        return (time.perf_counter() - started_s) * 1e3

    def hook(call: int) -> float:
        workstream, request = _before(project, call)
        return _hook(project, workstream, request)[0]

    walls = list[tuple[float, float]]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in range(rounds):
            calls = range(CALLS + each * AT_ONCE, CALLS + (each + 1) * AT_ONCE)
            walls += zip(pool.map(interpreter, calls), pool.map(hook, calls), strict=True)
    return walls


def _calls(project: Project, number: int) -> Iterator[tuple[float, list[str]]]:
    """Call roles in turn; yields what the hook before each took, in ms, and what it decided."""
    for call in range(number):
        workstream, request = _before(project, call)
        wall_ms, told = _hook(project, workstream, request)
        yield wall_ms, decisions_told(told)
        child = {"child": f"ses_{call}", "outcome": "ok", "reply": "Gone on."}
        for event in ("started", "ended"):
            _hook(project, workstream, {**request, **child, "event": event})


def _before(project: Project, call: int) -> tuple[str, dict[str, object]]:
    """Return the workstream of a call, and what an agent says before it makes it."""
    workstream, role = f"many-{call % WORKSTREAMS}", f"role-{call // WORKSTREAMS % ROLES}"
    return workstream, {
        "event": "before",
        "cwd": str(project.directory),
        "session": "ses_main",
        "call_id": f"call-{call}",
        "role": role,
        "pid": os.getpid(),
        "prompt": "Go on.",
    }


def _hook(project: Project, workstream: str, request: dict[str, object]) -> tuple[float, bytes]:
    """Run the hook program to its end; returns its wall in ms, and what it said."""
    program = files("upthread").joinpath("surfaces/hook/__main__.py")
    home = project.environment["UPTHREAD_HOME"]
    started_s = time.perf_counter()
    done = subprocess.run(
        [*PYTHON, str(program), "opencode", home, "", *launcher.libraries()],
        cwd=project.directory,
        env={**project.environment, WORKSTREAM_VARIABLE: workstream},
        input=json.dumps(request).encode(),
        capture_output=True,
        check=True,
    )
    return (time.perf_counter() - started_s) * 1e3, done.stdout


@contextmanager
def _without_end(work: Callable[[], None]) -> Iterator[None]:
    """Do something over and over meanwhile. What fails in it fails here."""
    is_over, faults = threading.Event(), list[Exception]()

    def repeat() -> None:
        try:
            while not is_over.is_set():
                work()
        except Exception as fault:  # noqa: BLE001  # told by whoever waits for it
            faults.append(fault)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if faults:
        raise faults[0]
