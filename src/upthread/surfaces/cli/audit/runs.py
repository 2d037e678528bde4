"""A run as Markdown: its specification and what happened, one line an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from upthread.core.actors import answerer_in_words
from upthread.core.commands import RecordAct
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
)
from upthread.runtime.audit import AuditedRun
from upthread.surfaces.cli.neutral import code, fenced
from upthread.surfaces.cli.shapes import run_status
from upthread.surfaces.cli.words import moment


def run_lines(audited: AuditedRun) -> Iterator[str]:
    """Yield the section of one run."""
    run = audited.run
    yield ""
    yield f"## Run {audited.number}: {run_status(audited.view).replace('_', ' ')}"
    yield ""
    yield f"Run {code(run.run_id)}, started {moment(run.opened_at_ms)}, on this specification:"
    yield ""
    yield fenced(audited.view.specification, "markdown")
    yield ""
    for number, event in enumerate(audited.events, start=1):
        yield f"{number}. {_event_line(event)}"
    yield from act_lines(audited.acts)


def act_lines(acts: Sequence[RecordAct]) -> Iterator[str]:
    """Yield who did what, one line an act; nothing where nobody did anything."""
    if acts:
        yield ""
    for act in acts:
        about = f" {code(act.detail)}" if act.detail else ""
        what = act.what.replace("_", " ")
        yield f"- {moment(act.recorded_at_ms)}: {code(act.by_user)} {what}{about}"


def _event_line(event: RunEvent) -> str:
    match event:
        case RunStarted(iteration=iteration):
            line = f"the run began, iteration {iteration}"
        case StepStarted(role=role, turn_id=turn_id, asked_again=asked_again):
            again = ", asked again for its report" if asked_again else ""
            line = f"{code(role)} was asked{again} (turn {code(turn_id)})"
        case StepEnded():
            line = _step_ended(event)
        case QuestionsAsked(role=role, questions=questions):
            asked = "; ".join(f"{code(q.question_id)}: {code(q.text)}" for q in questions)
            line = f"{code(role)} asked a human: {asked}"
        case QuestionAnswered(question_id=question_id, text=text, answered_by=by):
            line = f"{answerer_in_words(by)} answered {code(question_id)}: {code(text)}"
        case AnswerSuggested(question_id=question_id, text=text, by=by):
            line = f"{by.in_words} suggested an answer to {code(question_id)}: {code(text)}"
        case RunParked(reason=reason, detail=detail):
            line = f"the run was parked, {code(reason)}: {code(detail)}"
        case RunResumed(because=because):
            line = f"it goes on: {code(because)}"
        case RunEnded(status=status):
            line = f"the run ended: {code(status)}"
        case _:
            assert_never(event)
    return line


def _step_ended(event: StepEnded) -> str:
    said = f"{code(event.role)} ended: {event.outcome}"
    if event.report_error:
        said += f", {code(event.report_error)}"
    report = event.report
    if not isinstance(report, Mapping):
        return said
    said += f", report {code(str(report.get('status', '')))}"
    verdict = report.get("verdict")
    if isinstance(verdict, Mapping):
        said += f", verdict {code(str(verdict.get('result', '')))}"
    return said
