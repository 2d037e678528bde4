"""A run, as it is called: a pipeline over a workstream, by a person or by a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from upthread.client.adoption import AdoptingProject
from upthread.client.worktrees import notice_of, require_no_step_done
from upthread.core.actors import Actor
from upthread.core.events import RunEvent
from upthread.core.names import Address, parse_workstream, shown
from upthread.core.runs.pipeline import RunView
from upthread.errors import UsageError
from upthread.runtime.runs.runs import Answer, RunRequest, Transition
from upthread.runtime.turns.delegation import SILENT, Listener, Notice, RunOptions

LEASE_WAIT_S: Final = 5.0
"""How long a worker watches a run that somebody holds: longer than for a silent holder."""


class RunningProject(AdoptingProject):
    """Starts runs of an open project, continues them, and answers their questions."""

    async def run(
        self, workstream: str, specification: str | None = None, options: RunOptions | None = None
    ) -> RunView:
        """Take the pipeline over a workstream as far as it goes by itself.

        Without a specification the newest run goes on. Raises as `runtime.runs.runs.Runs.run` does.
        """
        chosen = options or RunOptions()
        name = parse_workstream(workstream)
        if specification is not None:
            _check_text(specification, "the specification")
        # Before the first step is paid for: without reports the second would have nothing to go on.
        self._preparing.require_recorded(self.settings.pipeline)
        request = structs.replace(
            await self._run_request(name, chosen),
            specification=specification,
            wait_s=None if chosen.is_waiting else 0.0,
        )
        return await self._runs.run(request)

    async def advance_run(
        self,
        workstream: str,
        transition: Transition,
        on_event: Callable[[RunEvent], None],
        listener: Listener,
    ) -> int:
        """Carry out one transition, as a worker; see Runs.advance.

        A turn that is cancelled meanwhile is left for another worker to go on with.
        """
        # The tree is waited for here: a job that came back for it would ask each second.
        chosen = RunOptions(
            on_event=on_event, listener=listener, is_waiting=True, is_handed_back=True
        )
        request = await self._run_request(workstream, chosen)
        waiting = structs.replace(request, wait_s=LEASE_WAIT_S)
        return await self._runs.advance(waiting, transition)

    async def park_run(self, workstream: str, transition: Transition, *, detail: str) -> None:
        """Park a run that this worker cannot advance; see Runs.park."""
        # No role is looked at: its broken file may be why the run cannot go on.
        request = self._run_request_with({}, workstream, RunOptions())
        await self._runs.park(
            structs.replace(request, wait_s=LEASE_WAIT_S), transition, detail=detail
        )

    async def answer(
        self,
        workstream: str,
        text: str,
        *,
        question_id: str | None = None,
        by: Actor | None = None,
    ) -> RunView:
        """Answer an open question; without an id the only open one.

        `by` is who answers, else whoever the project was opened for. A model's answer is kept as a
        suggestion, and the question stays open, unless the person's own configuration allows it.
        Raises NotFoundError when there is none, UsageError when it is unclear which is meant.
        """
        by = by or self._actor
        _check_text(text, "the answer")
        # A question that is put to a person is answered by one (ADR 65).
        is_suggestion = by.kind == "model" and not self.settings.models_answer
        return await self._runs.answer(
            Answer(text=text, by=by, question_id=question_id, is_suggestion=is_suggestion),
            project_id=self.project_id,
            workstream=parse_workstream(workstream),
        )

    async def _run_request(self, workstream: str, chosen: RunOptions) -> RunRequest:
        agents = await self._system.in_thread(lambda: self._run_agents(workstream, chosen))
        return self._run_request_with(agents, workstream, chosen)

    def _run_request_with(
        self, agents: Mapping[str, str], workstream: str, chosen: RunOptions
    ) -> RunRequest:
        listener = (chosen.listener or SILENT).telling_once()
        chosen = structs.replace(chosen, listener=listener)
        return RunRequest(
            project_id=self.project_id,
            workstream=workstream,
            pipeline=self.settings.pipeline,
            prepare_step=lambda view, command: self._preparing.step(
                workstream, view, command, chosen, agent=agents[command.step.role]
            ),
            tree_now=lambda: self._tree_digest(workstream),
            make_ready=lambda: self._make_ready(workstream, chosen),
            options=chosen,
            agents=agents,
        )

    def _make_ready(self, workstream: str, options: RunOptions) -> Notice | None:
        """Make the tree of a run, and say where it is when it is not the project's. Blocking."""
        own = self._worktrees.find(workstream)
        # Only where the tree would be new: what was done before lies in the other.
        if options.is_worktree and own is None:
            run = self._runs.view(self.project_id, workstream)
            require_no_step_done(workstream, run, self.settings.working_directory)
        if options.is_worktree:
            own = self._worktrees.ensure(workstream)
        return notice_of(workstream, own) if own else None

    def _run_agents(self, workstream: str, options: RunOptions) -> Mapping[str, str]:
        """Choose every role's agent before the first one is started."""
        settings = self.settings
        run = self._runs.view(self.project_id, workstream)
        # A run under way follows the pipeline it began with; the file may be another by now.
        steps = run.pipeline.steps if run and run.ended is None else settings.pipeline.steps
        roles = {step.role for step in (*steps, *settings.pipeline.steps)}
        for role in options.agents:
            if role not in roles:
                listed = ", ".join(sorted(roles))
                raise UsageError(f"no step for the role {shown(role)}", hint=f"roles: {listed}")
        is_under_way = run is not None and run.ended is None
        # A role that comes for the first time works with
        # what the others use: none is switched midway.
        before = self._agent_before(workstream) if is_under_way else None
        began_with = run.agents if run and is_under_way else dict[str, str]()
        return {
            role: self._preparing.agent_for(
                Address(workstream=workstream, role=role),
                named=options.agents.get(role, options.agent),
                otherwise=began_with.get(role, before),
            )
            for role in sorted(roles)
        }

    def _agent_before(self, workstream: str) -> str | None:
        """Return the one agent that a run under way has used so far, None when there were more."""
        view = self._overview.workstream(self.project_id, workstream)
        links = [role.link for role in view.roles if role.link] if view else []
        agents = {link.agent for link in links}
        return agents.pop() if len(agents) == 1 else None


def _check_text(text: str, what: str) -> None:
    """Refuse what is no text for a person to read."""
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    if "\0" in text:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
