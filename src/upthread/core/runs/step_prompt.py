"""What a step of a run is told, and the digests that say whether it changed.

A step sees the specification, the reports it declares it needs, the verdict that sent the run back
to it, and the answers to its own questions; nothing else. A role that heard a section before, in
this run or an earlier one, is told it again only by a new session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from upthread.core.actors import Actor
from upthread.core.roles.reports import Report, instructions, render
from upthread.core.runs.run_view import RunView, Step
from upthread.core.text import item, one_line, without_mentions
from upthread.core.turns.prompt import Task


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
    step = view.pipeline.steps[view.pipeline.index_of(role)]
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
