"""Runs that wait for a person hold nothing, and continue when the answer comes."""

from pathlib import Path

import anyio
import msgspec
import pytest
from tests.support.laboratory.sharing import Observer, Workers, until
from tests.support.sets import EXTENDED, SOAK
from tests.support.world import ALLOW, SMALL_PIPELINE, World

import upthread
from upthread.client.worker import CONNECTIONS_MAX
from upthread.core.commands import OpenRun, RecordRunEvent, Write
from upthread.core.events import (
    Question,
    QuestionsAsked,
    RunEvent,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upthread.core.roles.reports import Report, ReportedQuestion
from upthread.core.types import Outcome, RunId
from upthread.runtime.turns.delegation import name_workstream

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

WAITING = (pytest.param(50, marks=EXTENDED), pytest.param(1_000, marks=SOAK))
ANSWERED = 5
STARTED_AGAIN = 6
"""How many events a run has once its role was asked again: four, the answer and the step."""

HELD = """
SELECT
    (SELECT count(*) FROM upthread.procrastinate_jobs),
    (SELECT count(*) FROM upthread.lease WHERE host IS NOT NULL),
    (SELECT count(*) FROM pg_locks WHERE database = (
        SELECT oid FROM pg_database WHERE datname = current_database()
    ) AND pid <> pg_backend_pid()),
    (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE '%transaction%')
"""
ALL_CONNECTIONS_MAX = CONNECTIONS_MAX + 4
"""A worker's pool, its store's and its table's connection; the test's own two. A pool fills up when
it is asked for more at once, so that what is there at first says less than what may ever be."""

CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


CONFIGURATION = ALLOW + SMALL_PIPELINE


def waiting_run(
    project: upthread.Project, number: int, *, specification: str = "[[rehearse: say here]]"
) -> list[Write]:
    """A run as it stands when its first role has asked something."""
    run_id, workstream = RunId(f"run_{number}"), f"spec-{number}"
    name_workstream(project.store, project.project_id, workstream, now_ms=project.now_ms)
    steps = project.settings.pipeline
    asked = Report(status="needs_input", questions=(ReportedQuestion(id="q", text="Which?"),))
    events: list[RunEvent] = [
        RunStarted(
            specification=specification,
            pipeline=msgspec.to_builtins(steps),
            agents={step.role: "rehearsal" for step in steps.steps},
        ),
        StepStarted(role="planner", turn_id=f"trn_{number}"),
        StepEnded(
            role="planner",
            turn_id=f"trn_{number}",
            outcome=Outcome.OK,
            report=msgspec.to_builtins(asked),
        ),
        QuestionsAsked(
            role="planner",
            questions=(Question(question_id="q", role="planner", text="Which?"),),
        ),
    ]
    opened = OpenRun(
        run_id=run_id, project_id=project.project_id, workstream=workstream, opened_at_ms=1
    )
    return [
        opened,
        *(
            RecordRunEvent(run_id=run_id, seq=seq, event=event, recorded_at_ms=1)
            for seq, event in enumerate(events, 1)
        ),
    ]


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@SOAK
@pytest.mark.parametrize("waiting", WAITING)
async def test_waiting_runs_hold_nothing_and_continue_when_they_are_answered(
    tmp_path: Path, world: World, observer: Observer, waiting: int
) -> None:
    with Workers(tmp_path, world.environment, [world.project]) as workers:
        worker = workers.start("--concurrency", "2")
        await until(lambda: workers.told("worker_started"))
        async with world.open() as project:
            await anyio.sleep(1)  # its threads have begun
            at_first = threads(worker.pid)
            for number in range(waiting):
                project.store.commit(waiting_run(project, number))
            await until(lambda: observer.row(HELD) == (0, 0, 0, 0))  # jobs, leases, locks, …
            assert observer.one(CONNECTIONS) <= ALL_CONNECTIONS_MAX
            assert threads(worker.pid) <= at_first
            for number in range(ANSWERED):
                run_id = RunId(f"run_{number}")
                await project.answer(f"spec-{number}", "This one.")
                await until(lambda run=run_id: len(project.store.run_events(run)) >= STARTED_AGAIN)
