"""What an answer to a run's open question becomes, by whom it was given."""

from __future__ import annotations

from upthread.core.events import AnswerSuggested, QuestionAnswered
from upthread.core.names import shown
from upthread.core.runs.run_view import RunView
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.runs.live_run import Answer

SUGGESTIONS_MAX = 32
"""How many answers models may suggest in a run; a person has seen none of them yet."""


def answered_by(
    view: RunView, workstream: str, answer: Answer
) -> QuestionAnswered | AnswerSuggested:
    """Return what is recorded of an answer: of a model's that does not count, a suggestion.

    Raises NotFoundError without an open question, UsageError where it is unclear which is meant or
    where models have suggested enough.
    """
    question = _open_question(view, workstream, answer.question_id)
    if not answer.is_suggestion:
        return QuestionAnswered(question_id=question, text=answer.text, answered_by=answer.by)
    if view.suggestions >= SUGGESTIONS_MAX:
        raise UsageError(
            f"{view.suggestions} answers were suggested to {shown(workstream)}, and none was taken",
            hint="a person answers: upthread answer WS QUESTION TEXT",
        )
    return AnswerSuggested(question_id=question, text=answer.text, by=answer.by)


def _open_question(view: RunView, workstream: str, question_id: str | None) -> str:
    open_ids = [question.question_id for question in view.open_questions]
    if question_id is None and len(open_ids) == 1:
        return open_ids[0]
    if question_id in open_ids:
        return question_id
    if not open_ids:
        raise NotFoundError(f"{shown(workstream)} has no open question", workstream=workstream)
    listed = ", ".join(open_ids)
    problem = "which question?" if question_id is None else f"no open question {shown(question_id)}"
    raise UsageError(f"{problem} open: {listed}", hint="upthread answer WS QUESTION TEXT")
