"""A run in the hands of this process: what was asked for, and how it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from upthread.core.actors import Actor
from upthread.core.commands import Write
from upthread.core.events import RunEvent, TurnEnded, TurnParked
from upthread.core.pipeline import Pipeline, RunView
from upthread.core.prompt import Task
from upthread.core.types import Fence, Lease, ProjectId, RunId, TurnId
from upthread.runtime.delegation import Notice, TellRequest, TurnResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered, and by whom. Without a `question_id` the only open question is meant.

    A suggestion leaves the question open.
    """

    text: str
    by: Actor
    question_id: str | None = None
    is_suggestion: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """What a run asks of whoever knows roles and agents: a TellRequest for one step.

    `is_asked_again` asks for a report that is missing: in the same session, whatever the role's
    continuity. `judged_role` is whose work the step judges, None for a step that judges none.
    """

    role: str
    task: Task
    run_id: RunId
    fences: tuple[Fence, ...]
    condition_role: Callable[[str], str | None]
    at_intent: Callable[[TurnId], Sequence[Write]]
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]]
    at_park: Callable[[TurnId, TurnParked], Sequence[Write]]
    is_asked_again: bool = False
    judged_role: str | None = None


PrepareStep = Callable[[StepRequest], TellRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A passage over a workstream. `specification` is None to go on with the newest run.

    `agents` by role are kept with a new run, so that whoever goes on need not name them again.
    `steps_max` stops after so many steps; the next call goes on. None runs to the end. At
    `tokens_max` of all that the run has spent it parks before the next turn. With
    `wait_s` None it also waits for a rate limit to pass; `is_elsewhere` when an agent was named,
    which need not be the one that is limited. `tree_now` gives the working tree's digest, and
    `make_ready` makes the tree before anything else is done; both blocking.
    """

    project_id: ProjectId
    workstream: str
    pipeline: Pipeline
    prepare_step: PrepareStep
    tree_now: Callable[[], str]
    make_ready: Callable[[], Notice | None] = lambda: None
    on_notice: Callable[[Notice], None] = lambda _: None
    specification: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    steps_max: int | None = None
    tokens_max: int | None = None
    wait_s: float | None = 0.0
    is_elsewhere: bool = False
    on_wait: Callable[[Lease], None] | None = None
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What a worker is handed: go on with this run, as it stood after this event."""

    run_id: RunId
    run_seq: int


class LiveRun:
    """A run in the hands of this process."""

    def __init__(self, *, run_id: RunId, view: RunView, fences: tuple[Fence, ...]) -> None:
        self.run_id = run_id
        self.view = view
        self.fences = fences
        self.steps_done = 0
