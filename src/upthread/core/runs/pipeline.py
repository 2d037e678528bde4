"""A pipeline: which role comes next over a workstream, and where the step may run.

Theory of operation. A run's state is the fold of its events. `next_command` looks at the fold and
names one thing to do: run a step, go on with an interrupted one, wait for a human, park, finish.
The runtime does it and commits the event it led to, so a run goes on from any crash by reading its
events again. A role that judges (`on_rejected`) sends the run back, at most `rejections_max` times,
then a human decides.

Workers take transitions from the queues of what they have: a project's directory, an agent, and the
host they are on, where an upstream session lives. A queue's name is short, since it is part of the
name of a PostgreSQL channel, which has 63 bytes.

A step is told the specification, the reports it declares it needs, the verdict that sent the run
back to it, and the answers to its own questions; nothing else. A role that heard a section before,
in this run or an earlier one, is told it again only by a new session.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeAlias, assert_never

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from upthread.core import events
from upthread.core.agents import Actor
from upthread.core.events import (
    AnswerSuggested,
    Question,
    QuestionsAsked,
    RunEnded,
    RunParked,
    StepEnded,
    StepStarted,
)
from upthread.core.roles.reports import REPORT_LINES_MAX, Report, instructions, render
from upthread.core.text import item, one_line, without_mentions
from upthread.core.turns.turn import Task
from upthread.core.types import JsonValue, Outcome, ProjectId, ready

REJECTIONS_MAX = 2

REJECTIONS_BOUND = 64
"""What a pipeline may ask for at most; a run is parked after as many steps."""

REPORT_LINES_BOUND = 100_000


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

    def step_of(self, role: str) -> Step:
        """Return a role's step; ValueError for a role without one."""
        return self.steps[self.index_of(role)]


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
    handed: Mapping[str, Handed] = {}
    told: Mapping[str, tuple[str, ...]] = {}
    agents: Mapping[str, str] = {}
    questions: tuple[Question, ...] = ()
    answers: Mapping[str, str] = {}
    answered_by: Mapping[str, Actor | None] = {}
    suggested: Mapping[str, AnswerSuggested] = {}
    suggestions: int = 0
    rejections: Mapping[str, int] = {}
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


REJECTED_TOO_OFTEN = "rejected_too_often"
"""Why a run is parked whose judge sent the work back more often than its step allows."""

ASKED_IN_VAIN_MAX = 1
"""How often a role may ask only what was answered before; its answers are told again each time."""

_PLAIN_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}"
STEPS_MAX = 64
"""A run that takes more steps than this is parked: something goes round in circles."""


# --- commands ----------------------------------------------------------------------------------


class RunStep(Struct, frozen=True, kw_only=True):
    """Ask this role. `input_digest` covers what it is to judge or build on."""

    step: Step
    task: Task
    input_digest: str
    asked_again: bool = False


class ContinueStep(Struct, frozen=True, kw_only=True):
    """A step was started and its end is not known: go on with its turn."""

    role: str
    turn_id: str


class Wait(Struct, frozen=True, kw_only=True):
    """Nothing to do until a human answers or resumes."""

    status: str


PipelineCommand: TypeAlias = RunStep | ContinueStep | QuestionsAsked | Wait | RunParked | RunEnded
"""What a run does next. An event is committed as it is: the run asks a person, parks or ends."""


# --- state -------------------------------------------------------------------------------------


def fold(run_events: Iterable[events.RunEvent]) -> RunView:
    """Return the view of a run's events, in order."""
    view = RunView()
    for event in run_events:
        view = apply(view, event)
    return view


def apply(view: RunView, event: events.RunEvent) -> RunView:
    """Return the view after one more event."""
    view = replace(view, events=view.events + 1)
    match event:
        case events.RunStarted():
            view = _started(view, event)
        case events.StepStarted():
            view = _step_started(view, event)
        case events.StepEnded():
            view = _step_ended(view, event)
        case events.QuestionsAsked():
            view = replace(view, questions=(*view.questions, *event.questions))
        case events.QuestionAnswered(question_id=asked):
            answers = {**view.answers, asked: event.text}
            answered_by = {**view.answered_by, asked: event.answered_by}
            view = replace(view, answers=answers, answered_by=answered_by)
        case events.AnswerSuggested(question_id=asked):
            suggested = {**view.suggested, asked: event}
            view = replace(view, suggested=suggested, suggestions=view.suggestions + 1)
        case events.RunParked():
            view = replace(view, parked=event)
        case events.RunResumed():
            view = _resumed(view, event)
        case events.RunEnded():
            view = replace(view, ended=event)
        case _:
            assert_never(event)
    return view


def _started(view: RunView, event: events.RunStarted) -> RunView:
    return replace(
        view,
        specification=event.specification,
        pipeline=msgspec.convert(event.pipeline, ready(Pipeline)),
        iteration=event.iteration,
        told=event.told,
        agents=event.agents,
    )


def _step_started(view: RunView, event: events.StepStarted) -> RunView:
    return replace(
        view,
        started=event,
        last=None,
        was_asked_again=event.asked_again,
        is_resumed=False,
        # Asked once: what follows comes from its report again.
        asked_next="",
        steps_run=view.steps_run + 1,
    )


def _step_ended(view: RunView, event: events.StepEnded) -> RunView:
    view = replace(view, started=None, last=event, is_resumed=False)
    if event.report is None:
        return view
    report = msgspec.convert(event.report, ready(Report))
    is_in_vain = report.status == "needs_input" and not _new_questions(view, event.role, report)
    handed = Handed(
        role=event.role,
        report=report,
        input_digest=event.input_digest,
        turn_id=event.turn_id,
        tree_digest=event.tree_digest,
    )
    view = replace(
        view,
        handed={**view.handed, event.role: handed},
        # What its session has read by now: the next telling leaves it out.
        told={**view.told, event.role: digests_told(view, event.role)},
        asked_in_vain=view.asked_in_vain + 1 if is_in_vain else 0,
    )
    step = view.pipeline.step_of(event.role)
    if step.on_rejected and has_rejected(report):
        counted = view.rejections.get(event.role, 0) + 1
        view = replace(view, rejections={**view.rejections, event.role: counted})
    return view


def _resumed(view: RunView, event: events.RunResumed) -> RunView:
    """A person looked: the counters that led to the stop start again."""
    return replace(
        view,
        parked=None,
        # A run that is over goes on only for a role that is named: a late "go on" changes nothing.
        ended=None if event.role else view.ended,
        asked_next=event.role,
        # A person looked and says go on: what had stopped it counts from the beginning.
        rejections={},
        steps_run=0,
        was_asked_again=False,
        asked_in_vain=0,
        is_resumed=True,
    )


# --- decision ----------------------------------------------------------------------------------


def next_command(view: RunView) -> PipelineCommand:
    """Return the one thing to do next."""
    if view.ended or view.parked or view.open_questions:
        return Wait(status=view.status)
    # Before any step: one whose end is not known may have been done, and is never begun twice.
    if view.started is not None:
        return ContinueStep(role=view.started.role, turn_id=view.started.turn_id)
    command = _next_step(view)
    # Only a further step is stopped: a run that is about to finish or to ask has its end.
    if isinstance(command, RunStep) and view.steps_run >= STEPS_MAX:
        detail = f"{STEPS_MAX} steps without an end"
        return RunParked(reason="too_many_steps", detail=detail, role=command.step.role)
    return command


def _next_step(view: RunView) -> PipelineCommand:
    if view.asked_next:
        return run_step(view, view.pipeline.step_of(view.asked_next))
    return _after(view, view.last) if view.last else run_step(view, view.pipeline.steps[0])


def next_role(view: RunView) -> str:
    """Return the role whose turn or word is next, empty when nothing is to be done.

    Of a run that is parked or waits for an answer, the role that goes on afterwards.
    """
    if view.ended:
        return ""
    if view.started is not None:
        return view.started.role
    # Answered with nothing, so that the fold says who goes on afterwards.
    answers = {question.question_id: "" for question in view.questions}
    command = next_command(replace(view, parked=None, answers=answers))
    return command.step.role if isinstance(command, RunStep) else ""


def _after(view: RunView, last: events.StepEnded) -> PipelineCommand:
    step = view.pipeline.step_of(last.role)
    if last.outcome is not Outcome.OK:
        # It parks the run once; when a person resumes, the step is run again.
        if view.is_resumed:
            return run_step(view, step)
        return RunParked(reason=str(last.outcome), detail=last.report_error, role=step.role)
    report = view.handed[step.role].report if last.report is not None else None
    if report is None:
        return _ask_again(view, step, last.report_error or "the reply has no report")
    # Without one the run would go on as if it had been approved.
    if step.on_rejected and report.status == "done" and report.verdict is None:
        return _ask_again(view, step, "this step judges, and the report has no verdict")
    return _after_report(view, step, report)


def _after_report(view: RunView, step: Step, report: Report) -> PipelineCommand:
    # Parked once: when a person says to go on, they have given what was lacking.
    if report.status == "blocked":
        if view.is_resumed:
            return run_step(view, step)
        return RunParked(reason="blocked", detail=report.summary, role=step.role)
    if report.status == "needs_input":
        return _ask_human(view, step, report)
    if step.on_rejected and has_rejected(report):
        return _send_back(view, step, report)
    return _go_on(view, step, report)


def _ask_again(view: RunView, step: Step, fault: str) -> PipelineCommand:
    # Once: a role that cannot write a report would be asked, and paid for, without end.
    if view.was_asked_again:
        return RunParked(reason="no_report", detail=fault, role=step.role)
    # Told by its fault: a role that is asked for the same again answers the same again.
    task = task_of_asking_again(view, step, fault)
    return RunStep(step=step, task=task, input_digest=input_digest(view, step), asked_again=True)


def _ask_human(view: RunView, step: Step, report: Report) -> PipelineCommand:
    new = _new_questions(view, step.role, report)
    if new:
        return QuestionsAsked(role=step.role, questions=new)
    # The first time the answers are told again; after that, somebody has to look.
    if view.asked_in_vain > ASKED_IN_VAIN_MAX:
        detail = "; ".join(asked.text for asked in report.questions)
        return RunParked(reason="asked_in_vain", detail=detail, role=step.role)
    return run_step(view, step)


def _new_questions(view: RunView, role: str, report: Report) -> tuple[events.Question, ...]:
    """Return the questions of a report that nobody was asked yet, each once, under ids of ours.

    The same text of the same role is the same question. A role's own id is kept where it is plain
    and free; two questions never share one.
    """
    known = {question.text for question in view.questions if question.role == role}
    taken = {question.question_id for question in view.questions}
    new: list[events.Question] = []
    for asked in report.questions:
        # By its text: roles number their questions anew in each report.
        if asked.text not in known:
            question_id = _free_id(asked.id, taken)
            new.append(events.Question(question_id=question_id, role=role, text=asked.text))
            known.add(asked.text)
            taken.add(question_id)
    return tuple(new)


def _free_id(wanted: str, taken: set[str]) -> str:
    # An id is typed by a person in a command, so that of a model's only a plain one is taken.
    plain = wanted if re.fullmatch(_PLAIN_ID, wanted) else "q"
    numbered = (f"{plain}.{number}" for number in itertools.count(2))
    return next(found for found in itertools.chain([plain], numbered) if found not in taken)


def _send_back(view: RunView, step: Step, report: Report) -> PipelineCommand:
    assert step.on_rejected is not None
    # This rejection is counted already, so as many as are allowed still go back.
    if view.rejections.get(step.role, 0) > step.rejections_max:
        evidence = "; ".join(report.verdict.evidence) if report.verdict else ""
        return RunParked(reason=REJECTED_TOO_OFTEN, detail=evidence, role=step.role)
    back = view.pipeline.step_of(step.on_rejected)
    return run_step(view, back)


def _go_on(view: RunView, step: Step, report: Report) -> PipelineCommand:
    index = view.pipeline.index_of(step.role) + 1
    if index < len(view.pipeline.steps):
        return run_step(view, view.pipeline.steps[index])
    verdict = report.verdict
    return RunEnded(
        status=verdict.result if verdict else "done", evidence=verdict.evidence if verdict else ()
    )


# --- what a step is told -----------------------------------------------------------------------


def run_step(view: RunView, step: Step) -> RunStep:
    """Return the command to ask a role, with both tellings of its task."""
    return RunStep(step=step, task=task_of(view, step), input_digest=input_digest(view, step))


# --- the queue of a transition --------------------------------------------------------------------


ANY_QUEUE = "upthread"
"""Of transitions whose place nobody named. Every worker looks there, and passes on what it must."""

_PLACE_DIGITS = 18
_HOST_DIGITS = 8


def queue_of(project_id: ProjectId, *, agent: str = "", host: str = "") -> str:
    """Return the queue of a project's transitions for an agent on a host.

    Empty: whatever agent, wherever it runs. Without its last piece the queue of a host is that of
    all of them: so jobs go on elsewhere when their host is gone (store/postgres/workers.py).
    """
    queue = f"{ANY_QUEUE}.{_place_digest(project_id, agent)[:_PLACE_DIGITS]}"
    return f"{queue}.{_place_digest(host)[:_HOST_DIGITS]}" if host else queue


def _place_digest(*words: str) -> str:
    return _digest("\0".join(words))


# --- verdicts -------------------------------------------------------------------------------------
# A verdict is bound to what its role was given (the specification and the reports it needs) and,
# where it judged work in the working tree, to that tree's content as it was when the verdict came.
# A tree that was judged and cannot be read now is not the tree that was judged.


class VerdictView(Struct, frozen=True, kw_only=True):
    """A verdict and whether what it judged is still the same.

    `tree_digest` is empty for a verdict on something else than the working tree. `in_doubt` are the
    ids of actions of the workstream that may have been done or not, which no judge could see.
    """

    outcome: str
    input_digest: str
    tree_digest: str
    is_current: bool
    evidence: tuple[str, ...]
    in_doubt: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """What it is worth now: an approval that no longer holds is never that word alone."""
        limits = (
            "" if self.is_current else ", of something that has changed since",
            ", while an action beyond this machine is in doubt" if self.in_doubt else "",
        )
        return "".join((self.outcome, *limits))


def holds(view: RunView, handed: Handed, *, tree_digest: str) -> bool:
    """Return whether a report was based on what is there now.

    `tree_digest` is the working tree's as it is, empty where it is not known.
    """
    step = view.pipeline.step_of(handed.role)
    has_same_input = handed.input_digest == input_digest(view, step)
    # Empty for a judgement of reports alone: whatever the tree is, it holds.
    return has_same_input and handed.tree_digest in {"", tree_digest}


def final_approval(view: RunView) -> Handed | None:
    """Return the judgement of a tree that a finished run rests on, None where there is none."""
    is_ended = view.ended is not None and view.ended.status == "approved"
    if not is_ended and not isinstance(next_command(view), RunEnded):
        return None
    handed = view.handed.get(view.pipeline.steps[-1].role)
    # A verdict on reports alone cannot be overtaken by an edit of the tree.
    return handed if handed is not None and handed.tree_digest else None


# --- what a step is told --------------------------------------------------------------------------


def task_of(view: RunView, step: Step) -> Task:
    """Return both tellings of a step's task: the news, and everything."""
    told = set(view.told.get(step.role, ()))
    # A role that asks what was answered did not take it in: its answers are news once more.
    is_deaf = view.asked_in_vain > 0
    sections = _sections(view, step)
    news = [one for one in sections if one.digest not in told or (is_deaf and one.heading)]
    return Task(
        text=f"# Task\n{step.task.strip()}\n\n{instructions(step.report_lines_max)}",
        news=_told(news),
        everything=_told(sections),
    )


def task_of_asking_again(view: RunView, step: Step, fault: str) -> Task:
    """Return the one request for a report that could be used.

    It is meant for the session that gave the faulty one; a new session must hear everything.
    """
    # The first task again, since `text` is now about the report alone.
    everything = f"{task_of(view, step).everything}\n\n# First task\n{step.task.strip()}"
    asked = f"Your report could not be used: {without_mentions(one_line(fault))}."
    text = f"# Task\n{asked}\n\n{instructions(step.report_lines_max)}"
    return Task(text=text, everything=everything)


def digests_told(view: RunView, role: str) -> tuple[str, ...]:
    """Return the digests of all that a role has been told once its step has ended."""
    step = view.pipeline.step_of(role)
    return tuple(section.digest for section in _sections(view, step))


def input_digest(view: RunView, step: Step) -> str:
    """Return the digest of the specification and the reports a step needs; verdicts bind to it."""
    # Without answers and rejections: a verdict is on what is built, not on what was said about it.
    pieces = [_digest(view.specification)]
    pieces += [
        f"{role} {view.handed[role].report.digest}" for role in step.needs if role in view.handed
    ]
    return _digest("\n".join(pieces))


def has_rejected(report: Report | None) -> bool:
    """Return whether a report's verdict is a rejection."""
    return bool(report and report.verdict and report.verdict.result == "rejected")


class _Section(Struct, frozen=True):
    """What a step may see: a section of its own, or an item of the section under `heading`."""

    text: str
    heading: str = ""

    @property
    def digest(self) -> str:
        return _digest(self.text)


def _sections(view: RunView, step: Step) -> list[_Section]:
    """Return all a step may see: specification, reports, answers to its questions."""
    sections = [_Section(f"# Specification\n{view.specification.strip()}")]
    sections += [
        _Section(render(role, view.handed[role].report))
        for role in _sources(view, step)
        if role in view.handed
    ]
    sections += [
        _Section(
            item(f"{q.question_id}: {one_line(q.text)} → {_answer(view, q.question_id)}"),
            heading="# Answers",
        )
        for q in view.questions
        if q.role == step.role and q.question_id in view.answers
    ]
    return sections


def _answer(view: RunView, question_id: str) -> str:
    return answer_told(view.answers[question_id], view.answered_by.get(question_id))


def answer_told(text: str, by: Actor | None) -> str:
    """Return an answer as roles are told it: what no person is known to have said, says so."""
    if by is None or by.kind == "person":
        return text
    return f"[from {by.in_words}, not a person's decision] {text}"


def _told(sections: Sequence[_Section]) -> str:
    whole = [section.text for section in sections if not section.heading]
    answers = [section for section in sections if section.heading]
    if answers:
        whole.append("\n".join([answers[0].heading, *(answer.text for answer in answers)]))
    return "\n\n".join(whole)


def _sources(view: RunView, step: Step) -> tuple[str, ...]:
    """The roles a step needs, and the one whose rejection sent the run back to it."""
    judges = tuple(
        other.role
        for other in view.pipeline.steps
        # Only while it stands: a judge that approved since has no more to say to the builder.
        if other.on_rejected == step.role and has_rejected(view.report(other.role))
    )
    return tuple(dict.fromkeys((*step.needs, *judges)))


def _digest(text: str) -> str:
    # An agent's text may hold half a character, which plain UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
