"""A run as it stands: the pipeline it follows and what its events came to. Values only.

What an event changes and what comes next is decided in core/runs/pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Struct, field

from upthread.core.actors import Actor
from upthread.core.events import (
    AnswerSuggested,
    Question,
    RunEnded,
    RunParked,
    StepEnded,
    StepStarted,
)
from upthread.core.roles.reports import REPORT_LINES_MAX, Report
from upthread.core.types import JsonValue

REJECTIONS_MAX: Final = 2

REJECTIONS_BOUND: Final = 64
"""What a pipeline may ask for at most; a run is parked after as many steps."""

REPORT_LINES_BOUND: Final = 100_000


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step of a pipeline, as written in TOML.

    `needs` are the roles whose reports it is told; of their transcripts nothing.
    `on_rejected` is the role a rejecting verdict sends the run back to; a step with one must hand
    back a verdict. `report_lines_max` is how much of it reaches others: over that, the step is
    asked once to shorten it, then the run parks.
    """

    role: str
    task: str
    needs: tuple[str, ...] = ()
    on_rejected: str | None = None
    rejections_max: int = REJECTIONS_MAX
    report_lines_max: Annotated[int, msgspec.Meta(gt=0)] = REPORT_LINES_MAX


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Steps in order."""

    steps: tuple[Step, ...]

    def index_of(self, role: str) -> int:
        """Return the position of a role's step; ValueError for a role without one."""
        return [step.role for step in self.steps].index(role)


def check_pipeline(pipeline: Pipeline) -> str:
    """Return what is wrong with a pipeline, in words; empty when nothing is."""
    roles = [step.role for step in pipeline.steps]
    if not roles:
        return "it has no steps"
    # Reports, questions and rejections are kept by role: two steps would share them.
    if len(set(roles)) != len(roles):
        return "a role has two steps"
    faults = (_fault_of(pipeline, index) for index in range(len(pipeline.steps)))
    return next(filter(None, faults), "")


def _fault_of(pipeline: Pipeline, index: int) -> str:
    step = pipeline.steps[index]
    roles = [each.role for each in pipeline.steps]
    # Here and not in the types: what was recorded of a run stays readable.
    if not 0 <= step.rejections_max <= REJECTIONS_BOUND:
        return f"{step.role} has a rejections_max that is not from 0 to {REJECTIONS_BOUND}"
    if step.report_lines_max > REPORT_LINES_BOUND:
        return f"{step.role} has a report_lines_max over {REPORT_LINES_BOUND}"
    for needed in step.needs:
        if needed not in roles:
            return f"{step.role} needs {needed}, which has no step"
        if not _can_have_reported(pipeline, needed, before=index):
            return f"{step.role} needs {needed}, which never comes before it"
    # Sent forward, the run would skip the steps between.
    if step.on_rejected and step.on_rejected not in roles[:index]:
        return f"{step.role} sends back to {step.on_rejected}, which is no earlier step"
    return ""


def _can_have_reported(pipeline: Pipeline, needed: str, *, before: int) -> bool:
    """Whether a role's report can be there: it comes earlier, or its rejection leads back here."""
    found = pipeline.index_of(needed)
    back = pipeline.steps[found].on_rejected
    leads_back = back in {step.role for step in pipeline.steps[: before + 1]}
    return found < before or (found > before and leads_back)


def as_data(pipeline: Pipeline) -> JsonValue:
    """Return the pipeline as plain data, for the run's first event."""
    data: JsonValue = msgspec.to_builtins(pipeline)
    return data


class Handed(Struct, frozen=True, kw_only=True):
    """A report as handed back, with what it was based on; see core/runs/pipeline.py."""

    role: str
    report: Report
    input_digest: str
    turn_id: str
    tree_digest: str = ""


class RunView(Struct, frozen=True, kw_only=True):
    """A run as its events tell it.

    `is_resumed` until the next step starts or ends: a person said to go on from the stop.
    `asked_next` is who is to be asked whatever came before, empty where that follows from it.
    `asked_in_vain` counts steps in a row that asked nothing new. `suggested` is the newest answer
    that a model would give to each question; `suggestions` counts all there were.
    """

    events: int = 0
    specification: str = ""
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(steps=()))
    iteration: int = 1
    steps_run: int = 0
    started: StepStarted | None = None
    last: StepEnded | None = None
    was_asked_again: bool = False
    asked_in_vain: int = 0
    is_resumed: bool = False
    asked_next: str = ""
    handed: Mapping[str, Handed] = field(default_factory=dict[str, Handed])
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    questions: tuple[Question, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    answered_by: Mapping[str, Actor | None] = field(default_factory=dict[str, "Actor | None"])
    suggested: Mapping[str, AnswerSuggested] = field(default_factory=dict[str, AnswerSuggested])
    suggestions: int = 0
    rejections: Mapping[str, int] = field(default_factory=dict[str, int])
    parked: RunParked | None = None
    ended: RunEnded | None = None

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """Questions nobody has answered yet, oldest first."""
        return tuple(q for q in self.questions if q.question_id not in self.answers)

    @property
    def status(self) -> str:
        """Return running, waiting_for_human, parked, idle before a start, or how it ended."""
        # In this order: a run that ended keeps the stop and the questions that it had before.
        if self.ended:
            return self.ended.status
        if self.parked:
            return "parked"
        if self.open_questions:
            return "waiting_for_human"
        return "running" if self.events else "idle"

    def report(self, role: str) -> Report | None:
        """Return the role's newest report."""
        handed = self.handed.get(role)
        return handed.report if handed else None

    def report_digest(self, role: str) -> str | None:
        """Return the digest of the role's newest report, None before the first."""
        report = self.report(role)
        return report.digest if report else None
