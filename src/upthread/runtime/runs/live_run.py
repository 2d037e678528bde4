"""A run in the hands of this process: what was asked for, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct, field

from upthread.core.actors import Actor
from upthread.core.events import (
    AnswerSuggested,
    QuestionAnswered,
    RunParked,
    StepEnded,
    TurnEnded,
)
from upthread.core.names import shown
from upthread.core.roles.reports import MalformedReportError, Report, check_length, read_report
from upthread.core.runs.pipeline import Pipeline, RunStep, RunView, Step
from upthread.core.turns.turn import HELD_BACK
from upthread.core.types import (
    MAIN_SLOT,
    ConversationKey,
    Fence,
    JsonValue,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
    ready,
)
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.options import RunOptions
from upthread.runtime.record.effects import effects_held
from upthread.runtime.record.turn_views import last_attached
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
    claim = tell.claim
    found = effects_held(
        store,
        claim.project_id,
        claim.address.workstream,
        outward_patterns=tell.settings.outward_patterns,
    )
    role = claim.address.role
    for each in found:
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
