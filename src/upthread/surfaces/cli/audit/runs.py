"""A run as Markdown: its specification and what happened, one line an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from upthread.core import events
from upthread.core.actors import answerer_in_words
from upthread.core.commands import RecordAct
from upthread.core.runs.stops import stop_in_words
from upthread.core.states import Standing
from upthread.core.text import visible_line
from upthread.runtime.record.audit import AuditedRun
from upthread.surfaces.cli.shapes import run_status
from upthread.surfaces.cli.terminal.neutral import code, fenced
from upthread.surfaces.cli.terminal.phrases import spaced
from upthread.surfaces.cli.terminal.times import moment


def run_lines(audited: AuditedRun) -> Iterator[str]:
    """Yield the section of one run."""
    run = audited.run
    yield ""
    yield f"## Run {audited.number}: {_became(audited)}"
    yield ""
    if audited.standing:
        yield f"It is {standing_in_markdown(audited.standing)}."
        yield ""
    yield f"Run {code(run.run_id)}, started {moment(run.opened_at_ms)}, on this specification:"
    yield ""
    yield fenced(audited.view.specification, "markdown")
    yield ""
    for number, event in enumerate(audited.events, start=1):
        yield f"{number}. {_event_line(event)}"
    yield from act_lines(audited.acts)


def standing_in_markdown(standing: Standing) -> str:
    """Return a state, why, and since when; what a stranger said of it is in a code span."""
    said = f"{standing.state}: {standing.reason}"
    if standing.until_ms is not None:
        said += f" until {moment(standing.until_ms)}"
    if standing.detail:
        said += f", {code(standing.detail)}"
    return said + (f"; since {moment(standing.since_ms)}" if standing.since_ms is not None else "")


def _became(audited: AuditedRun) -> str:
    return audited.standing.state if audited.standing else spaced(run_status(audited.view))


def stopped(reason: str, detail: str) -> str:
    """Return why something stopped, and in a code span what a stranger said of it."""
    stop = stop_in_words(reason, detail)
    return visible_line(stop.said) + (f": {code(stop.detail)}" if stop.detail else "")


def act_lines(acts: Sequence[RecordAct]) -> Iterator[str]:
    """Yield who did what, one line an act; nothing where nobody did anything."""
    if acts:
        yield ""
    for act in acts:
        about = f" {code(act.detail)}" if act.detail else ""
        yield f"- {moment(act.recorded_at_ms)}: {code(act.by_user)} {spaced(act.what)}{about}"


def _event_line(event: events.RunEvent) -> str:
    match event:
        case events.RunStarted(iteration=iteration):
            line = f"the run began, iteration {iteration}"
        case events.StepStarted(role=role, turn_id=turn_id, asked_again=asked_again):
            again = ", asked again for its report" if asked_again else ""
            line = f"{code(role)} was asked{again} (turn {code(turn_id)})"
        case events.StepEnded():
            line = _step_ended(event)
        case events.QuestionsAsked(role=role, questions=questions):
            asked = "; ".join(f"{code(q.question_id)}: {code(q.text)}" for q in questions)
            line = f"{code(role)} asked a human: {asked}"
        case events.QuestionAnswered(question_id=question_id, text=text, answered_by=by):
            line = f"{answerer_in_words(by)} answered {code(question_id)}: {code(text)}"
        case events.AnswerSuggested(question_id=question_id, text=text, by=by):
            line = f"{by.in_words} suggested an answer to {code(question_id)}: {code(text)}"
        case events.RunParked(reason=reason, detail=detail):
            line = f"the run was parked, {stopped(reason, detail)}"
        case events.RunResumed(because=because):
            line = f"it goes on: {code(because)}"
        case events.RunEnded(status=status):
            line = f"the run ended: {code(spaced(status))}"
        case _:
            assert_never(event)
    return line


def _step_ended(event: events.StepEnded) -> str:
    said = f"{code(event.role)} ended, {stopped(event.outcome, event.report_error)}"
    report = event.report
    if not isinstance(report, Mapping):
        return said
    said += f", report {code(spaced(str(report.get('status', ''))))}"
    verdict = report.get("verdict")
    if isinstance(verdict, Mapping):
        said += f", verdict {code(str(verdict.get('result', '')))}"
    return said
