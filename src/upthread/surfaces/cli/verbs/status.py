"""`upthread status`: the workstream of a working tree, and its state."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Final

import click

from upthread.boundary import programs
from upthread.boundary.own_home import home_directory
from upthread.client.agent_calls import InUse
from upthread.client.project import Project
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.setup import claude_code, launcher
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import standing_in_words
from upthread.surfaces.cli.verbs.use import show_in_use

STANDINGS_MAX: Final = 10
"""How many workstreams `status` shows; `ls` shows all."""


@options.verb
@click.option(
    "--snippet",
    "is_snippet",
    is_flag=True,
    help="Print the setting for Claude Code's status line.",
)
def main(call: Call, *, is_snippet: bool) -> int:
    """Show the workstream of this working tree, why it is this one, and its state."""
    if is_snippet:
        return _print_snippet(call)

    async def look(project: Project) -> tuple[InUse, Sequence[WorkstreamView]]:
        views = await project.workstreams()
        return await project.in_use(), views

    found, views = call.with_project(look)
    code = show_in_use(call, found)
    if not call.output.is_json:
        _show_standing(call.output, [view for view in views if _is_told(view, found.workstream)])
    return code


def _print_snippet(call: Call) -> int:
    home = home_directory(os.environ).absolute()
    # The launcher outlives this environment; without set-up there is none to name.
    if launcher.path_of(home).is_file():
        setting = claude_code.status_line(home)
    else:
        program = str(resources.files("upthread").joinpath("surfaces/status_line.py"))
        words = shlex.join(programs.own_file(program, str(home), *launcher.libraries()))
        setting = {"type": "command", "command": words}
    shown = {claude_code.STATUS_LINE: setting}
    if call.output.is_json:
        call.output.json({"snippet": shown})
    else:
        call.output.document(json.dumps(shown, indent=2) + "\n")
    return 0


def _is_told(view: WorkstreamView, used: str | None) -> bool:
    """Of the one in use it is told how it stands, of others only where a person is needed."""
    is_used = view.workstream.workstream == used
    return is_used or bool(view.standing.cure or view.in_doubt or view.open_questions)


def _show_standing(output: Output, views: Sequence[WorkstreamView]) -> None:
    for view in views[:STANDINGS_MAX]:
        said = f"{view.state}: {standing_in_words(view.standing)}"
        output.row((f"  {view.workstream.workstream}: ", "dim"), (said, ""))
        if view.standing.command:
            output.command("    go on with ", view.standing.command)
    if len(views) > STANDINGS_MAX:
        output.line(f"  and {len(views) - STANDINGS_MAX} more: upthread ls", "dim")
