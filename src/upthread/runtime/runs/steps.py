"""Steps: what the end of a turn is to the run it belongs to. Values in, values out."""

from __future__ import annotations

import msgspec

from upthread.core.events import StepEnded, TurnEnded
from upthread.core.roles.reports import MalformedReportError, Report, check_length, read_report
from upthread.core.runs.pipeline import RunView, Step
from upthread.core.types import JsonValue, Outcome, TurnId, ready


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


def digest_of(view: RunView, role: str) -> str | None:
    """Return the digest of a role's newest report, None before the first."""
    report = view.report(role)
    return report.digest if report else None
