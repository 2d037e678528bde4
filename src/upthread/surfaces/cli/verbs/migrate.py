"""`migrate`: the schema of a shared database, made or moved on; and a record moved to another one.

Nothing else ever changes a shared schema. A move shows what it would do and asks; it says that it
is done only when all that arrived was proved.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from upthread.client.store_move import MovePlan, MoveRequest, make_move, plan_move, resolved
from upthread.client.stores import migrate_store
from upthread.config import Settings, load_settings
from upthread.errors import UsageError
from upthread.runtime.record.store_copy import ToMove
from upthread.store.entries import PARTS
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.input import DECLINED, confirm
from upthread.surfaces.cli.terminal.output import Output, StatusLine
from upthread.surfaces.cli.terminal.phrases import counted

TOLD_EVERY_S: Final = 5.0
"""How often a move tells how far it is, where no status line can be shown."""

_SHOWN: Final = (
    (("workstream",), "workstream"),
    (("conversation",), "conversation"),
    (("turn",), "turn"),
    (PARTS, "message record"),
    (("run",), "run"),
)
"""Which kinds of entries are counted together, and as what."""


class Asked(Struct, frozen=True, kw_only=True):
    """A move as it was typed."""

    source: str | None
    target: str | None
    is_all: bool


def migrate(call: Call) -> int:
    """Bring the database of `--db` or UPTHREAD_DB up to this version's schema."""
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    done = migrate_store(settings.database)
    if call.output.is_json:
        call.output.json(done._asdict())
    elif done.schema_before == done.schema_after:
        call.output.line(f"{done.database}: schema {done.schema_after}, nothing to do")
    else:
        was = f"schema {done.schema_before} → {done.schema_after}"
        call.output.line(f"{done.database}: {was}", "green")
    return 0


def move(call: Call, asked: Asked, *, is_yes: bool, is_dry_run: bool) -> int:
    """Move the record of this project, or of all, from one database to another."""
    if not is_dry_run:
        require_person("nobody moves the record", "migrate", "--help")
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    request = _request(settings, asked)
    plan = plan_move(settings, request)
    if not call.output.is_json:
        _show(call.output, plan)
    if is_dry_run:
        return _tell(call.output, plan, is_done=False)
    if not is_yes and not confirm(
        call.output, f"Move to {plan.target}?", declined="nothing was moved"
    ):
        return DECLINED
    progress = _Progress(call.output, sum(project.left for project in plan.projects))
    try:
        done = make_move(settings, request, on_entries=progress.add)
    # Also where it was stopped: the status line would stay on the screen.
    finally:
        progress.end()
    return _tell(call.output, done, is_done=True)


def _request(settings: Settings, asked: Asked) -> MoveRequest:
    if asked.source is None or asked.target is None:
        raise UsageError(
            "a move needs both ends", hint="upthread migrate --from sqlite --to postgres://…"
        )
    return MoveRequest(
        source=resolved(settings, asked.source),
        target=resolved(settings, asked.target),
        directory=None if asked.is_all else Path.cwd(),
    )


class _Progress:
    """Tells how many entries were written: on the status line, else now and then on a line."""

    def __init__(self, output: Output, total: int) -> None:
        self._output = output
        self._status = StatusLine(output)
        self._total = total
        self._done = 0
        self._told_at_s = time.monotonic()

    def add(self, rows: int) -> None:
        self._done += rows
        text = f"moved {self._done} of {counted(self._total, 'record')}"
        self._status.show(text)
        if not self._output.is_live and time.monotonic() - self._told_at_s > TOLD_EVERY_S:
            self._told_at_s = time.monotonic()
            self._output.note(text)

    def end(self) -> None:
        self._status.hide()


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
        output.note(
            "the target has another key: secrets that are redacted from now on get other digests "
            "than before",
            "yellow",
        )


def _tell(output: Output, plan: MovePlan, *, is_done: bool) -> int:
    if output.is_json:
        output.json(_shape(plan, is_done=is_done))
        return 0
    if not is_done:
        return 0
    rows = sum(each.entries.total() for each in plan.projects)
    chains = sum(len(each.streams) for each in plan.projects)
    output.line(
        f"moved and proved: {counted(rows, 'record')} compared, "
        f"{counted(chains, 'hash chain')} computed again",
        "green",
    )
    output.line(f"now say where it is: export UPTHREAD_DB={plan.target}")
    output.line(f"{plan.source} was only read: nothing keeps the two the same from here on")
    return 0


def _shape(plan: MovePlan, *, is_done: bool) -> dict[str, object]:
    return {
        "from": plan.source,
        "to": plan.target,
        "is_moved": is_done,
        "projects": [_project_shape(each) for each in plan.projects],
        "projects_left": plan.others,
        "redaction_key": plan.key,
    }


def _project_shape(project: ToMove) -> dict[str, object]:
    return {
        "project_id": project.project_id,
        "paths": [each.path for each in project.identities],
        "entries": dict(project.entries),
        "entries_there_before": project.there,
    }
