"""`upthread` alone. It reads, offline, and changes nothing: neither an agent's store nor ours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from upthread import __version__
from upthread.agent_stores.outline import SESSIONS_MAX, Look, look
from upthread.agents.outlines import stored_outlines
from upthread.client.surroundings import Surroundings, surroundings
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.overview.lines import SHOWN_MAX, Lines
from upthread.surfaces.cli.overview.shape import overview as shaped
from upthread.surfaces.cli.overview.totals import KEPT_MAX, Totals
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import StatusLine

if TYPE_CHECKING:
    from upthread.agent_stores.outline import SessionOutline
    from upthread.client import Project
    from upthread.runtime.record.workstream_views import WorkstreamView

PATIENCE_S: Final = 0.5
"""Who waits longer than this is told what for."""

_EVERY: Final = 100


def overview(call: Call, *, is_all: bool) -> int:
    """Show which sessions there are, what needs somebody, what may be lost, and what to type."""
    around = surroundings(Path(), environment=os.environ, database=call.database)
    now_ms = time.time_ns() // 1_000_000
    redact = around.redactor.redact
    output = call.output
    lines = Lines(output, redact, now_ms=now_ms, most=None if is_all else SHOWN_MAX)
    views, command_of = _workstreams(call, around)
    if not output.is_json:  # what is ours is there at once, whatever the rest takes
        output.row((f"upthread {__version__}", "bold"), (f"  {one_line(around.top)}", "dim"))
        lines.write_record(views)
    seen = look()
    kept_max = SESSIONS_MAX if is_all else KEPT_MAX
    totals = Totals(around.is_here, now_ms=now_ms, kept_max=kept_max)
    for outline in _told_of(call, seen):
        totals.add(outline)
    if output.is_json:
        told = [shapes.workstream(view, command_of) for view in views]
        theirs = shaped(totals, seen, here=around.top, redact=redact, now_ms=now_ms)
        output.json({**theirs, "workstreams": told})
    else:
        lines.write_all(totals, seen)
    return 0


def _workstreams(
    call: Call, around: Surroundings
) -> tuple[tuple[WorkstreamView, ...], shapes.CommandOf]:
    # To open a record makes one: without any there is nothing of it to tell.
    if not around.has_record:
        return (), lambda _: None

    async def use(project: Project) -> tuple[tuple[WorkstreamView, ...], shapes.CommandOf]:
        return await project.workstreams(), project.command_of

    return call.with_project(use, is_reading=True)


def _told_of(call: Call, seen: Look) -> Iterator[SessionOutline]:
    """Yield the outlines; to who waits it is said how many there are so far."""
    status = StatusLine(call.output)
    began_s = time.monotonic()
    try:
        for number, outline in enumerate(stored_outlines(os.environ, seen)):
            if number % _EVERY == 0 and time.monotonic() - began_s > PATIENCE_S:
                status.show(f"reading sessions: {number}")
            yield outline
    finally:
        status.hide()
