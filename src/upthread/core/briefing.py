"""The briefing: what a fresh session starts from when the conversation is older than it.

Deterministic Markdown from what is stored: the goal, the last reports, the last reply. No model
is asked, no transcript is copied. Every section has a cap; what is cut says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upthread.core.markdown import item, neutral
from upthread.core.reports import Report, without_report

REPLY_CHARACTERS_MAX = 4_000
GOAL_CHARACTERS_MAX = 4_000
LIST_CHARACTERS_MAX = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingInputs:
    """What a briefing is made of. `reports` are (role, report), oldest first."""

    goal: str
    reports: Sequence[tuple[str, Report]] = ()
    last_reply: str = ""


def build_briefing(inputs: BriefingInputs) -> str:
    """Return the briefing; empty when nothing is known."""
    decisions = [(role, text) for role, report in inputs.reports for text in report.decisions]
    findings = [(role, text) for role, report in inputs.reports for text in report.findings]
    reply = without_report(inputs.last_reply)
    sections = [
        ("Goal", neutral(_cut(inputs.goal.strip(), GOAL_CHARACTERS_MAX))),
        ("Decisions already made", _listed(decisions)),
        ("Findings already confirmed", _listed(findings)),
        ("Your last reply", neutral(_cut(reply, REPLY_CHARACTERS_MAX))),
    ]
    told = [f"## {heading}\n{body}" for heading, body in sections if body]
    if not told:
        return ""
    closing = "Do not repeat work already completed. Build on this briefing."
    return "\n\n".join(["# Briefing", *told, closing])


def _listed(said: Sequence[tuple[str, str]]) -> str:
    """Return (role, sentence) as a list, the newest ones whole when not all of it fits."""
    items: list[str] = []
    room = LIST_CHARACTERS_MAX
    for role, text in reversed(said):
        line = item(f"{_cut(text.strip(), LIST_CHARACTERS_MAX // 2)} ({role})")
        room -= len(line)
        if room < 0:
            items.append(f"- [… {len(said) - len(items)} older ones left out]")
            break
        items.append(line)
    return "\n".join(reversed(items))


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[:characters_max] + "\n[… cut]"
