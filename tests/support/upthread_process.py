"""upthread in a process of its own, so that a test can end, stop and wake a real one.

Processes are forked from a server that has everything imported: one starts in milliseconds. What
it did is a JSON file, its exit code the one the command line gives. Its store can end or stop the
process at a commit: a proxy around the port, the store itself is the real one.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import anyio

import upthread
from upthread.client import project_opener, stores
from upthread.core.commands import RecordTurnEvent, Write
from upthread.errors import LeaseHeldError, UpthreadError
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.system import System, now_ms
from upthread.runtime.turns.delegation import name_workstream
from upthread.store.sqlite import SqliteStore

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])

EXIT_INTERRUPTED = 130
WAIT_S = 60.0
SIGNAL_TAKES_S = 0.05

QUICK = LeaseTimes(heartbeat_s=0.1, stale_after_s=0.8, watch_s=0.02)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class AtCommit:
    """Where a process gets a signal: before or after its n-th commit, counted from 1.

    `event` counts only the commits that hold a turn event of that name; empty counts all.
    """

    when: str
    number: int = 1
    event: str = ""
    signal_number: int = signal.SIGKILL


def _signalling(at: AtCommit) -> type[SqliteStore]:
    class SignallingStore(SqliteStore):
        commits = 0

        def commit(self, writes: Sequence[Write], **leases: Any) -> None:
            counts = not at.event or at.event in _turn_events(writes)
            SignallingStore.commits += counts
            self._reach("before", counts=counts)
            super().commit(writes, **leases)
            self._reach("after", counts=counts)

        def _reach(self, when: str, *, counts: bool) -> None:
            if counts and (at.number, at.when) == (SignallingStore.commits, when):
                os.kill(os.getpid(), at.signal_number)
                # This thread may go on for a moment: not into a transaction, or out of one.
                time.sleep(SIGNAL_TAKES_S)

    return SignallingStore


def _turn_events(writes: Sequence[Write]) -> set[str]:
    return {type(write.event).__name__ for write in writes if isinstance(write, RecordTurnEvent)}


# --- what a process can be asked to do -----------------------------------------------------------


async def tell(
    project: upthread.Project, address: str, text: str, *, when_busy: Any = "refuse"
) -> Json:
    options = upthread.TellOptions(agent="rehearsal", when_busy=when_busy)
    result = await project.tell(address, text, options)
    return {
        "outcome": result.outcome,
        "decision": result.decision,
        "reasons": list(result.reasons),
        "reply": result.reply,
        "upstream_session_id": result.upstream_session_id,
        "address": result.conversation.key.address,
        "parked": result.parked.reason if result.parked else None,
    }


async def go_on(project: upthread.Project, address: str) -> Json:
    result = await project.go_on(address, upthread.TellOptions(agent="rehearsal"))
    return {"outcome": result.outcome, "parked": result.parked.reason if result.parked else None}


async def run(
    project: upthread.Project,
    workstream: str,
    specification: str | None = None,
    *,
    steps_max: int | None = None,
    is_waiting: bool = False,
) -> Json:
    options = upthread.RunOptions(agent="rehearsal", steps_max=steps_max, is_waiting=is_waiting)
    view = await project.run(workstream, specification, options)
    return {"status": view.status, "parked": view.parked.reason if view.parked else None}


async def do_once(project: upthread.Project, key: str, file: str, *, then: str = "") -> Json:
    """Append a line to a file, once; `then` says what becomes of this process in the action."""

    async def act() -> Json:
        _append(file, f"{os.getpid()}\n")
        if then == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if then == "stay":
            await anyio.sleep(WAIT_S)
        return {"pid": os.getpid()}

    return {"receipt": await project.once(key, act)}


JOBS: dict[str, Callable[..., Any]] = {
    "tell": tell,
    "go_on": go_on,
    "run": run,
    "do_once": do_once,
}


# --- the process ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that a process is told."""

    job: str
    arguments: tuple[Any, ...]
    options: Json
    directory: str
    environment: dict[str, str]
    result: str
    at_commit: AtCommit | None
    lease_times: LeaseTimes | None
    clock_ahead_ms: int = 0


def main(order: Order) -> None:
    """Do the job, write the result, exit as the command line would."""
    _settle_in(order.environment, order.result)
    if order.at_commit is not None:
        stores.SqliteStore = _signalling(order.at_commit)  # type: ignore[misc]
    set_clock(lambda: now_ms() + order.clock_ahead_ms)
    try:
        result = anyio.run(partial(_do, order))
    except UpthreadError as error:
        _write(order.result, {"error": type(error).__name__, "message": str(error)})
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _write(order.result, {"error": "KeyboardInterrupt"})
        sys.exit(EXIT_INTERRUPTED)
    _write(order.result, result)


async def _do(order: Order) -> Json:
    async with upthread.open_project(
        order.directory, environment=order.environment, lease_times=order.lease_times
    ) as project:
        done: Json = await JOBS[order.job](project, *order.arguments, **order.options)
        return done


def set_clock(clock: Callable[[], int]) -> None:
    """Open every project of this process, from now on, with a wall clock of its own."""
    project_opener.System = partial(System, now_ms=clock)  # type: ignore[misc, assignment]


def _settle_in(environment: dict[str, str], result: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    errors = os.open(f"{result}.stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, 2)
    os.close(errors)


def _append(path: str, line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as lines:
        lines.write(line)


def _write(path: str, result: Json) -> None:
    Path(f"{path}.part").write_text(json.dumps(result))
    Path(f"{path}.part").rename(path)


# --- many at once --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Race:
    """Rounds in which all racers do the same at the same moment; a barrier holds each round."""

    barrier: Barrier
    rounds: int
    directory: str
    environment: dict[str, str]
    result: str
    when_busy: str


def race_for_addresses(race: Race, number: int) -> None:
    """Tell `race-N/planner` in every round and write down what came of it."""
    _settle_in(race.environment, f"{race.result}.{number}")
    _write(f"{race.result}.{number}", {"rounds": anyio.run(partial(_race, race))})


async def _race(race: Race) -> list[str]:
    came: list[str] = []
    async with upthread.open_project(race.directory, environment=race.environment) as project:
        for number in range(race.rounds):
            await anyio.to_thread.run_sync(race.barrier.wait)
            text = "[[rehearse: say here]]"
            try:
                done = await tell(project, f"race-{number}/planner", text, when_busy=race.when_busy)
            except LeaseHeldError:
                came.append("held")
            else:
                came.append(done["upstream_session_id"])
    return came


def race_for_names(race: Race, number: int) -> None:
    """Name workstreams, the same ones in every process, in an order of the process's own."""
    _settle_in(race.environment, f"{race.result}.{number}")
    _write(f"{race.result}.{number}", {"names": anyio.run(partial(_name, race, number))})


async def _name(race: Race, number: int) -> dict[str, str]:
    names: dict[str, str] = {}
    async with upthread.open_project(race.directory, environment=race.environment) as project:
        await anyio.to_thread.run_sync(race.barrier.wait)
        for offset in range(race.rounds):
            workstream = f"work-{(number * 7 + offset) % race.rounds}"
            names[workstream] = name_workstream(
                project.store, project.project_id, workstream, now_ms=project.now_ms
            )
    return names
