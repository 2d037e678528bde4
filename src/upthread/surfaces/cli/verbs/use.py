"""`upthread use`: the workstream of a working tree, and its state."""

import json
import os
import shlex
from collections.abc import Sequence
from importlib import resources

import click

from upthread.boundary import programs
from upthread.boundary.own_files import home_directory
from upthread.client.agent_calls import InUse
from upthread.client.project import Project
from upthread.core.names import BECAUSE
from upthread.errors import UsageError
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.setup import claude_code, launcher
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import moment, standing_in_words

STANDINGS_MAX = 10
"""How many workstreams are shown; `ls` shows all."""


@options.verb
@click.argument(
    "workstream",
    metavar="[WS]",
    required=False,
    help="The workstream to work on; without it, show the present one.",
    shell_complete=options.workstreams,
)
@options.flag("--clear", "is_clearing", "Name none any more.")
@options.flag("--snippet", "is_snippet", "Print the setting for Claude Code's status line.")
def main(call: Call, *, workstream: str | None, is_clearing: bool, is_snippet: bool) -> None:
    """Name the workstream of this working tree, or show it with its state."""
    if is_snippet:
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
        return
    if workstream is None and not is_clearing:
        _show_state(call)
        return
    if workstream is not None and is_clearing:
        raise UsageError("say which workstream", hint="upthread use WS, or upthread use --clear")
    require_person("nobody changes the workstream", "use", workstream or "--clear")
    _show(call, call.with_project(lambda project: project.use(workstream)))


def _show_state(call: Call) -> None:
    async def look(project: Project) -> tuple[InUse, Sequence[WorkstreamView]]:
        views = await project.workstreams()
        return await project.in_use(), views

    found, views = call.with_project(look)
    _show(call, found)
    # The one in use, and those that need a person.
    shown = [
        view
        for view in views
        if view.workstream.workstream == found.workstream
        or view.standing.cure
        or view.in_doubt
        or view.open_questions
    ]
    for view in shown[:STANDINGS_MAX]:
        said = f"{view.state}: {standing_in_words(view.standing)}"
        call.output.row((f"  {view.workstream.workstream}: ", "dim"), said)
        if view.standing.command:
            call.output.command("    go on with ", view.standing.command)
    if len(shown) > STANDINGS_MAX:
        call.output.line(f"  and {len(shown) - STANDINGS_MAX} more: upthread ls", "dim")


def _show(call: Call, found: InUse) -> None:
    output = call.output
    output.json(
        {
            **members(found, "workstream because branch"),
            "last": found.last[0] if found.last else None,
            "last_at_ms": found.last[1] if found.last else None,
            "underway": found.underway,
        }
    )
    if found.workstream is None:
        last = f"; last: {found.last[0]}, {moment(found.last[1])}" if found.last else ""
        output.line(f"no workstream{last}")
        output.line("  upthread use NAME says which", "dim")
    else:
        output.row((found.workstream, "bold"), f": {BECAUSE[found.because]}")
    for address in found.underway:
        output.line(f"  {address}: running in an agent with upthread's hooks")
