"""`upthread` alone. It reads, offline, and changes nothing: neither an agent's store nor ours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from upthread import __version__
from upthread.agent_stores.outline import SESSIONS_MAX, Look, SessionOutline, look
from upthread.agents.outlines import stored_outlines
from upthread.client.project import Project
from upthread.client.surroundings import Surroundings
from upthread.errors import StoreError
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.overview.lines import SHOWN_MAX, Lines
from upthread.surfaces.cli.overview.shape import overview as shaped
from upthread.surfaces.cli.overview.totals import KEPT_MAX, Totals
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import StatusLine

PATIENCE_S: Final = 0.5
"""Who waits longer than this is told what for."""

_EVERY: Final = 100


def overview(call: Call, *, is_all: bool) -> int:
    """Show which sessions there are, what needs somebody, what may be lost, and what to type."""
    around = call.surroundings()
    now_ms = time.time_ns() // 1_000_000

    def redact(text: str) -> str:
        return around.redactor.redact(text)

    output = call.output
    lines = Lines(output, redact, now_ms=now_ms, most=None if is_all else SHOWN_MAX)
    record = _record(call, around)
    views = record.views
    held = lines.held = record.addresses
    if not output.is_json:  # what is ours is there at once, whatever the rest takes
        output.row((f"upthread {__version__}", "bold"), (f"  {one_line(around.top)}", "dim"))
        if record.fault:
            output.note(f"upthread's own record is not told: {record.fault}", "yellow")
        lines.write_record(views)
    seen = look()
    kept_max = SESSIONS_MAX if is_all else KEPT_MAX
    totals = Totals(around.is_here, now_ms=now_ms, kept_max=kept_max, held=held)
    for outline in _told_of(call, seen):
        totals.add(outline)
    if output.is_json:
        told = [shapes.workstream(view, record.commands) for view in views]
        theirs = shaped(totals, seen, here=around.top, redact=redact, now_ms=now_ms)
        output.json({**theirs, "workstreams": told, "record_fault": record.fault or None})
    else:
        lines.write_all(totals, seen)
    return 0


class _Record(NamedTuple):
    """What our own record has; `fault` says why it could not be read, empty where it could."""

    views: tuple[WorkstreamView, ...] = ()
    commands: shapes.Commands = MappingProxyType({})
    fault: str = ""

    @property
    def addresses(self) -> Mapping[str, str]:
        """By the sessions that conversations hold, those conversations' addresses."""
        return {
            str(role.link.upstream_session_id): role.conversation.key.address
            for view in self.views
            for role in view.roles
            if role.link is not None
        }


def _record(call: Call, around: Surroundings) -> _Record:
    # To open a record makes one: without any there is nothing of it to tell.
    if not around.has_record:
        return _Record()

    async def use(project: Project) -> _Record:
        views = await project.workstreams()
        return _Record(views, await project.resume_commands(shapes.roles_of(views)))

    try:
        return call.with_project(use)
    except StoreError as error:  # what the agents have is there all the same
        hint = f" ({error.hint})" if error.hint else ""
        return _Record(fault=one_line(f"{error.message}{hint}"))


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
