"""Questions: what a role has asked a person, and how it is answered."""

from __future__ import annotations

from upthread.core.events import AnswerSuggested, Question
from upthread.core.states import answer_command
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output


def write_question(
    output: Output, workstream: str, question: Question, suggested: AnswerSuggested | None
) -> None:
    """Write a question, what a model would answer, and the command that answers it.

    What a role or a model said in more than a line is behind a bar.
    """
    output.line()
    _write_said(output, f"  {one_line(question.question_id)}", question.text)
    if suggested is not None:
        _write_said(output, f"    suggested by {suggested.by.in_words}:", suggested.text)
    output.command("    ", answer_command(workstream, question.question_id))


def _write_said(output: Output, head: str, text: str) -> None:
    first, _, more = text.strip("\n").partition("\n")
    if len(first) > LINE_CHARACTERS_MAX:
        first, more = "", text
    output.row((head, "bold"), (f"  {one_line(first)}", ""))
    if more:
        output.quote(more.strip("\n"), "    ")
