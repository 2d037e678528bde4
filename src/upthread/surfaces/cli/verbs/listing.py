"""`ls`: all workstreams, or the roles of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from upthread.client.project import Project
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.table import write_table
from upthread.surfaces.cli.terminal.times import NEVER, since
from upthread.surfaces.cli.verbs.effects import write_doubt_line

WATCH_S: Final = 1.0


def list_workstreams(call: Call, workstream: str | None, *, is_watching: bool = False) -> int:
    """List the project's workstreams, or the roles of one; watching, again whenever they change."""

    async def use(project: Project) -> None:
        shown: object = None
        while True:
            if workstream is not None:
                views: tuple[WorkstreamView, ...] = (await project.show(workstream),)
            else:
                views = await project.workstreams()
            # Only what changed is written again: in a log each look would else be a table.
            if views != shown:
                shown = views
                if call.output.is_json:
                    commands = await project.resume_commands(shapes.roles_of(views))
                    listed = [shapes.workstream(view, commands) for view in views]
                    call.output.json({"workstreams": listed})
                else:
                    is_one = workstream is not None
                    _write_list(call.output, views, is_one=is_one, is_again=is_watching)
            if not is_watching:
                return
            from anyio import sleep

            await sleep(WATCH_S)

    call.with_project(use)
    return 0


def _write_list(
    output: Output, views: Sequence[WorkstreamView], *, is_one: bool, is_again: bool
) -> None:
    if is_again and output.is_live:
        output.clear()
    if is_one:
        write_roles(output, views[0])
    elif views:
        head = ("WORKSTREAM", "NAME", "STATE", "SINCE", "AGENT", "OPEN", "TURNS", "ROLES")
        write_table(output, head, [_workstream_row(view) for view in views])
    else:
        output.note('nothing here yet; begin with: upthread tell spec-42/planner "…"')
    for view in views:
        if view.in_doubt:
            write_doubt_line(output, view.workstream.workstream, view.in_doubt)


def _workstream_row(view: WorkstreamView) -> tuple[str, ...]:
    roles = ", ".join(role.conversation.key.address.rpartition("/")[2] for role in view.roles)
    asked = str(len(view.open_questions)) if view.open_questions else ""
    turns = str(sum(role.turns for role in view.roles))
    known, standing = view.workstream, view.standing
    when, by = since(standing.since_ms), standing.agent or NEVER
    return (known.workstream, known.base_name, view.state, when, by, asked, turns, roles)


def write_roles(output: Output, view: WorkstreamView) -> None:
    """Write how each role of a workstream stands."""
    head = ("ADDRESS", "NAME", "STATE", "SINCE", "TURNS", "LAST TURN", "AGENT", "SESSION")
    rows = [
        (
            role.conversation.key.address,
            role.conversation.instance_name,
            role.state,
            since(role.standing.since_ms),
            str(role.turns),
            role.ending.how,
            role.link.agent if role.link else "—",
            role.link.upstream_session_id if role.link else "—",
        )
        for role in view.roles
    ]
    write_table(output, head, rows)
