"""Steps: what the end of a turn is to the run it belongs to. Values in, values out."""

from __future__ import annotations

import msgspec

from upthread.core.events import StepEnded, TurnEnded
from upthread.core.pipeline import RunView
from upthread.core.reports import MalformedReportError, read_report
from upthread.core.types import JsonValue, Outcome, TurnId


def step_ended(
    role: str, turn_id: TurnId, ended: TurnEnded, reply: str, input_digest: str
) -> StepEnded:
    """Return the end of a step from the reply of its turn, with what is wrong with its report."""
    report: JsonValue = None
    fault = ended.detail
    if ended.outcome is Outcome.OK:
        try:
            report, fault = msgspec.to_builtins(read_report(reply)), ""
        except MalformedReportError as error:
            fault = str(error)
    return StepEnded(
        role=role,
        turn_id=turn_id,
        outcome=ended.outcome,
        report=report,
        report_error=fault,
        input_digest=input_digest,
    )


def step_of(role: str, turn_id: TurnId, ended: TurnEnded, input_digest: str) -> StepEnded:
    """Return the end of a step from the end of its turn, where the report is kept as data."""
    is_reported = ended.outcome is Outcome.OK and ended.report is not None
    return StepEnded(
        role=role,
        turn_id=turn_id,
        outcome=ended.outcome,
        report=ended.report if is_reported else None,
        report_error="" if is_reported else ended.detail or "the reply has no report",
        input_digest=input_digest,
    )


def digest_of(view: RunView, role: str) -> str | None:
    """Return the digest of a role's newest report, None before the first."""
    report = view.report(role)
    return report.digest if report else None
