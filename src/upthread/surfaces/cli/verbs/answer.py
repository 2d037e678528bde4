"""`upthread answer`: a person's part in a run."""

from collections.abc import Sequence

import click

from upthread.errors import UsageError
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.input import read_prompt
from upthread.surfaces.cli.terminal.phrases import command
from upthread.surfaces.cli.terminal.state_lines import next_commands, write_next


@options.verb
@options.workstream
@click.argument(
    "words",
    metavar="[QUESTION] TEXT",
    nargs=-1,
    required=True,
    help="The question's id if several are open.",
)
def main(call: Call, *, workstream: str, words: Sequence[str]) -> int:
    """Answer a question that a role asked."""
    if len(words) > 2:
        raise UsageError(
            "too many words", hint=f'{command("upthread", "answer", workstream)} QUESTION "TEXT"'
        )
    given = read_prompt(words[-1])
    question_id = words[0] if len(words) == 2 else None
    view = call.with_project(
        lambda project: project.answer(workstream, given, question_id=question_id)
    )
    output = call.output
    state = shapes.run_state(workstream, view, next_commands=next_commands(workstream, view))
    output.json(state)
    is_open = any(each.text == given for each in view.suggested.values())
    said = "suggested; a person decides" if is_open else "answered"
    output.line(f"{workstream}: {said}", "yellow" if is_open else "green")
    write_next(workstream, view, output)
    return shapes.run_exit_code(shapes.run_status(view))
