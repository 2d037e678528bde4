"""The report: how a role hands its work back, as prose and as a fenced `upthread` block. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

SUMMARY_LINES_MAX: Final = 200
BROKEN_BLOCK: Final = '```upthread\n{"status": "done", "summary": \n```'


class Verdict(NamedTuple):
    """A judgement: `result` is approved or rejected."""

    result: str
    evidence: Sequence[str]


class Report(NamedTuple):
    """What a role hands back. `questions` are (id, text)."""

    status: str
    summary: str
    questions: Sequence[tuple[str, str]] = ()
    decisions: Sequence[str] = ()
    findings: Sequence[str] = ()
    verdict: Verdict | None = None


def prose_of(report: Report) -> str:
    """Return what a person reads of a report."""
    lines = [report.summary, *(f"- {name}: {text}" for name, text in report.questions)]
    if report.verdict:
        lines += [f"Verdict: {report.verdict.result}"]
        lines += [f"- {evidence}" for evidence in report.verdict.evidence]
    return "\n".join(lines)


def block_of(report: Report) -> str:
    """Return the report as the fenced block that ends a reply."""
    said = {
        "status": report.status,
        "summary": "\n".join(report.summary.splitlines()[:SUMMARY_LINES_MAX]),
        "questions": [{"id": name, "text": text} for name, text in report.questions],
        "decisions": report.decisions,
        "findings": report.findings,
        "verdict": report.verdict._asdict() if report.verdict else None,
    }
    return f"```upthread\n{json.dumps(said, ensure_ascii=False)}\n```"
