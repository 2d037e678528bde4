"""A run in the hands of this process: what was asked for, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from upthread.core.actors import Actor
from upthread.core.commands import Write
from upthread.core.events import RunParked, TurnEnded, TurnParked
from upthread.core.runs.pipeline import Pipeline, RunView
from upthread.core.turns.prompt import Task
from upthread.core.turns.turn import HELD_BACK
from upthread.core.types import Fence, ProjectId, RunId, TurnId
from upthread.runtime.options import RunOptions
from upthread.runtime.record.effects import effects_held
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.progress import SILENT, Listener, Notice
from upthread.store.base import Store


class Answer(Struct, frozen=True, kw_only=True):
    """What is answered, and by whom. Without a `question_id` the only open question is meant.

    A suggestion leaves the question open.
    """

    text: str
    by: Actor
    question_id: str | None = None
    is_suggestion: bool = False


class StepRequest(Struct, frozen=True, kw_only=True):
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

    def __init__(self, *, run_id: RunId, view: RunView, fences: tuple[Fence, ...]) -> None:
        self.run_id = run_id
        self.view = view
        self.fences = fences
        self.steps_done = 0


def parked_in_doubt(store: Store, tell: TellRequest) -> RunParked | None:
    """Return why a step is not sent: its role's stopped turn did what no person has settled.

    None for a step that may be sent. Blocking.
    """
    claim = tell.claim
    found = effects_held(
        store,
        claim.project_id,
        claim.address.workstream,
        outward_patterns=tell.outward_patterns,
    )
    role = claim.address.role
    for each in found:
        # A sub-agent's calls may be those of this role.
        if each.conversation.key.role == role or each.conversation.parent_conversation_id:
            return RunParked(reason=HELD_BACK, detail=each.effect.in_words, role=role)
    return None
