"""`upthread migrate`: upgrades a shared schema, or moves a record to another database.

Nothing else ever changes a shared schema. A move shows what it would do and asks; it says that it
is done only when all that arrived was proved.
"""

import time
from pathlib import Path

import click

from upthread.client.store_move import MovePlan, MoveRequest, make_move, plan_move, resolved
from upthread.client.stores import migrate_store
from upthread.errors import UsageError
from upthread.store.kinds import KINDS, PARTS
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.output import Output, StatusLine
from upthread.surfaces.cli.terminal.phrases import counted

TOLD_EVERY_S = 5.0
"""The pause between two lines of progress, where no status line can be shown."""

_SHOWN = (
    (("workstream",), "workstream"),
    (("conversation",), "conversation"),
    (("turn",), "turn"),
    (PARTS, "message record"),
    (("run",), "run"),
)
"""Which kinds of entries are counted together, and as what."""


@options.verb
@click.option(
    "--from", "source", metavar="DB", help="Move the record from here: sqlite, or a --db."
)
@click.option("--to", "target", metavar="DB", help="Move the record to here.")
@options.flag("--all", "is_all", "Move every project, not only this one.")
@options.yes
@options.dry_run
def main(call: Call, *, source: str | None, target: str | None, is_all: bool) -> None:
    """Create or upgrade the schema of a PostgreSQL database, or move a record to another one."""
    if source is None and target is None:
        made = migrate_store(call.settings().database)
        call.output.json(made._asdict())
        if made.schema_before == made.schema_after:
            call.output.line(f"{made.database}: schema {made.schema_after}, nothing to do")
        else:
            was = f"schema {made.schema_before} → {made.schema_after}"
            call.output.line(f"{made.database}: {was}", "green")
        return
    if not call.is_dry_run:
        require_person("nobody moves the record", "migrate", "--help")
    settings = call.settings()
    if source is None or target is None:
        raise UsageError(
            "a move needs both ends", hint="upthread migrate --from sqlite --to postgres://…"
        )
    request = MoveRequest(
        settings=settings,
        source=resolved(settings, source),
        target=resolved(settings, target),
        directory=None if is_all else Path.cwd(),
    )
    plan = plan_move(request)
    _show(call.output, plan)
    if call.is_dry_run:
        _tell(call.output, plan, is_done=False)
        return
    call.confirm(f"Move to {plan.target}?", declined="nothing was moved")
    progress = _Progress(call.output, sum(project.left for project in plan.projects))
    try:
        done = make_move(request, on_entries=progress.add)
    # Also after an interruption, otherwise the status line stays on the screen.
    finally:
        progress.status.hide()
    _tell(call.output, done, is_done=True)


class _Progress:
    """Shows how many entries were written: on the status line, or on a line from time to time."""

    def __init__(self, output: Output, total: int) -> None:
        self._output = output
        self.status = StatusLine(output)
        self._total = total
        self._done = 0
        self._told_at_s = time.monotonic()

    def add(self, rows: int) -> None:
        self._done += rows
        text = f"moved {self._done} of {counted(self._total, 'record')}"
        self.status.show(text)
        if not self._output.is_live and time.monotonic() - self._told_at_s > TOLD_EVERY_S:
            self._told_at_s = time.monotonic()
            self._output.note(text)


def _show(output: Output, plan: MovePlan) -> None:
    output.line(f"from {plan.source}")
    output.line(f"to   {plan.target}")
    for project in plan.projects:
        path = project.identities[-1].path if project.identities else project.project_id
        rows = [
            counted(sum(project.entries[kind] for kind in kinds), word) for kinds, word in _SHOWN
        ]
        output.line(f"  {path}: {', '.join(rows)}")
        if project.there:
            output.line(
                f"    {project.there} of {counted(project.entries.total(), 'record')} there already"
            )
    if plan.others:
        output.line(f"  {counted(plan.others, 'other project')}: not moved without --all", "dim")
    if plan.key == "differs":
        output.remark(
            "the target has another key: secrets that are redacted from now on get other digests "
            "than before",
            "yellow",
        )


def _tell(output: Output, plan: MovePlan, *, is_done: bool) -> None:
    output.json(
        {
            "from": plan.source,
            "to": plan.target,
            "is_moved": is_done,
            "projects": [
                {
                    "project_id": each.project_id,
                    "paths": [identity.path for identity in each.identities],
                    "entries": {kind: each.entries[kind] for kind in KINDS},
                    "entries_there_before": each.there,
                }
                for each in plan.projects
            ],
            "projects_left": plan.others,
            "redaction_key": plan.key,
        }
    )
    if not is_done:
        return
    rows = sum(each.entries.total() for each in plan.projects)
    chains = sum(len(each.streams) for each in plan.projects)
    output.line(
        f"moved and proved: {counted(rows, 'record')} compared, "
        f"{counted(chains, 'hash chain')} computed again",
        "green",
    )
    output.line(f"now say where it is: export UPTHREAD_DB={plan.target}")
    output.line(f"{plan.source} was only read: nothing keeps the two the same from here on")
