"""The briefing: what a fresh session starts from when the conversation is older than it.

Deterministic Markdown from what is stored: the goal, the last reports, the last reply. No model
is asked, no transcript is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upthread.core.reports import Report, without_report

REPLY_CHARACTERS_MAX = 4_000
GOAL_CHARACTERS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingInputs:
    """What a briefing is made of. `reports` are (role, report), oldest first."""

    goal: str
    reports: Sequence[tuple[str, Report]] = ()
    last_reply: str = ""


def build_briefing(inputs: BriefingInputs) -> str:
    """Return the briefing; empty when nothing is known."""
    decisions = [
        f"- {text} ({role})" for role, report in inputs.reports for text in report.decisions
    ]
    findings = [f"- {text} ({role})" for role, report in inputs.reports for text in report.findings]
    reply = without_report(inputs.last_reply)
    sections = [
        ("Goal", _cut(inputs.goal.strip(), GOAL_CHARACTERS_MAX)),
        ("Decisions already made", "\n".join(decisions)),
        ("Findings already confirmed", "\n".join(findings)),
        ("Your last reply", _cut(reply, REPLY_CHARACTERS_MAX)),
    ]
    told = [f"## {heading}\n{body}" for heading, body in sections if body]
    if not told:
        return ""
    closing = "Do not repeat work already completed. Build on this briefing."
    return "\n\n".join(["# Briefing", *told, closing])


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[:characters_max] + "\n[… cut]"
