"""Runs: a pipeline over a workstream, one transition a commit, across any number of processes.

Asks the core what is next, does it, commits the event it led to. A run is its events; a process
that finds one goes on where the last one stopped. `Runs` chooses agents and takes the workstream's
lease, for a person or for a worker; `LiveRun` is one run under that lease.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from upthread.client.parts import ProjectParts
from upthread.client.worktrees import notice_of, require_no_step_done
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
from upthread.core.names import Address, key_of, shown
from upthread.core.roles.reports import MalformedReportError, Report, check_length, read_report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import (
    AskHuman,
    ContinueStep,
    Finish,
    Park,
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
    WorkstreamEffects,
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
from upthread.runtime.working_tree.digest import tree_digest
from upthread.runtime.working_tree.repository import Worktree

ANSWER_TRIES_MAX: Final = 8

CANNOT_RUN: Final = "cannot_run"
"""Why a run is parked that a worker cannot advance: the fault is in its project or on its host."""

LEASE_WAIT_S: Final = 5.0
"""How long a worker watches a run that somebody holds: longer than for a silent holder."""

SUGGESTIONS_MAX: Final = 32
"""How many answers models may suggest in a run; a person has seen none of them yet."""


class Transition(Struct, frozen=True, kw_only=True):
    """What a worker is handed: go on with this run, as it stood after this event."""

    run_id: RunId
    run_seq: int


class Runs:
    """Starts runs of a project, takes them on, and answers their questions."""

    def __init__(self, parts: ProjectParts, turns: Turns) -> None:
        self._parts = parts
        self._system = parts.system
        self._turns = turns

    async def run(self, workstream: str, specification: str | None, options: RunOptions) -> RunView:
        """Take a run as far as it goes by itself; returns it ended, waiting, parked or stopped.

        `specification` is None to go on with the newest run. Raises LeaseHeldError while another
        process runs this workstream, NotFoundError without a run to go on with, UsageError for a
        new specification while a run is under way.
        """
        if specification is not None:
            _check_text(specification, "the specification")
        # Before the first step is paid for: without reports the second would have nothing to go on.
        self._require_recorded()
        agents = await self._system.in_thread(lambda: self._agents(workstream, options))
        wait_s = None if options.is_waiting else 0.0
        async with self._held(workstream, options, agents, wait_s=wait_s) as live:
            await live.make_ready()
            await self._system.in_thread(lambda: live.begin(specification))
            return await live.run_on()

    async def advance(
        self,
        workstream: str,
        transition: Transition,
        on_event: Callable[[RunEvent], None],
        listener: Listener,
    ) -> int:
        """Carry out one transition of a run, as a worker; returns 0, or how long it waits, in ms.

        Nothing is done where another process did it, or nothing is to be done until a person says
        so. A turn that is cancelled meanwhile is left for another worker to go on with. Raises
        LeaseHeldError while another process is at it, FencedError when taken over.
        """
        # The tree is waited for here: a job that came back for it would ask each second.
        options = RunOptions(
            on_event=on_event, listener=listener, is_waiting=True, is_handed_back=True
        )
        agents = await self._system.in_thread(lambda: self._agents(workstream, options))
        async with self._held(workstream, options, agents, wait_s=LEASE_WAIT_S) as live:
            is_due = await self._system.in_thread(lambda: live.take_up(transition))
            return await live.advance_as_worker() if is_due else 0

    async def park(self, workstream: str, transition: Transition, *, detail: str) -> None:
        """Park a run at a transition that a worker cannot carry out, unless it has moved on."""
        # No role is looked at: its broken file may be why the run cannot go on.
        async with self._held(workstream, RunOptions(), {}, wait_s=LEASE_WAIT_S) as live:
            is_due = await self._system.in_thread(lambda: live.take_up(transition))
            if is_due and live.view.parked is None:
                await live.park(detail)

    async def answer(
        self, workstream: str, text: str, *, question_id: str | None, by: Actor
    ) -> RunView:
        """Answer one open question of the newest run; a model's answer may be a suggestion.

        Needs no lease: either is one append, and the run reads it when it goes on.
        """
        _check_text(text, "the answer")
        # A question that is put to a person is answered by one (ADR 65).
        is_suggestion = by.kind == "model" and not self._parts.settings.models_answer

        def append() -> RunView:
            live = LiveRun(self._parts, self._turns, workstream, options=RunOptions(), agents={})
            live.find()
            question = _open_question(live.view, workstream, question_id)
            if is_suggestion:
                _refuse_too_many(live.view, workstream)
                live.commit_here(AnswerSuggested(question_id=question, text=text, by=by))
            else:
                answered = QuestionAnswered(question_id=question, text=text, answered_by=by)
                live.commit_here(answered)
            return live.view

        for _ in range(ANSWER_TRIES_MAX):
            with suppress(ConflictError):  # another answer came first: read again, append after it
                return await self._system.in_thread(append)
        return await self._system.in_thread(append)

    @asynccontextmanager
    async def _held(
        self,
        workstream: str,
        options: RunOptions,
        agents: Mapping[str, str],
        *,
        wait_s: float | None,
    ) -> AsyncGenerator[LiveRun]:
        listener = (options.listener or SILENT).telling_once()
        options = structs.replace(options, listener=listener)
        lease = LeaseRequest(
            name=workstream_lease(self._parts.project_id, workstream),
            doing=f"run {workstream}",
            wait_s=wait_s,
            on_wait=listener.waiting,
        )
        async with self._parts.leases.held(lease) as fence:
            yield LiveRun(
                self._parts,
                self._turns,
                workstream,
                options=options,
                agents=agents,
                fences=(fence,),
            )

    # --- before the lease is taken --------------------------------------------------------------

    def _require_recorded(self) -> None:
        """Refuse a run that could not go on: each role reads what the one before it reported."""
        for step in self._parts.settings.pipeline.steps:
            if self._parts.policy.of_role(step.role) == "index":
                raise ConfigError(
                    f"a run needs reports and answers, and of {step.role} no text is recorded",
                    hint=f'say record = "redacted" under [roles.{step.role}], or use upthread tell',
                )

    def _agents(self, workstream: str, options: RunOptions) -> Mapping[str, str]:
        """Choose every role's agent before the first one is started."""
        pipeline = self._parts.settings.pipeline
        run = newest_run(self._parts, workstream)
        under_way = run[1] if run and run[1].ended is None else None
        # A run under way follows the pipeline it began with; the file may be another by now.
        steps = under_way.pipeline.steps if under_way else pipeline.steps
        roles = {step.role for step in (*steps, *pipeline.steps)}
        for role in options.agents:
            if role not in roles:
                listed = ", ".join(sorted(roles))
                raise UsageError(f"no step for the role {shown(role)}", hint=f"roles: {listed}")
        # A role that comes for the first time works with
        # what the others use: none is switched midway.
        before = self._agent_before(workstream) if under_way else None
        began_with = under_way.agents if under_way else dict[str, str]()
        return {
            role: self._parts.agent_for(
                Address(workstream=workstream, role=role),
                named=options.agents.get(role, options.agent),
                otherwise=began_with.get(role, before),
            )
            for role in sorted(roles)
        }

    def _agent_before(self, workstream: str) -> str | None:
        """Return the one agent that a run under way has used so far, None when there were more."""
        known = self._parts.store.conversations(self._parts.project_id, workstream)
        # The calls of sub-agents are no roles.
        keys = {each.key for each in known if each.key.slot != CHILD_SLOT}
        found = map(self._parts.store.resolve, keys)
        agents = {each.link.agent for each in found if each and each.link}
        return agents.pop() if len(agents) == 1 else None


class LiveRun:
    """A run in the hands of this process. `agents` are by role, chosen before it began."""

    def __init__(
        self,
        parts: ProjectParts,
        turns: Turns,
        workstream: str,
        *,
        options: RunOptions,
        agents: Mapping[str, str],
        fences: tuple[Fence, ...] = (),
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._system = parts.system
        self._project_id = parts.project_id
        self._turns = turns
        self._workstream = workstream
        self._options = options
        self._agents = agents
        self._fences = fences
        self._steps_done = 0
        self.run_id = RunId("")
        self.view = RunView()

    # --- taking up ------------------------------------------------------------------------------

    def find(self) -> None:
        """Take the newest run of the workstream. Raises NotFoundError. Blocking."""
        found = newest_run(self._parts, self._workstream)
        if found is None:
            raise NotFoundError(
                f"no run on {shown(self._workstream)} yet",
                hint=f"start one: upthread run {shlex.quote(self._workstream)} --spec FILE",
                workstream=self._workstream,
            )
        self.run_id, self.view = found

    def take_up(self, transition: Transition) -> bool:
        """Take the run a transition belongs to; returns False if that is settled. Blocking."""
        events = run_events(self._store, transition.run_id)
        if any(settles(event) for event in events[transition.run_seq :]):
            return False
        self.run_id, self.view = transition.run_id, pipelines.fold(events)
        return True

    async def make_ready(self) -> None:
        """Make the tree of the run, and report where it is when it is not the project's."""
        own = await self._system.in_thread(self._own_tree)
        if own is not None and self._options.listener is not None:
            self._options.listener.notice(notice_of(self._workstream, own))

    def _own_tree(self) -> Worktree | None:
        own = self._parts.worktrees.find(self._workstream)
        if not self._options.is_worktree:
            return own
        # Only where the tree would be new: what was done before lies in the other.
        if own is None:
            found = newest_run(self._parts, self._workstream)
            directory = self._parts.settings.working_directory
            require_no_step_done(self._workstream, found[1] if found else None, directory)
        return self._parts.worktrees.ensure(self._workstream)

    def begin(self, specification: str | None) -> None:
        """Start a run, or take the newest one; see `Runs.run`. Blocking."""
        found = newest_run(self._parts, self._workstream)
        last = found[1] if found else None
        under_way = last if last and last.ended is None else None
        # The same once more is no second run: so a caller goes on whose process was killed.
        if specification is None or (
            under_way and under_way.specification.strip() == specification.strip()
        ):
            self.find()
        elif under_way:
            raise UsageError(
                f"a run on {shown(self._workstream)} is {under_way.status},"
                " on another specification",
                hint=f"go on with it: upthread run {shlex.quote(self._workstream)}",
                workstream=self._workstream,
            )
        else:
            self._start(specification, last)

    def _start(self, specification: str, last: RunView | None) -> None:
        where = (self._project_id, self._workstream)
        name_workstream(self._store, *where, now_ms=self._system.now_ms)
        self.run_id = RunId(self._system.new_id("run"))
        started = RunStarted(
            specification=specification,
            pipeline=pipelines.as_data(self._parts.settings.pipeline),
            iteration=last.iteration + 1 if last else 1,
            told=last.told if last else {},
            # Kept with the run, so that whoever goes on need not name them again.
            agents=self._agents,
        )
        opened = OpenRun(
            run_id=self.run_id,
            project_id=self._project_id,
            workstream=self._workstream,
            opened_at_ms=self._system.now_ms(),
        )
        then = pipelines.apply(self.view, started)
        due = self._enqueue(then, self._hosts(then))
        writes = (opened, self._record(self.view, started), due)
        self._store.commit(writes, fences=self._fences)
        # As it is kept: every later process reads that, and digests must be of the same text.
        self.view = run_view(self._store, self.run_id)
        self._options.on_event(started)

    # --- as a person runs it --------------------------------------------------------------------

    async def run_on(self) -> RunView:
        """Take the run as far as it goes by itself."""
        await self._judge_again_if_changed()
        await self._resume_if_parked()
        while not self._is_stopped():
            await self._advance()
            if self._options.is_waiting:
                await self._wait_out()
        return self.view

    async def _judge_again_if_changed(self) -> None:
        """Ask for the last verdict again when the tree is no longer the one that was approved."""
        approval = final_approval(self.view)
        if approval is None:
            return
        tree = await self._system.in_thread(
            lambda: tree_digest(Path(self._parts.place_if_there(self._workstream)))
        )
        if not holds(self.view, approval, tree_digest=tree):
            because = f"the working tree has changed since {approval.role} approved it"
            await self._commit(RunResumed(because=because, role=approval.role))

    async def _resume_if_parked(self) -> None:
        """Asking for a parked run again is how a person says: go on.

        So is asking for one whose last step failed, when its process ended before it parked it.
        """
        command = pipelines.next_command(self.view)
        last = self.view.last
        if isinstance(command, Park) and last is not None and last.outcome is not Outcome.OK:
            await self._advance()
        if self._options.is_waiting:
            await self._wait_out()
        parked = self.view.parked
        # A limit is left alone while it lasts, but for another agent, which it need not be about.
        if parked is not None and (self._options.names_an_agent or self._wait_ms(parked) == 0):
            await self._commit(RunResumed(because="run again"))

    async def _wait_out(self) -> None:
        """Let the time pass that the agent asked for, and go on; nothing for any other stop."""
        if self.view.parked is None or self.view.parked.reset_at_ms is None:
            return
        await self._system.wait_until(self.view.parked.reset_at_ms)
        await self._commit(RunResumed(because=LIMIT_PASSED))

    def _wait_ms(self, parked: RunParked) -> int:
        """Return how long the agent still wants to be left alone; 0 when it did not say."""
        return max(0, (parked.reset_at_ms or 0) - self._system.now_ms())

    def _is_stopped(self) -> bool:
        steps_max = self._options.steps_max
        is_enough = steps_max is not None and self._steps_done >= steps_max
        command = pipelines.next_command(self.view)
        takes_a_turn = isinstance(command, RunStep | ContinueStep)
        return isinstance(command, Wait) or (is_enough and takes_a_turn)

    # --- as a worker runs it --------------------------------------------------------------------

    async def advance_as_worker(self) -> int:
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
                await self.park(str(error))
        return 0

    async def park(self, detail: str) -> None:
        """Park the run, which cannot go on here."""
        # Read again: what could not go on may have committed something before that.
        self.view = await self._system.in_thread(lambda: run_view(self._store, self.run_id))
        role = pipelines.next_role(self.view)
        await self._commit(RunParked(reason=CANNOT_RUN, detail=detail, role=role))

    # --- advancing ------------------------------------------------------------------------------

    async def _advance(self) -> None:
        command = pipelines.next_command(self.view)
        match command:
            case RunStep():
                await self._run_step(command)
            case ContinueStep():
                await self._continue_step(command)
            case AskHuman():
                await self._commit(QuestionsAsked(role=command.role, questions=command.questions))
            case Park():
                parked = RunParked(reason=command.reason, detail=command.detail, role=command.role)
                await self._commit(parked)
            case Finish():
                await self._commit(RunEnded(status=command.status, evidence=command.evidence))
            case Wait():
                raise AssertionError("a waiting run does not advance")

    async def _run_step(self, command: RunStep) -> None:
        request = await self._request(command)
        # Sent again, the step would do it again where its agent asks nobody.
        parked = await self._system.in_thread(lambda: self._parked_in_doubt(command.step.role))
        if parked is not None:
            await self._commit(parked)
        else:
            await self._take_turn(command.step.role, self._turns.tell(request))

    def _parked_in_doubt(self, role: str) -> RunParked | None:
        """Return why a step is not sent: its role's stopped turn did what no person has settled."""
        effects = WorkstreamEffects(
            store=self._store,
            project_id=self._project_id,
            workstream=self._workstream,
            outward_patterns=self._parts.settings.outward_patterns,
        )
        for each in effects.held():
            # A sub-agent's calls may be those of this role.
            if each.conversation.key.role == role or each.conversation.parent_conversation_id:
                return RunParked(reason=HELD_BACK, detail=each.effect.in_words, role=role)
        return None

    async def _continue_step(self, command: ContinueStep) -> None:
        step = self.view.pipeline.steps[self.view.pipeline.index_of(command.role)]
        again = pipelines.run_step(self.view, step)
        request = await self._request(again)
        turn_id = TurnId(command.turn_id)
        # Before it is gone on with: what a person finished by hand is the step's end.
        read = partial(events_by_turn, self._store, self._project_id, turn_id)
        elsewhere = fold_turn(await self._system.in_thread(read)).ended
        if elsewhere is not None:
            await self._commit(_step_ended(again, turn_id, elsewhere))
        else:
            await self._take_turn(command.role, self._turns.go_on(request, turn_id))

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
        self._steps_done += 1
        # Read again: the turn's own commits have moved the run on.
        seen = self.view.events
        events = await self._system.in_thread(lambda: run_events(self._store, self.run_id))
        self.view = pipelines.fold(events)
        for event in events[seen:]:
            self._options.on_event(event)
        if self._options.on_result:
            await self._options.on_result(role, result)

    async def _request(self, command: RunStep) -> TellRequest:
        """Return the request for a step, with what its turn writes to the run."""
        view, role = self.view, command.step.role
        hosts = await self._system.in_thread(lambda: self._hosts(view))
        # Said beforehand: what ends a turn is put together on the event loop, where nothing is
        # read.
        hosts_after = {**hosts, role: self._parts.host} if self._parts.host else hosts

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

        return structs.replace(
            self._told_step(command),
            run_id=self.run_id,
            fences=self._fences,
            # Counted over all processes of the run.
            spent=partial(spent_on_run, self._store, self._project_id, self.run_id),
            at_intent=at_intent,
            at_end=at_end,
            at_park=at_park,
        )

    def _told_step(self, command: RunStep) -> TellRequest:
        """Return what is told in a step, and under which conditions."""
        step, options = command.step, self._options
        request = self._parts.tell_request(
            Address(workstream=self._workstream, role=step.role),
            command.task,
            TellOptions(when_busy="wait", tokens_max=options.tokens_max, listener=options.listener),
            agent=self._agents[step.role],
        )
        role = request.role
        if options.continuity is not None:
            # What was said for this run holds: the role's condition would overrule it.
            role = structs.replace(role, continuity=options.continuity, resume_if=None)
        # The report is missing in that very session: another one would have to do the work again.
        if command.asked_again:
            role = structs.replace(role, continuity="resume")
        judged = step.on_rejected
        return structs.replace(
            request,
            role=role,
            is_waiting_for_tree=options.is_waiting,
            condition=self.view.report_digest(role.resume_if) if role.resume_if else None,
            is_handed_back=options.is_handed_back,
            # A step that judges the work of a role that writes judges the working tree.
            is_tree_judged=judged is not None and self._parts.settings.role(judged).is_writing,
        )

    # --- writing --------------------------------------------------------------------------------

    async def _commit(self, event: RunEvent) -> None:
        await self._system.in_thread(lambda: self.commit_here(event))
        self._options.on_event(event)

    def commit_here(self, event: RunEvent) -> None:
        """Commit an event, with the transition that is due by it. Blocking."""
        then = pipelines.apply(self.view, event)
        writes: tuple[Write, ...] = (self._record(self.view, event, Durability.SYNCED),)
        if _makes_due(event, then):
            writes = (*writes, self._enqueue(then, self._hosts(then)))
        self._store.commit(writes, fences=self._fences)
        self.view = then

    def _record(
        self, view: RunView, event: RunEvent, durability: Durability = Durability.PROCESS
    ) -> Write:
        return RecordRunEvent(
            run_id=self.run_id,
            seq=view.events + 1,
            event=event,
            recorded_at_ms=self._system.now_ms(),
            durability=durability,
        )

    def _enqueue(self, view: RunView, hosts: Mapping[str, str]) -> Write:
        """Return what makes a run's next transition due, as it will stand: now or at its reset."""
        role = pipelines.next_role(view)
        delay_ms = self._wait_ms(view.parked) if view.parked else 0
        agent, host = view.agents.get(role, ""), hosts.get(role, "")
        return EnqueueTransition(
            run_id=self.run_id,
            run_seq=view.events,
            due_at_ms=self._system.now_ms() + delay_ms,
            delay_ms=delay_ms,
            queue=queue_of(self._project_id, agent=agent, host=host),
        )

    def _hosts(self, view: RunView) -> Mapping[str, str]:
        """Return the host of each role's session, by role, if hosts share the store. Blocking."""
        hosts: dict[str, str] = {}
        for step in view.pipeline.steps if self._parts.host else ():
            address = Address(workstream=self._workstream, role=step.role)
            resolved = self._store.resolve(key_of(self._project_id, address))
            host = last_attached(self._store, resolved.link).agent_host if resolved else None
            if host:
                hosts[step.role] = host
        return hosts


def newest_run(parts: ProjectParts, workstream: str) -> tuple[RunId, RunView] | None:
    """Return a workstream's newest run, None before the first. Blocking."""
    runs = parts.store.runs(parts.project_id, workstream)
    return (runs[-1].run_id, run_view(parts.store, runs[-1].run_id)) if runs else None


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
            read = _kept_report(ended) if reply is None else read_report(reply)
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


def _kept_report(ended: TurnEnded) -> Report:
    if ended.report is None:
        raise MalformedReportError(ended.detail or "the reply has no report")
    return msgspec.convert(ended.report, ready(Report))


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


def _refuse_too_many(view: RunView, workstream: str) -> None:
    """Raise UsageError where models have suggested enough."""
    if view.suggestions >= SUGGESTIONS_MAX:
        raise UsageError(
            f"{view.suggestions} answers were suggested to {shown(workstream)}, and none was taken",
            hint="a person answers: upthread answer WS QUESTION TEXT",
        )


def _check_text(text: str, what: str) -> None:
    """Refuse what is no text for a person to read."""
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    if "\0" in text:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
