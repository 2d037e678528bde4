"""Runs: a pipeline over a workstream, one transition a commit, across any number of processes.

Asks the core what is next, does it, commits the event it led to. A run is its events; a process
that finds one goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from upthread.core import pipeline as pipelines
from upthread.core.commands import EnqueueTransition, OpenRun, RecordRunEvent, Write
from upthread.core.events import (
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepStarted,
    TurnEnded,
)
from upthread.core.names import shown
from upthread.core.pipeline import (
    AskHuman,
    ContinueStep,
    Finish,
    Park,
    Pipeline,
    RunStep,
    RunView,
    Wait,
)
from upthread.core.prompt import Task
from upthread.core.turn import fold as fold_turn
from upthread.core.types import (
    Durability,
    Fence,
    Lease,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
)
from upthread.errors import ConflictError, NotFoundError, UsageError
from upthread.runtime.conversation import Conversations
from upthread.runtime.lease import LeaseRequest, Leases, workstream_lease
from upthread.runtime.live_turn import TellRequest, TurnResult
from upthread.runtime.steps import digest_of, step_ended, step_of
from upthread.runtime.system import System
from upthread.runtime.turn import Turns
from upthread.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """What a run asks of whoever knows roles and agents: a TellRequest for one step.

    `is_asked_again` asks for a report that is missing: in the same session, whatever the role's
    continuity.
    """

    role: str
    task: Task
    run_id: RunId
    fences: tuple[Fence, ...]
    condition_role: Callable[[str], str | None]
    at_intent: Callable[[TurnId], Sequence[Write]]
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]]
    is_asked_again: bool = False


ANSWER_TRIES_MAX = 8

LOOK_AT_CLOCK_EVERY_S = 5.0
"""A machine that sleeps, or a clock that is set, must not make a run wait for ever."""

PrepareStep = Callable[[StepRequest], TellRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A passage over a workstream. `specification` is None to go on with the newest run.

    `agents` by role are kept with a new run, so that whoever goes on need not name them again.
    `steps_max` stops after so many steps; the next call goes on. None runs to the end. With
    `wait_s` None it also waits for a rate limit to pass; `is_elsewhere` when an agent was named,
    which need not be the one that is limited.
    """

    project_id: ProjectId
    workstream: str
    pipeline: Pipeline
    prepare_step: PrepareStep
    specification: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    steps_max: int | None = None
    wait_s: float | None = 0.0
    is_elsewhere: bool = False
    on_wait: Callable[[Lease], None] | None = None
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None


class LiveRun:
    """A run in the hands of this process."""

    def __init__(self, *, run_id: RunId, view: RunView, fences: tuple[Fence, ...]) -> None:
        self.run_id = run_id
        self.view = view
        self.fences = fences
        self.steps_done = 0


class Runs:
    """Starts runs and takes them on."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        leases: Leases,
        conversations: Conversations,
        turns: Turns,
    ) -> None:
        self._store = store
        self._system = system
        self._leases = leases
        self._conversations = conversations
        self._turns = turns

    async def run(self, request: RunRequest) -> RunView:
        """Take a run as far as it goes by itself; returns it ended, waiting, parked or stopped.

        Raises LeaseHeldError while another process runs this workstream, NotFoundError without a
        run to go on with, UsageError for a new specification while a run is under way.
        """
        lease = LeaseRequest(
            name=workstream_lease(request.project_id, request.workstream),
            doing=f"run {request.workstream}",
            wait_s=request.wait_s,
            on_wait=request.on_wait,
        )
        async with self._leases.held(lease) as fence:
            live = await self._begin(request, fence)
            await self._resume_if_parked(live, request)
            while not self._is_stopped(live, request):
                await self._advance(live, request)
                if request.wait_s is None:
                    await self._wait_out(live, request)
            return live.view

    async def answer(
        self, *, project_id: ProjectId, workstream: str, question_id: str | None, text: str
    ) -> RunView:
        """Answer one open question of the newest run; without an id, the only open one.

        Needs no lease: an answer is one append, and the run reads it when it goes on.
        """

        def append() -> RunView:
            run_id, view = self._newest(project_id, workstream)
            question = _open_question(view, workstream, question_id)
            event = QuestionAnswered(question_id=question, text=text)
            writes = self._records(run_id, view, (event,), durability=Durability.SYNCED)
            if len(view.open_questions) == 1:
                writes = (*writes, self._enqueue(run_id, view.events + 1))
            self._store.commit(writes)
            return pipelines.apply(view, event)

        for _ in range(ANSWER_TRIES_MAX):
            with suppress(ConflictError):  # another answer came first: read again, append after it
                return await self._system.in_thread(append)
        return await self._system.in_thread(append)

    def view(self, project_id: ProjectId, workstream: str) -> RunView | None:
        """Return the newest run's view, None before the first. Blocking."""
        runs = self._store.runs(project_id, workstream)
        return pipelines.fold(self._store.run_events(runs[-1].run_id)) if runs else None

    # --- beginning -----------------------------------------------------------------------------

    def _newest(self, project_id: ProjectId, workstream: str) -> tuple[RunId, RunView]:
        runs = self._store.runs(project_id, workstream)
        if not runs:
            raise NotFoundError(
                f"no run on {shown(workstream)} yet",
                hint=f"start one: upthread run {workstream} --spec FILE",
                workstream=workstream,
            )
        run_id = runs[-1].run_id
        return run_id, pipelines.fold(self._store.run_events(run_id))

    async def _begin(self, request: RunRequest, fence: Fence) -> LiveRun:
        return await self._system.in_thread(lambda: self._begin_blocking(request, fence))

    def _begin_blocking(self, request: RunRequest, fence: Fence) -> LiveRun:
        runs = self._store.runs(request.project_id, request.workstream)
        last = pipelines.fold(self._store.run_events(runs[-1].run_id)) if runs else None
        if request.specification is None or (
            last is not None
            and last.ended is None
            and last.specification.strip() == request.specification.strip()
        ):
            run_id, view = self._newest(request.project_id, request.workstream)
            return LiveRun(run_id=run_id, view=view, fences=(fence,))
        if last is not None and last.ended is None:
            raise UsageError(
                f"a run on {shown(request.workstream)} is {last.status}, on another specification",
                hint=f"go on with it: upthread run {request.workstream}",
                workstream=request.workstream,
            )
        return self._start(request, fence, last)

    def _start(self, request: RunRequest, fence: Fence, last: RunView | None) -> LiveRun:
        assert request.specification is not None
        self._conversations.name_workstream(request.project_id, request.workstream)
        run_id = RunId(self._system.new_id("run"))
        started = RunStarted(
            specification=request.specification,
            pipeline=pipelines.as_data(request.pipeline),
            iteration=last.iteration + 1 if last else 1,
            told=last.told if last else {},
            agents=request.agents,
        )
        opened = OpenRun(
            run_id=run_id,
            project_id=request.project_id,
            workstream=request.workstream,
            opened_at_ms=self._system.now_ms(),
        )
        live = LiveRun(run_id=run_id, view=RunView(), fences=(fence,))
        writes = (
            opened,
            *self._records(run_id, live.view, (started,)),
            self._enqueue(run_id, 1),
        )
        self._store.commit(writes, fences=live.fences)
        # As it is kept: every later process reads that, and digests must be of the same text.
        live.view = pipelines.fold(self._store.run_events(run_id))
        request.on_event(started)
        return live

    async def _resume_if_parked(self, live: LiveRun, request: RunRequest) -> None:
        """Asking for a parked run again is how a person says: go on.

        So is asking for one whose last step failed, when its process ended before it parked it.
        """
        command = pipelines.next_command(live.view)
        last = live.view.last
        if isinstance(command, Park) and last is not None and last.outcome is not Outcome.OK:
            await self._advance(live, request)
        if request.wait_s is None:
            await self._wait_out(live, request)
        parked = live.view.parked
        if parked is not None and (request.is_elsewhere or self._wait_ms(parked) == 0):
            await self._commit(live, request, RunResumed(because="run again"))

    async def _wait_out(self, live: LiveRun, request: RunRequest) -> None:
        """Let the time pass that the agent asked for, and go on; nothing for any other stop."""
        if live.view.parked is None or live.view.parked.reset_at_ms is None:
            return
        while wait_ms := self._wait_ms(live.view.parked):  # noqa: ASYNC110  # a clock has no event
            await anyio.sleep(min(wait_ms / 1000, LOOK_AT_CLOCK_EVERY_S))
        await self._commit(live, request, RunResumed(because="the limit has passed"))

    def _wait_ms(self, parked: RunParked) -> int:
        """Return how long the agent still wants to be left alone; 0 when it did not say."""
        return max(0, (parked.reset_at_ms or 0) - self._system.now_ms())

    # --- advancing -----------------------------------------------------------------------------

    def _is_stopped(self, live: LiveRun, request: RunRequest) -> bool:
        is_enough = request.steps_max is not None and live.steps_done >= request.steps_max
        command = pipelines.next_command(live.view)
        takes_a_turn = isinstance(command, RunStep | ContinueStep)
        return isinstance(command, Wait) or (is_enough and takes_a_turn)

    async def _advance(self, live: LiveRun, request: RunRequest) -> None:
        command = pipelines.next_command(live.view)
        match command:
            case RunStep():
                await self._run_step(live, request, command)
            case ContinueStep():
                await self._continue_step(live, request, command)
            case AskHuman():
                asked = QuestionsAsked(role=command.role, questions=command.questions)
                await self._commit(live, request, asked)
            case Park():
                parked = RunParked(reason=command.reason, detail=command.detail, role=command.role)
                await self._commit(live, request, parked)
            case Finish():
                ended = RunEnded(status=command.status, evidence=command.evidence)
                await self._commit(live, request, ended)
            case Wait():
                raise AssertionError("a waiting run does not advance")

    async def _run_step(self, live: LiveRun, request: RunRequest, command: RunStep) -> None:
        tell = request.prepare_step(self._step_request(live, command))
        result = await self._turns.tell(tell)
        await self._after_turn(live, request, command.step.role, result)

    async def _continue_step(
        self, live: LiveRun, request: RunRequest, command: ContinueStep
    ) -> None:
        step = live.view.pipeline.steps[live.view.pipeline.index_of(command.role)]
        again = pipelines.run_step(live.view, step)
        tell = request.prepare_step(self._step_request(live, again))
        turn_id = TurnId(command.turn_id)
        elsewhere = await self._system.in_thread(lambda: self._ended_elsewhere(turn_id))
        if elsewhere is not None:
            ended = step_of(step, turn_id, elsewhere, again.input_digest)
            await self._commit(live, request, ended)
            return
        result = await self._turns.go_on(tell, turn_id)
        await self._after_turn(live, request, command.role, result)

    def _ended_elsewhere(self, turn_id: TurnId) -> TurnEnded | None:
        """Return how a step's turn ended outside of the run, None while it has not.

        Another prompt took its place, or a person went on with it by hand.
        """
        return fold_turn(self._store.turn_events(turn_id)).ended

    async def _after_turn(
        self, live: LiveRun, request: RunRequest, role: str, result: TurnResult
    ) -> None:
        """Read the run again: the turn's own commits have moved it on."""
        live.steps_done += 1
        seen = live.view.events
        events = await self._system.in_thread(lambda: self._store.run_events(live.run_id))
        live.view = pipelines.fold(events)
        for event in events[seen:]:
            request.on_event(event)
        if request.on_result:
            await request.on_result(role, result)
        if result.parked is not None:
            parked = RunParked(
                reason=result.parked.reason,
                detail=result.parked.detail,
                role=role,
                reset_at_ms=result.parked.reset_at_ms,
            )
            await self._commit(live, request, parked)

    def _step_request(self, live: LiveRun, command: RunStep) -> StepRequest:
        role = command.step.role
        view = live.view

        def at_intent(turn_id: TurnId) -> Sequence[Write]:
            started = StepStarted(role=role, turn_id=turn_id, asked_again=command.asked_again)
            return self._records(live.run_id, view, (started,))

        def at_end(turn_id: TurnId, ended: TurnEnded, reply: str) -> Sequence[Write]:
            event = step_ended(command.step, turn_id, ended, reply, command.input_digest)
            started = StepStarted(role=role, turn_id=turn_id)
            after = view if view.started is not None else pipelines.apply(view, started)
            records = self._records(live.run_id, after, (event,))
            return (*records, self._enqueue(live.run_id, after.events + 1))

        return StepRequest(
            role=role,
            task=command.task,
            run_id=live.run_id,
            fences=live.fences,
            condition_role=lambda name: digest_of(view, name),
            at_intent=at_intent,
            at_end=at_end,
            is_asked_again=command.asked_again,
        )

    # --- writing -------------------------------------------------------------------------------

    async def _commit(self, live: LiveRun, request: RunRequest, event: RunEvent) -> None:
        writes: tuple[Write, ...] = self._records(
            live.run_id, live.view, (event,), durability=Durability.SYNCED
        )
        if not isinstance(event, RunEnded | RunParked | QuestionsAsked):
            writes = (*writes, self._enqueue(live.run_id, live.view.events + 1))
        elif isinstance(event, RunParked) and event.reset_at_ms is not None:
            due = self._enqueue(live.run_id, live.view.events + 1, due_at_ms=event.reset_at_ms)
            writes = (*writes, due)
        await self._system.in_thread(lambda: self._store.commit(writes, fences=live.fences))
        live.view = pipelines.apply(live.view, event)
        request.on_event(event)

    def _records(
        self,
        run_id: RunId,
        view: RunView,
        events: tuple[RunEvent, ...],
        *,
        durability: Durability = Durability.PROCESS,
    ) -> tuple[Write, ...]:
        return tuple(
            RecordRunEvent(
                run_id=run_id,
                seq=view.events + 1 + offset,
                event=event,
                recorded_at_ms=self._system.now_ms(),
                durability=durability,
            )
            for offset, event in enumerate(events)
        )

    def _enqueue(self, run_id: RunId, run_seq: int, *, due_at_ms: int | None = None) -> Write:
        due_at_ms = self._system.now_ms() if due_at_ms is None else due_at_ms
        return EnqueueTransition(run_id=run_id, run_seq=run_seq, due_at_ms=due_at_ms)


def _open_question(view: RunView, workstream: str, question_id: str | None) -> str:
    open_ids = [question.question_id for question in view.open_questions]
    if question_id is None and len(open_ids) == 1:
        return open_ids[0]
    if question_id in open_ids:
        return question_id
    if not open_ids:
        raise NotFoundError(f"{shown(workstream)} has no open question", workstream=workstream)
    listed = ", ".join(open_ids)
    problem = "which question?" if question_id is None else f"no open question {shown(question_id)}"
    raise UsageError(f"{problem} open: {listed}", hint="upthread answer WS QUESTION TEXT")
