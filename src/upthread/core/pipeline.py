"""A pipeline: which role comes next over a workstream, and what it is told.

Theory of operation. A run's state is the fold of its events. `next_command` looks at the fold and
names one thing to do: run a step, go on with an interrupted one, wait for a human, park, finish.
The runtime does it and commits the event it led to, so a run goes on from any crash by reading its
events again. A step is told the reports it declares it needs and nothing else; a role that judges
(`on_rejected`) sends the run back, at most `rejections_max` times, then a human decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec

from upthread.core.events import (
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upthread.core.prompt import Task
from upthread.core.reports import INSTRUCTIONS, Report, ReportedQuestion, render
from upthread.core.types import JsonValue, Outcome

REJECTIONS_MAX: Final = 2
STEPS_MAX: Final = 64
"""A run that takes more steps than this is parked: something goes round in circles."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step of a pipeline, as written in TOML.

    `on_rejected` is the role a rejecting verdict sends the run back to; a step with one must hand
    back a verdict.
    """

    role: str
    task: str
    needs: tuple[str, ...] = ()
    on_rejected: str | None = None
    rejections_max: int = REJECTIONS_MAX


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Steps in order."""

    steps: tuple[Step, ...]

    def index_of(self, role: str) -> int:
        """Return the position of a role's step; ValueError for a role without one."""
        return [step.role for step in self.steps].index(role)


# --- commands ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """Ask this role. `input_digest` covers what it is to judge or build on."""

    step: Step
    task: Task
    input_digest: str
    asked_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueStep:
    """A step was started and its end is not known: go on with its turn."""

    role: str
    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHuman:
    """Ask these questions, then wait."""

    role: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do until a human answers or resumes."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Stop here and tell a human why."""

    reason: str
    detail: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The passage is over."""

    status: str
    evidence: tuple[str, ...] = ()


PipelineCommand: TypeAlias = RunStep | ContinueStep | AskHuman | Wait | Park | Finish


# --- state -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A report as handed back, with what it was based on."""

    role: str
    report: Report
    input_digest: str
    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as its events tell it."""

    events: int = 0
    specification: str = ""
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(steps=()))
    iteration: int = 1
    steps_run: int = 0
    started: StepStarted | None = None
    last: StepEnded | None = None
    was_asked_again: bool = False
    handed: Mapping[str, Handed] = field(default_factory=dict[str, Handed])
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    questions: tuple[Question, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    rejections: Mapping[str, int] = field(default_factory=dict[str, int])
    parked: RunParked | None = None
    ended: RunEnded | None = None

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """Questions nobody has answered yet, oldest first."""
        return tuple(q for q in self.questions if q.question_id not in self.answers)

    @property
    def status(self) -> str:
        """Return running, waiting_for_human, parked, approved, done, or idle before a start."""
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


def fold(events: Iterable[RunEvent]) -> RunView:
    """Return the view of a run's events, in order."""
    view = RunView()
    for event in events:
        view = apply(view, event)
    return view


def apply(view: RunView, event: RunEvent) -> RunView:
    """Return the view after one more event."""
    view = replace(view, events=view.events + 1)
    following: RunView = _APPLY[type(event)](view, event)
    return following


def _started(view: RunView, event: RunStarted) -> RunView:
    return replace(
        view,
        specification=event.specification,
        pipeline=msgspec.convert(event.pipeline, Pipeline),
        iteration=event.iteration,
        told=event.told,
    )


def _step_started(view: RunView, event: StepStarted) -> RunView:
    return replace(
        view,
        started=event,
        last=None,
        was_asked_again=event.asked_again,
        steps_run=view.steps_run + 1,
    )


def _step_ended(view: RunView, event: StepEnded) -> RunView:
    view = replace(view, started=None, last=event)
    if event.report is None:
        return view
    report = msgspec.convert(event.report, Report)
    handed = Handed(
        role=event.role, report=report, input_digest=event.input_digest, turn_id=event.turn_id
    )
    view = replace(
        view,
        handed={**view.handed, event.role: handed},
        told={**view.told, event.role: _digests_told(view, event.role)},
    )
    step = view.pipeline.steps[view.pipeline.index_of(event.role)]
    if step.on_rejected and report.verdict and report.verdict.result == "rejected":
        counted = view.rejections.get(event.role, 0) + 1
        view = replace(view, rejections={**view.rejections, event.role: counted})
    return view


def _asked(view: RunView, event: QuestionsAsked) -> RunView:
    return replace(view, questions=(*view.questions, *event.questions))


def _answered(view: RunView, event: QuestionAnswered) -> RunView:
    return replace(view, answers={**view.answers, event.question_id: event.text})


def _parked(view: RunView, event: RunParked) -> RunView:
    return replace(view, parked=event)


def _resumed(view: RunView, _event: RunResumed) -> RunView:
    """A person looked: the counters that led to the stop start again."""
    return replace(view, parked=None, rejections={}, steps_run=0, was_asked_again=False)


def _ended(view: RunView, event: RunEnded) -> RunView:
    return replace(view, ended=event)


_APPLY: Final[Mapping[type[RunEvent], Any]] = {
    RunStarted: _started,
    StepStarted: _step_started,
    StepEnded: _step_ended,
    QuestionsAsked: _asked,
    QuestionAnswered: _answered,
    RunParked: _parked,
    RunResumed: _resumed,
    RunEnded: _ended,
}


# --- decision ----------------------------------------------------------------------------------


def next_command(view: RunView) -> PipelineCommand:
    """Return the one thing to do next."""
    if view.ended or view.parked or view.open_questions:
        return Wait(status=view.status)
    if view.started is not None:
        return ContinueStep(role=view.started.role, turn_id=view.started.turn_id)
    if view.steps_run >= STEPS_MAX:
        return Park(reason="too_many_steps", detail=f"{STEPS_MAX} steps without an end", role="")
    if view.last is None:
        return run_step(view, _next_step(view))
    return _after(view, view.last)


def _next_step(view: RunView) -> Step:
    """The first step nobody has reported on in this run; after a person resumed, the last one."""
    for step in view.pipeline.steps:
        if step.role not in view.handed:
            return step
    return view.pipeline.steps[-1]


def _after(view: RunView, last: StepEnded) -> PipelineCommand:
    step = view.pipeline.steps[view.pipeline.index_of(last.role)]
    if last.outcome is not Outcome.OK:
        return _after_failure(view, step, last)
    fault = last.report_error or _missing_verdict(view, step, last)
    if fault:
        return _ask_again(view, step, fault)
    return _after_report(view, step, view.handed[step.role].report)


def _after_report(view: RunView, step: Step, report: Report) -> PipelineCommand:
    if report.status == "blocked":
        if view.steps_run == 0:
            return run_step(view, step)
        return Park(reason="blocked", detail=report.summary, role=step.role)
    if report.status == "needs_input":
        return _ask_human(view, step, report)
    if report.verdict and report.verdict.result == "rejected" and step.on_rejected:
        return _send_back(view, step, report)
    return _go_on(view, step, report)


def _after_failure(view: RunView, step: Step, last: StepEnded) -> PipelineCommand:
    """A failed step parks the run once; when a person resumes, the step is run again."""
    if view.steps_run == 0:
        return run_step(view, step)
    return Park(reason=str(last.outcome), detail=last.report_error, role=step.role)


def _missing_verdict(view: RunView, step: Step, last: StepEnded) -> str:
    report = view.handed[step.role].report if last.report is not None else None
    if step.on_rejected and report and report.status == "done" and report.verdict is None:
        return "this step judges, and the report has no verdict"
    return ""


def _ask_again(view: RunView, step: Step, fault: str) -> PipelineCommand:
    if view.was_asked_again:
        return Park(reason="no_report", detail=fault, role=step.role)
    text = f"# Task\nYour report could not be used: {fault}.\n\n{INSTRUCTIONS}"
    return RunStep(
        step=step, task=Task(text=text), input_digest=input_digest(view, step), asked_again=True
    )


def _ask_human(view: RunView, step: Step, report: Report) -> PipelineCommand:
    asked = tuple(
        Question(question_id=_question_id(view, step.role, q), role=step.role, text=q.text)
        for q in report.questions
    )
    new = tuple(q for q in asked if q.question_id not in view.answers)
    if new:
        return AskHuman(role=step.role, questions=new)
    return run_step(view, step)


def _question_id(view: RunView, role: str, asked: ReportedQuestion) -> str:
    """The id a human answers under: the same question keeps it, another one never shares it."""
    for known in view.questions:
        if known.role == role and known.text == asked.text:
            return known.question_id
    taken = {known.question_id for known in view.questions}
    return asked.id if asked.id not in taken else f"{asked.id}.{len(taken) + 1}"


def _send_back(view: RunView, step: Step, report: Report) -> PipelineCommand:
    assert step.on_rejected is not None
    if view.rejections.get(step.role, 0) > step.rejections_max:
        evidence = "; ".join(report.verdict.evidence) if report.verdict else ""
        return Park(reason="rejected_too_often", detail=evidence, role=step.role)
    back = view.pipeline.steps[view.pipeline.index_of(step.on_rejected)]
    return run_step(view, back)


def _go_on(view: RunView, step: Step, report: Report) -> PipelineCommand:
    index = view.pipeline.index_of(step.role) + 1
    if index < len(view.pipeline.steps):
        return run_step(view, view.pipeline.steps[index])
    approved = report.verdict is not None and report.verdict.result == "approved"
    evidence = report.verdict.evidence if report.verdict else ()
    return Finish(status="approved" if approved else "done", evidence=evidence)


# --- what a step is told -----------------------------------------------------------------------


def run_step(view: RunView, step: Step) -> RunStep:
    """Return the command to ask a role, with both tellings of its task."""
    told = set(view.told.get(step.role, ()))
    sections = _sections(view, step)
    return RunStep(
        step=step,
        task=Task(
            text=f"# Task\n{step.task.strip()}\n\n{INSTRUCTIONS}",
            news="\n\n".join(text for digest, text in sections if digest not in told),
            everything="\n\n".join(text for _, text in sections),
        ),
        input_digest=input_digest(view, step),
    )


def _sections(view: RunView, step: Step) -> list[tuple[str, str]]:
    """Return (digest, section) for all a step may see: specification, reports, answers."""
    texts = [f"# Specification\n{view.specification.strip()}"]
    texts += [
        render(role, view.handed[role].report)
        for role in _sources(view, step)
        if role in view.handed
    ]
    answers = [
        f"- {q.question_id}: {q.text} → {view.answers[q.question_id]}"
        for q in view.questions
        if q.role == step.role and q.question_id in view.answers
    ]
    if answers:
        texts.append("\n".join(["# Answers", *answers]))
    return [(_digest(text), text) for text in texts]


def _sources(view: RunView, step: Step) -> tuple[str, ...]:
    """The roles a step needs, and the one that sent the run back to it."""
    judges = tuple(
        other.role
        for other in view.pipeline.steps
        if other.on_rejected == step.role and view.rejections.get(other.role)
    )
    return tuple(dict.fromkeys((*step.needs, *judges)))


def _digests_told(view: RunView, role: str) -> tuple[str, ...]:
    step = view.pipeline.steps[view.pipeline.index_of(role)]
    return tuple(digest for digest, _ in _sections(view, step))


def input_digest(view: RunView, step: Step) -> str:
    """Return the digest of the specification and the reports a step needs; verdicts bind to it."""
    pieces = [view.specification]
    pieces += [view.handed[role].report.digest for role in step.needs if role in view.handed]
    return _digest("\n".join(pieces))


def check_pipeline(pipeline: Pipeline) -> str:
    """Return what is wrong with a pipeline, in words; empty when nothing is."""
    roles = [step.role for step in pipeline.steps]
    if not roles:
        return "it has no steps"
    if len(set(roles)) != len(roles):
        return "a role has two steps"
    for index, step in enumerate(pipeline.steps):
        for needed in step.needs:
            if needed not in roles:
                return f"{step.role} needs {needed}, which has no step"
        if step.on_rejected and step.on_rejected not in roles[:index]:
            return f"{step.role} sends back to {step.on_rejected}, which is no earlier step"
    return ""


def as_data(pipeline: Pipeline) -> JsonValue:
    """Return the pipeline as plain data, for the run's first event."""
    data: JsonValue = msgspec.to_builtins(pipeline)
    return data


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
