"""`upthread use`: the workstream of a working tree."""

from __future__ import annotations

import click

from upthread.client.agent_calls import InUse
from upthread.client.project import Project
from upthread.core.workstreams import BECAUSE
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.times import moment


@options.verb
@click.argument(
    "workstream",
    metavar="[WS]",
    required=False,
    help="The workstream.",
    shell_complete=options.workstreams,
)
@click.option("--clear", "is_clearing", is_flag=True, help="Name none any more.")
def main(call: Call, *, workstream: str | None, is_clearing: bool) -> int:
    """Name the workstream of this working tree."""
    if is_clearing == (workstream is not None):
        raise UsageError("say which workstream", hint="upthread use WS, or upthread use --clear")
    require_person("nobody changes the workstream", "use", workstream or "--clear")

    async def change(project: Project) -> InUse:
        return await project.use(workstream)

    return show_in_use(call, call.with_project(change))


def show_in_use(call: Call, found: InUse) -> int:
    """Show the workstream of the working tree, and why it is this one."""
    output = call.output
    if output.is_json:
        output.json(
            {
                "workstream": found.workstream,
                "because": found.because,
                "branch": found.branch,
                "last": found.last[0] if found.last else None,
                "last_at_ms": found.last[1] if found.last else None,
                "underway": found.underway,
            }
        )
        return 0
    if found.workstream is None:
        last = f"; last: {found.last[0]}, {moment(found.last[1])}" if found.last else ""
        output.line(f"no workstream{last}")
        output.line("  upthread use NAME says which", "dim")
    else:
        output.row((found.workstream, "bold"), (f": {BECAUSE[found.because]}", ""))
    for address in found.underway:
        output.line(f"  {address}: running in an agent with upthread's hooks")
    return 0
