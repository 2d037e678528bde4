"""W16: calls of sub-agents over a thousand conversations, quiet and while the record is at work.

Each call is three hooks, as an agent runs them: before it, when its session begins, and when it
ends. First nothing runs beside them. Then eight processes write turns as fast as they can, and
another one tells a role without end. Raw: the time that a hook may take, on any machine. No call
may be left undecided: each has a session by then that the hook before it has to know.

Then the guard's look at a record in which nothing is in doubt. Raw: an interpreter that does
nothing, in turn with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from many_conversations import ROLES, WORKSTREAMS
from measure import Row, percentile
from scratch import scratch
from tests.support.decisions_told import decisions_told
from w6_writers import writing
from w13_tell import UPTHREAD, Project, make_project, publish_many, run_in, tell

from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.hook.program import EVENT

CALLS = 1_000
CALLS_QUICK = 60
CALLS_QUIET = 200
WRITERS = 8
LOOKS = 100
LOOKS_QUICK = 20
PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S")
QUIET_MS_MAX = 250.0
BESIDE_MS_MAX = 400.0
GUARD_STARTS_MAX = 2.5
WORKSTREAM_VARIABLE = "UPTHREAD_WORKSTREAM"


def measure(*, is_quick: bool) -> list[Row]:
    """Return how many calls were not decided, and how long hooks and the guard's look took."""
    calls = CALLS_QUICK if is_quick else CALLS
    with scratch() as directory:
        project = make_project(directory / "many")
        roles = "\n".join(f'[roles.role-{number}]\ncontinuity = "auto"' for number in range(ROLES))
        (project.directory / "upthread.toml").write_text(roles)
        run_in([*UPTHREAD, "trust", "--yes"], project)
        tell(project)
        publish_many(project)
        looks = _looks(project, LOOKS_QUICK if is_quick else LOOKS)
        quiet = list(_calls(project, range(min(calls, CALLS_QUIET))))
        database = Path(project.environment["UPTHREAD_HOME"], "upthread.db")
        with writing(database, writers=WRITERS), _without_end(lambda: tell(project)):
            beside = list(_calls(project, range(calls, 2 * calls)))
    undecided = sum(not call.is_decided for call in (*quiet, *beside))
    many = f"{WORKSTREAMS * ROLES:,} conversations"
    busy = f"beside {WRITERS} writers and tell"
    return [
        Row(
            workload="W16",
            what=f"calls left undecided, of {len(quiet) + len(beside):,}, {many}",
            raw=None,
            ours=undecided,
            unit="calls",
            limit=0,
        ),
        *_shares(f"quiet, {many}", quiet, QUIET_MS_MAX),
        *_shares(f"{busy}, {many}", beside, BESIDE_MS_MAX),
        Row(
            workload="W16",
            what="guard outside of doubt, p50",
            raw=percentile([nothing_ms for nothing_ms, _ in looks], 0.5),
            ours=percentile([look_ms for _, look_ms in looks], 0.5),
            unit="ms",
            limit=GUARD_STARTS_MAX,
            note="raw: an interpreter that does nothing",
        ),
    ]


class Call(NamedTuple):
    """A call of a sub-agent: how long its hooks took, and whether the first one decided."""

    walls_ms: list[float]
    is_decided: bool


def _shares(what: str, calls: list[Call], most_ms: float) -> Iterator[Row]:
    walls_ms = [wall_ms for call in calls for wall_ms in call.walls_ms]
    for share in (0.5, 0.95):
        yield Row(
            workload="W16",
            what=f"hook, p{share * 100:.0f}, {what}",
            raw=most_ms,
            ours=percentile(walls_ms, share),
            unit="ms",
            limit=1.0 if share > 0.5 else None,
            note="raw: the most it may be",
        )


def _looks(project: Project, number: int) -> list[tuple[float, float]]:
    """Let an interpreter do nothing and the guard look, in turn; returns ms of each."""
    nothing = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", "pass"]
    request = {"cwd": str(project.directory), "session_id": "main", "tool_name": "Bash"}
    walls = list[tuple[float, float]]()
    for _ in range(number):
        started_s = time.perf_counter()
        subprocess.run(nothing, capture_output=True, check=True)
        nothing_ms = (time.perf_counter() - started_s) * 1e3
        look_ms, told = _hook(project, "many-0", request, agent="claude-code", event=EVENT)
        assert not told, told
        walls.append((nothing_ms, look_ms))
    return walls


def _calls(project: Project, numbers: Iterable[int]) -> Iterator[Call]:
    """Call roles in turn; yields what the hooks of each took and decided."""
    for call in numbers:
        workstream, request = _before(project, call)
        wall_ms, told = _hook(project, workstream, request)
        walls_ms = [wall_ms]
        child = {"child": f"ses_{call}", "outcome": "ok", "reply": "Gone on."}
        for event in ("started", "ended"):
            wall_ms, _ = _hook(project, workstream, {**request, **child, "event": event})
            walls_ms.append(wall_ms)
        yield Call(walls_ms, is_decided=bool(decisions_told(told)))


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


def _hook(
    project: Project,
    workstream: str,
    request: dict[str, object],
    *,
    agent: str = "opencode",
    event: str = "",
) -> tuple[float, bytes]:
    """Run the hook program to its end; returns its wall in ms, and what it said."""
    program = files("upthread").joinpath("surfaces/hook/__main__.py")
    home = project.environment["UPTHREAD_HOME"]
    started_s = time.perf_counter()
    done = subprocess.run(
        [*PYTHON, str(program), agent, home, event, *launcher.libraries()],
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
