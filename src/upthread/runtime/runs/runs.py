"""Runs: a pipeline over a workstream, one transition a commit, across any number of processes.

Asks the core what is next, does it, commits the event it led to. A run is its events; a process
that finds one goes on where the last one stopped.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

import msgspec
from msgspec import Struct, field, structs

from upthread.core.actors import Actor
from upthread.core.acts import LIMIT_PASSED
from upthread.core.commands import EnqueueTransition, OpenRun, RecordRunEvent, Write
from upthread.core.decision.words import TOKENS_MAX
from upthread.core.events import (
    AnswerSuggested,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnParked,
    settles,
)
from upthread.core.names import shown
from upthread.core.roles.reports import MalformedReportError, Report, check_length, read_report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import (
    AskHuman,
    ContinueStep,
    Finish,
    Park,
    Pipeline,
    RunStep,
    RunView,
    Step,
    Wait,
    final_approval,
    holds,
    queue_of,
)
from upthread.core.turns.turn import HELD_BACK
from upthread.core.turns.turn import fold as fold_turn
from upthread.core.types import (
    MAIN_SLOT,
    ConversationKey,
    Durability,
    Fence,
    JsonValue,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
    ready,
)
from upthread.errors import ConfigError, ConflictError, NotFoundError, RefusedError, UsageError
from upthread.runtime.lease import LeaseRequest, Leases, workstream_lease
from upthread.runtime.record.effects import WorkstreamEffects
from upthread.runtime.record.turn_views import (
    events_by_turn,
    last_attached,
    run_events,
    run_view,
    spent_on_run,
)
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import name_workstream
from upthread.runtime.turns.delegation import (
    SILENT,
    Listener,
    Notice,
    RunOptions,
    TellRequest,
    TurnResult,
)
from upthread.runtime.turns.turns import Turns
from upthread.store.base import Store


class Answer(Struct, frozen=True, kw_only=True):
    """What is answered, and by whom. Without a `question_id` the only open question is meant.

    A suggestion leaves the question open.
    """

    text: str
    by: Actor
    question_id: str | None = None
    is_suggestion: bool = False


PrepareStep = Callable[[RunView, RunStep], TellRequest]
"""Returns the request for one step of a run, for example by the role's settings."""


class RunRequest(Struct, frozen=True, kw_only=True):
    """A passage over a workstream. `specification` is None to go on with the newest run.

    `agents` by role are kept with a new run, so that whoever goes on need not name them again.
    At the options' `tokens_max` of all that the run has spent it parks before the next turn. With
    `wait_s` None it also waits for a rate limit to pass. `tree_now` gives the working tree's
    digest, and `make_ready` makes the tree before anything else is done; both blocking.
    """

    project_id: ProjectId
    workstream: str
    pipeline: Pipeline
    prepare_step: PrepareStep
    tree_now: Callable[[], str]
    make_ready: Callable[[], Notice | None] = lambda: None
    options: RunOptions = field(default_factory=RunOptions)
    specification: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    wait_s: float | None = 0.0

    @property
    def listener(self) -> Listener:
        """Who hears how it goes."""
        return self.options.listener or SILENT


class Transition(Struct, frozen=True, kw_only=True):
    """What a worker is handed: go on with this run, as it stood after this event."""

    run_id: RunId
    run_seq: int


class LiveRun:
    """A run in the hands of this process."""

    def __init__(
        self, *, request: RunRequest, run_id: RunId, view: RunView, fences: tuple[Fence, ...]
    ) -> None:
        self.request = request
        self.run_id = run_id
        self.view = view
        self.fences = fences
        self.steps_done = 0


def parked_in_doubt(store: Store, tell: TellRequest) -> RunParked | None:
    """Return why a step is not sent: its role's stopped turn did what no person has settled.

    None for a step that may be sent. Blocking.
    """
    effects = WorkstreamEffects(
        store=store,
        project_id=tell.project_id,
        workstream=tell.address.workstream,
        outward_patterns=tell.settings.outward_patterns,
    )
    role = tell.address.role
    for each in effects.held():
        # A sub-agent's calls may be those of this role.
        if each.conversation.key.role == role or each.conversation.parent_conversation_id:
            return RunParked(reason=HELD_BACK, detail=each.effect.in_words, role=role)
    return None


# --- answers --------------------------------------------------------------------------------------


SUGGESTIONS_MAX = 32
"""How many answers models may suggest in a run; a person has seen none of them yet."""


def answered_by(
    view: RunView, workstream: str, answer: Answer
) -> QuestionAnswered | AnswerSuggested:
    """Return what is recorded of an answer: of a model's that does not count, a suggestion.

    Raises NotFoundError without an open question, UsageError where it is unclear which is meant or
    where models have suggested enough.
    """
    question = _open_question(view, workstream, answer.question_id)
    if not answer.is_suggestion:
        return QuestionAnswered(question_id=question, text=answer.text, answered_by=answer.by)
    if view.suggestions >= SUGGESTIONS_MAX:
        raise UsageError(
            f"{view.suggestions} answers were suggested to {shown(workstream)}, and none was taken",
            hint="a person answers: upthread answer WS QUESTION TEXT",
        )
    return AnswerSuggested(question_id=question, text=answer.text, by=answer.by)


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


# --- on which hosts its sessions live -------------------------------------------------------------


class Placing:
    """Knows where sessions live. `host` is this one's name, empty where all of them are here."""

    def __init__(self, store: Store, host: str) -> None:
        self._store = store
        self._host = host

    def hosts(self, project_id: ProjectId, workstream: str, view: RunView) -> Mapping[str, str]:
        """Return the host of each role's session, by role, where it has one. Blocking."""
        if not self._host:
            return {}
        roles = (step.role for step in view.pipeline.steps)
        found = {role: self._host_of(project_id, workstream, role) for role in roles}
        return {role: host for role, host in found.items() if host}

    def after_step(self, hosts: Mapping[str, str], role: str) -> Mapping[str, str]:
        """Return the hosts as they are once a role was asked here."""
        # Said beforehand: what ends a turn is put together
        # on the event loop, where nothing is read.
        return {**hosts, role: self._host} if self._host else hosts

    def _host_of(self, project_id: ProjectId, workstream: str, role: str) -> str | None:
        key = ConversationKey(
            project_id=project_id, workstream=workstream, role=role, slot=MAIN_SLOT
        )
        resolved = self._store.resolve(key)
        return last_attached(self._store, resolved.link).agent_host if resolved else None


# --- what the end of a turn is to it --------------------------------------------------------------


def step_ended(
    step: Step, turn_id: TurnId, ended: TurnEnded, reply: str, input_digest: str
) -> StepEnded:
    """Return the end of a step from the reply of its turn, with what is wrong with its report."""
    report: JsonValue = None
    fault = ended.detail
    if ended.outcome is Outcome.OK:
        try:
            read = read_report(reply, lines_max=step.report_lines_max)
            report, fault = msgspec.to_builtins(read), ""
        except MalformedReportError as error:
            fault = str(error)
    return StepEnded(
        role=step.role,
        turn_id=turn_id,
        outcome=ended.outcome,
        report=report,
        report_error=fault,
        input_digest=input_digest,
        tree_digest=ended.tree_digest,
    )


def step_of(step: Step, turn_id: TurnId, ended: TurnEnded, input_digest: str) -> StepEnded:
    """Return the end of a step from the end of its turn, where the report is kept as data."""
    fault = _fault_of(step, ended)
    return StepEnded(
        role=step.role,
        turn_id=turn_id,
        outcome=ended.outcome,
        # A report that is too long for its step counts as none, so that it is asked for again.
        report=None if fault else ended.report,
        report_error=fault,
        input_digest=input_digest,
        tree_digest=ended.tree_digest,
    )


def _fault_of(step: Step, ended: TurnEnded) -> str:
    if ended.outcome is not Outcome.OK or ended.report is None:
        return ended.detail or "the reply has no report"
    try:
        report = msgspec.convert(ended.report, ready(Report))
        check_length(report, lines_max=step.report_lines_max)
    except MalformedReportError as error:
        return str(error)
    return ""


CANNOT_RUN = "cannot_run"
"""Why a run is parked that a worker cannot advance: the fault is in its project or on its host."""

ANSWER_TRIES_MAX = 8


class Runs:
    """Starts runs and takes them on."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        leases: Leases,
        turns: Turns,
        host: str = "",
    ) -> None:
        self._store = store
        self._system = system
        self._leases = leases
        self._turns = turns
        self._placing = Placing(store, host)

    async def run(self, request: RunRequest) -> RunView:
        """Take a run as far as it goes by itself; returns it ended, waiting, parked or stopped.

        Raises LeaseHeldError while another process runs this workstream, NotFoundError without a
        run to go on with, UsageError for a new specification while a run is under way.
        """
        async with self._held(request) as fence:
            notice = await self._system.in_thread(request.make_ready)
            if notice is not None:
                request.listener.notice(notice)
            live = await self._system.in_thread(lambda: self._begin(request, fence))
            await self._judge_again_if_changed(live)
            await self._resume_if_parked(live)
            while not self._is_stopped(live):
                await self._advance(live)
                if request.wait_s is None:
                    await self._wait_out(live)
            return live.view

    async def advance(self, request: RunRequest, transition: Transition) -> int:
        """Carry out one transition of a run; returns 0, or how long it still has to wait, in ms.

        Nothing is done where another process did it, or nothing is to be done until a person says
        so. Raises LeaseHeldError while another process is at it, FencedError when taken over.
        """
        async with self._held(request) as fence:
            live = await self._taken_up(request, transition, fence)
            if live is None:
                return 0
            if live.view.parked is not None:
                wait_ms = self._wait_ms(live.view.parked)
                # Without a time a person has to say so, by running it again.
                if wait_ms == 0 and live.view.parked.reset_at_ms is not None:
                    await self._commit(live, RunResumed(because=LIMIT_PASSED))
                return wait_ms
            if not isinstance(pipelines.next_command(live.view), Wait):
                await self._advance_or_park(live)
            return 0

    async def park(self, request: RunRequest, transition: Transition, *, detail: str) -> None:
        """Park a run at a transition that cannot be carried out, unless it has moved on."""
        async with self._held(request) as fence:
            live = await self._taken_up(request, transition, fence)
            if live is not None and live.view.parked is None:
                await self._park(live, detail)

    async def answer(self, answer: Answer, *, project_id: ProjectId, workstream: str) -> RunView:
        """Answer one open question of the newest run, or suggest an answer to it.

        Needs no lease: either is one append, and the run reads it when it goes on.
        """

        def append() -> RunView:
            run_id, view = self._newest(project_id, workstream)
            event = answered_by(view, workstream, answer)
            writes = self._records(run_id, view, (event,), durability=Durability.SYNCED)
            answered = pipelines.apply(view, event)
            if isinstance(event, QuestionAnswered) and not answered.open_questions:
                hosts = self._placing.hosts(project_id, workstream, answered)
                writes = (*writes, self._enqueue(project_id, run_id, answered, hosts))
            self._store.commit(writes)
            return answered

        for _ in range(ANSWER_TRIES_MAX):
            with suppress(ConflictError):  # another answer came first: read again, append after it
                return await self._system.in_thread(append)
        return await self._system.in_thread(append)

    def view(self, project_id: ProjectId, workstream: str) -> RunView | None:
        """Return the newest run's view, None before the first. Blocking."""
        runs = self._store.runs(project_id, workstream)
        return run_view(self._store, runs[-1].run_id) if runs else None

    # --- taking up -------------------------------------------------------------------------------

    def _held(self, request: RunRequest) -> AbstractAsyncContextManager[Fence]:
        lease = LeaseRequest(
            name=workstream_lease(request.project_id, request.workstream),
            doing=f"run {request.workstream}",
            wait_s=request.wait_s,
            on_wait=request.listener.waiting,
        )
        return self._leases.held(lease)

    async def _taken_up(
        self, request: RunRequest, transition: Transition, fence: Fence
    ) -> LiveRun | None:
        """Return the run a transition belongs to, None when the transition is settled."""
        run_id = transition.run_id
        events = await self._system.in_thread(lambda: run_events(self._store, run_id))
        if any(settles(event) for event in events[transition.run_seq :]):
            return None
        return LiveRun(request=request, run_id=run_id, view=pipelines.fold(events), fences=(fence,))

    # --- beginning -----------------------------------------------------------------------------

    def _newest(self, project_id: ProjectId, workstream: str) -> tuple[RunId, RunView]:
        runs = self._store.runs(project_id, workstream)
        if not runs:
            raise NotFoundError(
                f"no run on {shown(workstream)} yet",
                hint=f"start one: upthread run {shlex.quote(workstream)} --spec FILE",
                workstream=workstream,
            )
        run_id = runs[-1].run_id
        return run_id, run_view(self._store, run_id)

    def _begin(self, request: RunRequest, fence: Fence) -> LiveRun:
        last = self.view(request.project_id, request.workstream)
        # The same once more is no second run: so a caller goes on whose process was killed.
        if request.specification is None or (
            last is not None
            and last.ended is None
            and last.specification.strip() == request.specification.strip()
        ):
            run_id, view = self._newest(request.project_id, request.workstream)
            return LiveRun(request=request, run_id=run_id, view=view, fences=(fence,))
        if last is not None and last.ended is None:
            raise UsageError(
                f"a run on {shown(request.workstream)} is {last.status}, on another specification",
                hint=f"go on with it: upthread run {shlex.quote(request.workstream)}",
                workstream=request.workstream,
            )
        return self._start(request, fence, last)

    def _start(self, request: RunRequest, fence: Fence, last: RunView | None) -> LiveRun:
        assert request.specification is not None
        where = (request.project_id, request.workstream)
        name_workstream(self._store, *where, now_ms=self._system.now_ms)
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
        live = LiveRun(request=request, run_id=run_id, view=RunView(), fences=(fence,))
        then = pipelines.apply(live.view, started)
        hosts = self._placing.hosts(request.project_id, request.workstream, then)
        writes = (
            opened,
            *self._records(run_id, live.view, (started,)),
            self._enqueue(request.project_id, run_id, then, hosts),
        )
        self._store.commit(writes, fences=live.fences)
        # As it is kept: every later process reads that, and digests must be of the same text.
        live.view = run_view(self._store, run_id)
        request.options.on_event(started)
        return live

    async def _judge_again_if_changed(self, live: LiveRun) -> None:
        """Ask for the last verdict again when the tree is no longer the one that was approved."""
        approval = final_approval(live.view)
        if approval is None:
            return
        tree = await self._system.in_thread(live.request.tree_now)
        if not holds(live.view, approval, tree_digest=tree):
            because = f"the working tree has changed since {approval.role} approved it"
            await self._commit(live, RunResumed(because=because, role=approval.role))

    async def _resume_if_parked(self, live: LiveRun) -> None:
        """Asking for a parked run again is how a person says: go on.

        So is asking for one whose last step failed, when its process ended before it parked it.
        """
        command = pipelines.next_command(live.view)
        last = live.view.last
        if isinstance(command, Park) and last is not None and last.outcome is not Outcome.OK:
            await self._advance(live)
        if live.request.wait_s is None:
            await self._wait_out(live)
        parked = live.view.parked
        # A limit is left alone while it lasts, but for another agent, which it need not be about.
        if parked is not None and (
            live.request.options.names_an_agent or self._wait_ms(parked) == 0
        ):
            await self._commit(live, RunResumed(because="run again"))

    async def _wait_out(self, live: LiveRun) -> None:
        """Let the time pass that the agent asked for, and go on; nothing for any other stop."""
        if live.view.parked is None or live.view.parked.reset_at_ms is None:
            return
        await self._system.wait_until(live.view.parked.reset_at_ms)
        await self._commit(live, RunResumed(because=LIMIT_PASSED))

    def _wait_ms(self, parked: RunParked) -> int:
        """Return how long the agent still wants to be left alone; 0 when it did not say."""
        return max(0, (parked.reset_at_ms or 0) - self._system.now_ms())

    # --- advancing -----------------------------------------------------------------------------

    def _is_stopped(self, live: LiveRun) -> bool:
        steps_max = live.request.options.steps_max
        is_enough = steps_max is not None and live.steps_done >= steps_max
        command = pipelines.next_command(live.view)
        takes_a_turn = isinstance(command, RunStep | ContinueStep)
        return isinstance(command, Wait) or (is_enough and takes_a_turn)

    async def _advance(self, live: LiveRun) -> None:
        command = pipelines.next_command(live.view)
        match command:
            case RunStep():
                await self._run_step(live, command)
            case ContinueStep():
                await self._continue_step(live, command)
            case AskHuman():
                asked = QuestionsAsked(role=command.role, questions=command.questions)
                await self._commit(live, asked)
            case Park():
                parked = RunParked(reason=command.reason, detail=command.detail, role=command.role)
                await self._commit(live, parked)
            case Finish():
                ended = RunEnded(status=command.status, evidence=command.evidence)
                await self._commit(live, ended)
            case Wait():
                raise AssertionError("a waiting run does not advance")

    async def _advance_or_park(self, live: LiveRun) -> None:
        """Advance; what would be told to the caller of a run is told to whoever looks at it."""
        try:
            await self._advance(live)
        except (ConfigError, RefusedError, UsageError) as error:
            await self._park(live, str(error))

    async def _park(self, live: LiveRun, detail: str) -> None:
        # Read again: what could not go on may have committed something before that.
        live.view = await self._system.in_thread(lambda: run_view(self._store, live.run_id))
        role = pipelines.next_role(live.view)
        await self._commit(live, RunParked(reason=CANNOT_RUN, detail=detail, role=role))

    async def _run_step(self, live: LiveRun, command: RunStep) -> None:
        tell = await self._tell_request(live, command)
        # Sent again, the step would do it again where its agent asks nobody.
        if parked := await self._system.in_thread(lambda: parked_in_doubt(self._store, tell)):
            await self._commit(live, parked)
            return
        await self._take_turn(live, command.step.role, self._turns.tell(tell))

    async def _take_turn(self, live: LiveRun, role: str, turn: Awaitable[TurnResult]) -> None:
        """Wait for a step's turn; the run parks where it would pass what may be spent."""
        try:
            result = await turn
        except RefusedError as refused:
            if refused.reasons[0] != TOKENS_MAX:
                raise
            tokens = refused.ids.get("tokens", "")
            parked = RunParked(reason=TOKENS_MAX, detail=tokens, role=role)
            await self._commit(live, parked)
        else:
            await self._after_turn(live, role, result)

    async def _continue_step(self, live: LiveRun, command: ContinueStep) -> None:
        step = live.view.pipeline.steps[live.view.pipeline.index_of(command.role)]
        again = pipelines.run_step(live.view, step)
        tell = await self._tell_request(live, again)
        turn_id = TurnId(command.turn_id)
        # Before it is gone on with: what a person finished by hand is the step's end.
        read = partial(events_by_turn, self._store, live.request.project_id, turn_id)
        if (elsewhere := fold_turn(await self._system.in_thread(read)).ended) is not None:
            ended = step_of(step, turn_id, elsewhere, again.input_digest)
            await self._commit(live, ended)
        else:
            await self._take_turn(live, command.role, self._turns.go_on(tell, turn_id))

    async def _after_turn(self, live: LiveRun, role: str, result: TurnResult) -> None:
        """Read the run again: the turn's own commits have moved it on."""
        live.steps_done += 1
        seen = live.view.events
        events = await self._system.in_thread(lambda: run_events(self._store, live.run_id))
        live.view = pipelines.fold(events)
        for event in events[seen:]:
            live.request.options.on_event(event)
        if live.request.options.on_result:
            await live.request.options.on_result(role, result)

    async def _tell_request(self, live: LiveRun, command: RunStep) -> TellRequest:
        """Return the request for a step, with what its turn writes to the run."""
        hosts = await self._hosts(live)
        role = command.step.role
        after_step = self._placing.after_step(hosts, role)
        view = live.view

        def stepped(turn_id: TurnId) -> RunView:
            started = StepStarted(role=role, turn_id=turn_id)
            # One that another process has begun is on record already.
            return view if view.started is not None else pipelines.apply(view, started)

        def at_intent(turn_id: TurnId) -> Sequence[Write]:
            started = StepStarted(role=role, turn_id=turn_id, asked_again=command.asked_again)
            return self._records(live.run_id, view, (started,))

        def with_next(turn_id: TurnId, event: RunEvent) -> Sequence[Write]:
            after = stepped(turn_id)
            records = self._records(live.run_id, after, (event,))
            then = pipelines.apply(after, event)
            return (*records, self._enqueue(live.request.project_id, live.run_id, then, after_step))

        def at_end(turn_id: TurnId, ended: TurnEnded, reply: str) -> Sequence[Write]:
            event = step_ended(command.step, turn_id, ended, reply, command.input_digest)
            return with_next(turn_id, event)

        def at_park(turn_id: TurnId, parked: TurnParked) -> Sequence[Write]:
            # With the turn's own: whoever takes the run over must not go on with what is parked.
            event = RunParked(
                reason=parked.reason,
                detail=parked.detail,
                role=role,
                reset_at_ms=parked.reset_at_ms,
            )
            if parked.reset_at_ms is None:
                return self._records(live.run_id, stepped(turn_id), (event,))
            return with_next(turn_id, event)

        return structs.replace(
            live.request.prepare_step(view, command),
            run_id=live.run_id,
            fences=live.fences,
            # Counted over all processes of the run.
            spent=partial(spent_on_run, self._store, live.request.project_id, live.run_id),
            at_intent=at_intent,
            at_end=at_end,
            at_park=at_park,
        )

    # --- writing -------------------------------------------------------------------------------

    async def _commit(self, live: LiveRun, event: RunEvent) -> None:
        writes: tuple[Write, ...] = self._records(
            live.run_id, live.view, (event,), durability=Durability.SYNCED
        )
        then = pipelines.apply(live.view, event)
        is_limited = isinstance(event, RunParked) and event.reset_at_ms is not None
        # What waits for a person is no job: an answer, or running it again, makes the next one.
        if is_limited or not isinstance(event, RunEnded | RunParked | QuestionsAsked):
            hosts = await self._hosts(live)
            writes = (*writes, self._enqueue(live.request.project_id, live.run_id, then, hosts))
        await self._system.in_thread(lambda: self._store.commit(writes, fences=live.fences))
        live.view = then
        live.request.options.on_event(event)

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

    async def _hosts(self, live: LiveRun) -> Mapping[str, str]:
        where, view = (live.request.project_id, live.request.workstream), live.view
        return await self._system.in_thread(lambda: self._placing.hosts(*where, view))

    def _enqueue(
        self, project_id: ProjectId, run_id: RunId, view: RunView, hosts: Mapping[str, str]
    ) -> Write:
        """Return what makes a run's next transition due, as it will stand: now or at its reset."""
        role = pipelines.next_role(view)
        delay_ms = self._wait_ms(view.parked) if view.parked else 0
        return EnqueueTransition(
            run_id=run_id,
            run_seq=view.events,
            due_at_ms=self._system.now_ms() + delay_ms,
            delay_ms=delay_ms,
            queue=queue_of(project_id, agent=view.agents.get(role, ""), host=hosts.get(role, "")),
        )
