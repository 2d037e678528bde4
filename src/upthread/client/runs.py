"""Runs: a pipeline over a workstream, one transition a commit, across any number of processes.

Asks the core what is next, does it, commits the event it led to. A run is its events; a process
that finds one goes on where the last one stopped. `LiveRun` chooses agents and takes the
workstream's lease, for a person or for a worker.
"""

import shlex
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.client.parts import ProjectParts
from upthread.client.worktrees import notice_of
from upthread.core.agents import Actor
from upthread.core.commands import LIMIT_PASSED, EnqueueTransition, OpenRun, RecordRunEvent, Write
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
from upthread.core.names import Address, shown
from upthread.core.roles.reports import MalformedReportError, Report, check_length, read_report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import (
    ContinueStep,
    RunStep,
    RunView,
    Wait,
    final_approval,
    holds,
    queue_of,
)
from upthread.core.turns.turn import HELD_BACK
from upthread.core.turns.turn import fold as fold_turn
from upthread.core.types import (
    CHILD_SLOT,
    Durability,
    Fence,
    JsonValue,
    Outcome,
    RunId,
    TurnId,
    ready,
)
from upthread.errors import ConfigError, ConflictError, NotFoundError, RefusedError, UsageError
from upthread.runtime.lease import LeaseRequest, workstream_lease
from upthread.runtime.record.turn_views import (
    events_by_turn,
    last_attached,
    run_events,
    run_view,
    spent_on_run,
)
from upthread.runtime.turns.delegation import (
    SILENT,
    Listener,
    RunOptions,
    TellOptions,
    TellRequest,
    TurnResult,
    name_workstream,
)
from upthread.runtime.turns.turns import Turns
from upthread.runtime.working_tree.repository import Worktree

ANSWER_TRIES_MAX = 8

ByRole: TypeAlias = Mapping[str, str]
"""What each role has, for example its agent or its host."""

CANNOT_RUN = "cannot_run"
"""Why a run is parked that a worker cannot advance: the fault is in its project or on its host."""

LEASE_WAIT_S = 5.0
"""How long a worker watches a run that somebody holds: longer than for a silent holder."""

SUGGESTIONS_MAX = 32
"""How many answers models may suggest in a run; a person has seen none of them yet."""


class Transition(Struct, frozen=True, kw_only=True):
    """What a worker is handed: go on with this run, as it stood after this event."""

    run_id: RunId
    run_seq: int


class LiveRun(Struct):
    """A workstream's run in the hands of this process. `agents` are chosen before it begins."""

    parts: ProjectParts
    turns: Turns
    workstream: str
    options: RunOptions = RunOptions()
    agents: ByRole = {}
    fences: tuple[Fence, ...] = ()
    steps_done: int = 0
    run_id: RunId = RunId("")
    view: RunView = RunView()

    # --- what is asked of a run -----------------------------------------------------------------

    async def run(self, specification: str | None) -> RunView:
        """Take the run as far as it goes by itself; returns it ended, waiting, parked or stopped.

        `specification` is None to go on with the newest run. Raises LeaseHeldError while another
        process runs this workstream, NotFoundError without a run to go on with, UsageError for a
        new specification while a run is under way.
        """
        if specification is not None:
            _check_text(specification, "the specification")
        # Before the first step is paid for: each role reads what the one before it reported.
        for step in self.parts.settings.pipeline.steps:
            if self.parts.policy.of_role(step.role) == "index":
                raise ConfigError(
                    f"a run needs reports and answers, and of {step.role} no text is recorded",
                    hint=f'say record = "redacted" under [roles.{step.role}], or use upthread tell',
                )
        in_thread = self.parts.system.in_thread
        await in_thread(self._choose_agents)
        async with self._held(wait_s=None if self.options.is_waiting else 0.0) as listener:
            # Reported where it is not the project's.
            if own := await in_thread(self._own_tree):
                listener.notice(notice_of(self.workstream, own))
            await in_thread(lambda: self._begin(specification))
            await self._judge_again_if_changed()
            await self._resume_if_parked()
            while not self._is_stopped():
                await self._advance()
                if self.options.is_waiting:
                    await self._wait_out()
            return self.view

    async def advance(self, transition: Transition) -> int:
        """Carry out one transition, as a worker; returns 0, or how long the run waits, in ms.

        Nothing is done where another process did it, or nothing is to be done until a person says
        so. A turn that is cancelled meanwhile is left for another worker to go on with. Raises
        LeaseHeldError while another process is at it, FencedError when taken over.
        """
        await self.parts.system.in_thread(self._choose_agents)
        async with self._held(wait_s=LEASE_WAIT_S):
            is_due = await self.parts.system.in_thread(lambda: self._take_up(transition))
            return await self._advance_as_worker() if is_due else 0

    async def park(self, transition: Transition, *, detail: str) -> None:
        """Park the run at a transition that a worker cannot carry out, unless it has moved on."""
        # No role is looked at: its broken file may be why the run cannot go on.
        async with self._held(wait_s=LEASE_WAIT_S):
            is_due = await self.parts.system.in_thread(lambda: self._take_up(transition))
            if is_due and self.view.parked is None:
                await self._park(detail)

    async def answer(self, text: str, *, question_id: str | None, by: Actor) -> RunView:
        """Answer one open question of the newest run; a model's answer may be a suggestion.

        Needs no lease: either is one append, and the run reads it when it goes on.
        """
        _check_text(text, "the answer")
        # A question that is put to a person is answered by one (ADR 65).
        is_suggestion = by.kind == "model" and not self.parts.settings.models_answer

        def append() -> RunView:
            self._find()
            question = _open_question(self.view, self.workstream, question_id)
            if is_suggestion:
                if self.view.suggestions >= SUGGESTIONS_MAX:
                    raise UsageError(
                        f"{self.view.suggestions} answers were suggested to"
                        f" {shown(self.workstream)}, and none was taken",
                        hint="a person answers: upthread answer WS QUESTION TEXT",
                    )
                self._commit_here(AnswerSuggested(question_id=question, text=text, by=by))
            else:
                self._commit_here(QuestionAnswered(question_id=question, text=text, answered_by=by))
            return self.view

        for _ in range(ANSWER_TRIES_MAX):
            with suppress(ConflictError):  # another answer came first: read again, append after it
                return await self.parts.system.in_thread(append)
        return await self.parts.system.in_thread(append)

    # --- before it is taken up ------------------------------------------------------------------

    def _choose_agents(self) -> None:
        """Choose every role's agent before the first one is started. Blocking."""
        pipeline, options = self.parts.settings.pipeline, self.options
        under_way = self._under_way()
        # A run under way follows the pipeline it began with; the file may be another by now.
        steps = under_way.pipeline.steps if under_way else pipeline.steps
        roles = {step.role for step in (*steps, *pipeline.steps)}
        for role in options.agents:
            if role not in roles:
                listed = ", ".join(sorted(roles))
                raise UsageError(f"no step for the role {shown(role)}", hint=f"roles: {listed}")
        # A role that comes for the first time works with
        # what the others use: none is switched midway.
        store = self.parts.store
        known = store.conversations(self.parts.project_id, self.workstream) if under_way else ()
        # The calls of sub-agents are no roles.
        found = map(store.resolve, {each.key for each in known if each.key.slot != CHILD_SLOT})
        used = {each.link.agent for each in found if each and each.link}
        before = used.pop() if len(used) == 1 else None
        began_with = under_way.agents if under_way else dict[str, str]()
        self.agents = {
            role: self.parts.agent_for(
                Address(workstream=self.workstream, role=role),
                named=options.agents.get(role, options.agent),
                otherwise=began_with.get(role, before),
            )
            for role in sorted(roles)
        }

    @asynccontextmanager
    async def _held(self, *, wait_s: float | None) -> AsyncGenerator[Listener]:
        """Hold the workstream's lease; gives who listens. Raises LeaseHeldError."""
        listener = (self.options.listener or SILENT).telling_once()
        self.options = replace(self.options, listener=listener)
        lease = LeaseRequest(
            name=workstream_lease(self.parts.project_id, self.workstream),
            doing=f"run {self.workstream}",
            wait_s=wait_s,
            on_wait=listener.waiting,
        )
        async with self.parts.leases.held(lease) as fence:
            self.fences = (fence,)
            yield listener

    # --- taking up ------------------------------------------------------------------------------

    def _under_way(self) -> RunView | None:
        """Return the newest run of the workstream, None where it has ended. Blocking."""
        _, run = self.parts.newest_run(self.workstream)
        return run if run and run.ended is None else None

    def _find(self) -> None:
        """Take the newest run of the workstream. Raises NotFoundError. Blocking."""
        run_id, view = self.parts.newest_run(self.workstream)
        if view is None:
            raise NotFoundError(
                f"no run on {shown(self.workstream)} yet",
                hint=f"start one: upthread run {shlex.quote(self.workstream)} --spec FILE",
                workstream=self.workstream,
            )
        self.run_id, self.view = run_id, view

    def _take_up(self, transition: Transition) -> bool:
        """Take the run a transition belongs to; returns False if that is settled. Blocking."""
        events = run_events(self.parts.store, transition.run_id)
        if any(settles(event) for event in events[transition.run_seq :]):
            return False
        self.run_id, self.view = transition.run_id, pipelines.fold(events)
        return True

    def _own_tree(self) -> Worktree | None:
        own = self.parts.worktrees.find(self.workstream)
        if not self.options.is_worktree:
            return own
        run = self._under_way()
        # Only where the tree would be new: what was done before lies in the other.
        if own is None and run is not None and run.last is not None:
            raise UsageError(
                f"the run on {shown(self.workstream)} has begun in"
                f" {self.parts.settings.working_directory}",
                hint=f"go on with it there: upthread run {shlex.quote(self.workstream)}; "
                "a tree of its own is for a new run",
                workstream=self.workstream,
            )
        return self.parts.worktrees.ensure(self.workstream)

    def _begin(self, specification: str | None) -> None:
        """Start a run, or take the newest one; see `run`. Blocking."""
        under_way = self._under_way()
        # The same once more is no second run: so a caller goes on whose process was killed.
        if specification is None or (
            under_way and under_way.specification.strip() == specification.strip()
        ):
            self._find()
        elif under_way:
            raise UsageError(
                f"a run on {shown(self.workstream)} is {under_way.status},"
                " on another specification",
                hint=f"go on with it: upthread run {shlex.quote(self.workstream)}",
                workstream=self.workstream,
            )
        else:
            self._start(specification)

    def _start(self, specification: str) -> None:
        _, last = self.parts.newest_run(self.workstream)
        where = (self.parts.project_id, self.workstream)
        name_workstream(self.parts.store, *where, now_ms=self.parts.system.now_ms)
        self.run_id = RunId(self.parts.system.new_id("run"))
        started = RunStarted(
            specification=specification,
            pipeline=pipelines.as_data(self.parts.settings.pipeline),
            iteration=last.iteration + 1 if last else 1,
            told=last.told if last else {},
            # Kept with the run, so that whoever goes on need not name them again.
            agents=self.agents,
        )
        opened = OpenRun(
            run_id=self.run_id,
            project_id=self.parts.project_id,
            workstream=self.workstream,
            opened_at_ms=self.parts.system.now_ms(),
        )
        then = pipelines.apply(self.view, started)
        writes = (opened, self._record(self.view, started), self._enqueue(then, self._hosts(then)))
        self.parts.store.commit(writes, fences=self.fences)
        # As it is kept: every later process reads that, and digests must be of the same text.
        self.view = run_view(self.parts.store, self.run_id)
        self.options.on_event(started)

    # --- as a person runs it --------------------------------------------------------------------

    async def _judge_again_if_changed(self) -> None:
        """Ask for the last verdict again when the tree is no longer the one that was approved."""
        approval = final_approval(self.view)
        if approval is None:
            return
        tree = await self.parts.system.in_thread(lambda: self.parts.tree_digest(self.workstream))
        if not holds(self.view, approval, tree_digest=tree):
            because = f"the working tree has changed since {approval.role} approved it"
            await self._commit(RunResumed(because=because, role=approval.role))

    async def _resume_if_parked(self) -> None:
        """Asking for a parked run again is how a person says: go on.

        So is asking for one whose last step failed, when its process ended before it parked it.
        """
        command = pipelines.next_command(self.view)
        last = self.view.last
        if isinstance(command, RunParked) and last is not None and last.outcome is not Outcome.OK:
            await self._advance()
        if self.options.is_waiting:
            await self._wait_out()
        parked = self.view.parked
        # A limit is left alone while it lasts, but for another agent, which it need not be about.
        if parked is not None and (self.options.names_an_agent or self._wait_ms(parked) == 0):
            await self._commit(RunResumed(because="run again"))

    async def _wait_out(self) -> None:
        """Let the time pass that the agent asked for, and go on; nothing for any other stop."""
        if self.view.parked is None or self.view.parked.reset_at_ms is None:
            return
        await self.parts.system.wait_until(self.view.parked.reset_at_ms)
        await self._commit(RunResumed(because=LIMIT_PASSED))

    def _wait_ms(self, parked: RunParked) -> int:
        """Return how long the agent still wants to be left alone; 0 when it did not say."""
        return max(0, (parked.reset_at_ms or 0) - self.parts.system.now_ms())

    def _is_stopped(self) -> bool:
        steps_max = self.options.steps_max
        is_enough = steps_max is not None and self.steps_done >= steps_max
        command = pipelines.next_command(self.view)
        takes_a_turn = isinstance(command, RunStep | ContinueStep)
        return isinstance(command, Wait) or (is_enough and takes_a_turn)

    # --- as a worker runs it --------------------------------------------------------------------

    async def _advance_as_worker(self) -> int:
        """Carry out what is next; returns 0, or how long the run still has to wait, in ms."""
        parked = self.view.parked
        if parked is not None:
            wait_ms = self._wait_ms(parked)
            # Without a time a person has to say so, by running it again.
            if wait_ms == 0 and parked.reset_at_ms is not None:
                await self._commit(RunResumed(because=LIMIT_PASSED))
            return wait_ms
        if not isinstance(pipelines.next_command(self.view), Wait):
            try:
                await self._advance()
            # What would be reported to the caller of a run is kept for whoever looks at it.
            except (ConfigError, RefusedError, UsageError) as error:
                await self._park(str(error))
        return 0

    async def _park(self, detail: str) -> None:
        """Park the run, which cannot go on here."""
        # Read again: what could not go on may have committed something before that.
        self.view = await self.parts.system.in_thread(
            lambda: run_view(self.parts.store, self.run_id)
        )
        role = pipelines.next_role(self.view)
        await self._commit(RunParked(reason=CANNOT_RUN, detail=detail, role=role))

    # --- advancing ------------------------------------------------------------------------------

    async def _advance(self) -> None:
        command = pipelines.next_command(self.view)
        match command:
            case RunStep():
                request = await self._request(command)
                role = command.step.role
                # Sent again, the step would do it again where its agent asks nobody.
                parked = await self.parts.system.in_thread(lambda: self._parked_in_doubt(role))
                if parked is not None:
                    await self._commit(parked)
                else:
                    await self._take_turn(role, self.turns.tell(request))
            case ContinueStep():
                await self._continue_step(command)
            case Wait():
                raise AssertionError("a waiting run does not advance")
            case _:
                await self._commit(command)

    def _parked_in_doubt(self, role: str) -> RunParked | None:
        """Return why a step is not sent: its role's stopped turn did what no person has settled."""
        for each in self.parts.effects_of(self.workstream).held():
            # A sub-agent's calls may be those of this role.
            if each.conversation.key.role == role or each.conversation.parent_conversation_id:
                return RunParked(reason=HELD_BACK, detail=each.effect.in_words, role=role)
        return None

    async def _continue_step(self, command: ContinueStep) -> None:
        step = self.view.pipeline.step_of(command.role)
        again = pipelines.run_step(self.view, step)
        request = await self._request(again)
        turn_id = TurnId(command.turn_id)
        # Before it is gone on with: what a person finished by hand is the step's end.
        read = partial(events_by_turn, self.parts.store, self.parts.project_id, turn_id)
        elsewhere = fold_turn(await self.parts.system.in_thread(read)).ended
        if elsewhere is not None:
            await self._commit(_step_ended(again, turn_id, elsewhere))
        else:
            await self._take_turn(command.role, self.turns.go_on(request, turn_id))

    async def _take_turn(self, role: str, turn: Awaitable[TurnResult]) -> None:
        """Wait for a step's turn; the run parks where it would pass what may be spent."""
        try:
            result = await turn
        except RefusedError as refused:
            if refused.reasons[0] != TOKENS_MAX:
                raise
            tokens = refused.ids.get("tokens", "")
            await self._commit(RunParked(reason=TOKENS_MAX, detail=tokens, role=role))
            return
        self.steps_done += 1
        # Read again: the turn's own commits have moved the run on.
        seen = self.view.events
        events = await self.parts.system.in_thread(
            lambda: run_events(self.parts.store, self.run_id)
        )
        self.view = pipelines.fold(events)
        for event in events[seen:]:
            self.options.on_event(event)
        if self.options.on_result:
            await self.options.on_result(role, result)

    async def _request(self, command: RunStep) -> TellRequest:
        """Return the request for a step, with what its turn writes to the run."""
        view, role = self.view, command.step.role
        hosts = await self.parts.system.in_thread(lambda: self._hosts(view))
        # Said beforehand: what ends a turn is put together on the event loop, where nothing is
        # read.
        hosts_after = {**hosts, role: self.parts.host} if self.parts.host else hosts

        def stepped(turn_id: TurnId) -> RunView:
            started = StepStarted(role=role, turn_id=turn_id)
            # One that another process has begun is on record already.
            return view if view.started is not None else pipelines.apply(view, started)

        def at_intent(turn_id: TurnId) -> Sequence[Write]:
            started = StepStarted(role=role, turn_id=turn_id, asked_again=command.asked_again)
            return (self._record(view, started),)

        def with_next(turn_id: TurnId, event: RunEvent) -> Sequence[Write]:
            after = stepped(turn_id)
            due = self._enqueue(pipelines.apply(after, event), hosts_after)
            return (self._record(after, event), due)

        def at_end(turn_id: TurnId, ended: TurnEnded, reply: str) -> Sequence[Write]:
            return with_next(turn_id, _step_ended(command, turn_id, ended, reply))

        def at_park(turn_id: TurnId, parked: TurnParked) -> Sequence[Write]:
            # With the turn's own: whoever takes the run over must not go on with what is parked.
            event = RunParked(
                reason=parked.reason,
                detail=parked.detail,
                role=role,
                reset_at_ms=parked.reset_at_ms,
            )
            if parked.reset_at_ms is None:
                return (self._record(stepped(turn_id), event),)
            return with_next(turn_id, event)

        return replace(
            self._told_step(command),
            run_id=self.run_id,
            fences=self.fences,
            # Counted over all processes of the run.
            spent=partial(spent_on_run, self.parts.store, self.parts.project_id, self.run_id),
            at_intent=at_intent,
            at_end=at_end,
            at_park=at_park,
        )

    def _told_step(self, command: RunStep) -> TellRequest:
        """Return what is told in a step, and under which conditions."""
        step, options = command.step, self.options
        request = self.parts.tell_request(
            Address(workstream=self.workstream, role=step.role),
            command.task,
            TellOptions(when_busy="wait", tokens_max=options.tokens_max, listener=options.listener),
            agent=self.agents[step.role],
        )
        role = request.role
        if options.continuity is not None:
            # What was said for this run holds: the role's condition would overrule it.
            role = replace(role, continuity=options.continuity, resume_if=None)
        # The report is missing in that very session: another one would have to do the work again.
        if command.asked_again:
            role = replace(role, continuity="resume")
        judged = step.on_rejected
        return replace(
            request,
            role=role,
            is_waiting_for_tree=options.is_waiting,
            condition=self.view.report_digest(role.resume_if) if role.resume_if else None,
            is_handed_back=options.is_handed_back,
            # A step that judges the work of a role that writes judges the working tree.
            is_tree_judged=judged is not None and self.parts.settings.role(judged).is_writing,
        )

    # --- writing --------------------------------------------------------------------------------

    async def _commit(self, event: RunEvent) -> None:
        await self.parts.system.in_thread(lambda: self._commit_here(event))
        self.options.on_event(event)

    def _commit_here(self, event: RunEvent) -> None:
        """Commit an event, with the transition that is due by it. Blocking."""
        then = pipelines.apply(self.view, event)
        writes: tuple[Write, ...] = (self._record(self.view, event, Durability.SYNCED),)
        if _makes_due(event, then):
            writes = (*writes, self._enqueue(then, self._hosts(then)))
        self.parts.store.commit(writes, fences=self.fences)
        self.view = then

    def _record(
        self, view: RunView, event: RunEvent, durability: Durability = Durability.PROCESS
    ) -> Write:
        return RecordRunEvent(
            run_id=self.run_id,
            seq=view.events + 1,
            event=event,
            recorded_at_ms=self.parts.system.now_ms(),
            durability=durability,
        )

    def _enqueue(self, view: RunView, hosts: ByRole) -> Write:
        """Return what makes a run's next transition due, as it will stand: now or at its reset."""
        role = pipelines.next_role(view)
        delay_ms = self._wait_ms(view.parked) if view.parked else 0
        agent, host = view.agents.get(role, ""), hosts.get(role, "")
        return EnqueueTransition(
            run_id=self.run_id,
            run_seq=view.events,
            due_at_ms=self.parts.system.now_ms() + delay_ms,
            delay_ms=delay_ms,
            queue=queue_of(self.parts.project_id, agent=agent, host=host),
        )

    def _hosts(self, view: RunView) -> ByRole:
        """Return the host of each role's session, by role, if hosts share the store. Blocking."""
        hosts: dict[str, str] = {}
        for step in view.pipeline.steps if self.parts.host else ():
            address = Address(workstream=self.workstream, role=step.role)
            resolved = self.parts.found(address)
            host = last_attached(self.parts.store, resolved.link).agent_host if resolved else None
            if host:
                hosts[step.role] = host
        return hosts


def _makes_due(event: RunEvent, then: RunView) -> bool:
    """Return whether a job is made for what follows an event.

    What waits for a person is no job: an answer, or running it again, makes the next one.
    """
    if isinstance(event, RunParked):
        return event.reset_at_ms is not None
    if isinstance(event, QuestionAnswered):
        return not then.open_questions
    return not isinstance(event, RunEnded | QuestionsAsked | AnswerSuggested)


def _step_ended(
    command: RunStep, turn_id: TurnId, ended: TurnEnded, reply: str | None = None
) -> StepEnded:
    """Return the end of a step from the end of its turn, with what is wrong with its report.

    Without the `reply`, its report is the one that is kept as data.
    """
    step, fault = command.step, ended.detail
    report: JsonValue = None
    if ended.outcome is Outcome.OK:
        try:
            if reply is not None:
                read = read_report(reply)
            elif ended.report is not None:
                read = msgspec.convert(ended.report, ready(Report))
            else:
                raise MalformedReportError(ended.detail or "the reply has no report")
            # One that is too long for its step counts as none, so that it is asked for again.
            check_length(read, lines_max=step.report_lines_max)
            report, fault = msgspec.to_builtins(read), ""
        except MalformedReportError as error:
            fault = str(error)
    return StepEnded(
        role=step.role,
        turn_id=turn_id,
        outcome=ended.outcome,
        report=report,
        report_error=fault,
        input_digest=command.input_digest,
        tree_digest=ended.tree_digest,
    )


def _open_question(view: RunView, workstream: str, question_id: str | None) -> str:
    """Return the question that is meant. Raises NotFoundError without an open one, UsageError."""
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


def _check_text(text: str, what: str) -> None:
    """Refuse what is no text for a person to read."""
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    if "\0" in text:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
