"""`upthread ls`: all workstreams, or the roles of one; with `--workers`, who carries out runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from upthread.client.project import Project
from upthread.client.stores import workers_of
from upthread.core.states import State
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output, Shape, members
from upthread.surfaces.cli.terminal.phrases import NEVER, one_line, since
from upthread.surfaces.cli.terminal.state_lines import (
    Row,
    write_doubt_line,
    write_roles,
    write_table,
)

if TYPE_CHECKING:
    from upthread.store.postgres import KnownWorker  # of an extra

WATCH_S = 1.0


@options.verb
@options.workstream_or_all
@options.flag("--watch", "is_watching", "Show each change, until Ctrl-C.")
@options.flag("--workers", "shows_workers", "The workers of a shared database instead.")
def main(call: Call, *, workstream: str | None, is_watching: bool, shows_workers: bool) -> None:
    """List the workstreams, or the roles of one."""
    if shows_workers:
        found = workers_of(call.settings().database)
        call.output.json({"workers": [_worker_shape(each) for each in found]})
        if found:
            head = ("HOST", "PID", "STATE", "RUNS", "VERSION", "AGENTS")
            write_table(call.output, head, [_worker_row(each) for each in found])
        else:
            call.output.remark("no worker is here; start one with: upthread worker")
        return

    async def use(project: Project) -> None:
        shown: object = None
        while True:
            views = (
                await project.workstreams()
                if workstream is None
                else (await project.show(workstream),)
            )
            # Only what changed is written again: in a log each read would else be a table.
            if views != shown:
                shown = views
                if call.output.is_json:
                    call.output.json({"workstreams": await shapes.workstreams(project, views)})
                else:
                    _write_list(call.output, views, is_one=bool(workstream), is_again=is_watching)
            if not is_watching:
                return
            await anyio.sleep(WATCH_S)

    call.with_project(use)


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
        # Such as that it waits for the network.
        if view.state == State.RUNNING and view.standing.detail:
            said = f"{view.workstream.workstream}: {view.standing.detail}"
            output.line(one_line(said, characters_max=LINE_CHARACTERS_MAX), "dim")
        write_doubt_line(output, view.workstream.workstream, view.in_doubt)


def _workstream_row(view: WorkstreamView) -> Row:
    roles = ", ".join(role.conversation.address.rpartition("/")[2] for role in view.roles)
    asked = str(len(view.open_questions)) if view.open_questions else ""
    turns = str(shapes.turns_in(view))
    known, standing = view.workstream, view.standing
    when, by = since(standing.since_ms), standing.agent or NEVER
    return (known.workstream, known.base_name, view.state, when, by, asked, turns, roles)


def _worker_shape(known: KnownWorker) -> Shape:
    said = known.registration
    return {
        "worker_id": known.worker_id,
        **members(said.process, "host pid"),
        "state": "silent" if known.is_silent else "living",
        "silent_ms": known.silent_ms,
        "runs": known.jobs,
        **members(said, "concurrency version"),
        "agents": [{"agent": name, "version": version} for name, version in said.agents.items()],
        "registered_at_ms": said.registered_at_ms,
    }


def _worker_row(known: KnownWorker) -> Row:
    said = known.registration
    return (
        said.process.host,
        str(said.process.pid),
        "silent" if known.is_silent else "living",
        f"{known.jobs}/{said.concurrency}",
        said.version,
        ", ".join(f"{name} {version}".strip() for name, version in said.agents.items()),
    )
