"""`keep SESSION…`, `keep --soon`: what was said in them is copied into our record, and stays.

There it is redacted, encrypted where the record is, shown, searched, briefed from and forgotten as
all else is: a kept session is a conversation. The agent's own file is only read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upthread.client.surroundings import surroundings
from upthread.core.names import parse_address
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.sessions.candidates import (
    Candidate,
    Filters,
    addressed,
    outlines_here,
    shape,
    unheld,
)
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.verbs.consent import STARTING, Needs

if TYPE_CHECKING:
    from upthread.agent_stores.outline import SessionOutline
    from upthread.client import Project
    from upthread.client.surroundings import Surroundings

NOT_ALL = 1
"""The exit code where one of the sessions could not be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of one session: `fault` is empty for one that is kept now."""

    candidate: Candidate
    fault: str = ""


def keep_sessions(call: Call, filters: Filters, *, address: str | None, is_dry_run: bool) -> int:
    """Copy sessions into our record; each has an address of its own there."""
    if address is not None and len(filters.ids) != 1:
        raise UsageError("--as names one session's address", hint="name one session")
    around = surroundings(Path(), environment=os.environ, database=call.database)
    outlines = outlines_here(around, filters)
    _require_found(filters, outlines)

    async def use(project: Project) -> tuple[int, list[Kept]]:
        left = unheld(project, outlines)
        chosen = list(addressed(project, left))
        if address is not None:
            parse_address(address)
            chosen = [Candidate(outline=each.outline, address=address) for each in chosen]
        held = len(outlines) - len(left)
        if is_dry_run:
            return held, [Kept(candidate=each) for each in chosen]
        return held, [await _kept(project, each) for each in chosen]

    held, kept = call.with_project(use, needs=Needs(tables=STARTING))
    _tell(call, around, kept, held=held, is_dry_run=is_dry_run)
    return NOT_ALL if any(each.fault for each in kept) else 0


def _require_found(filters: Filters, outlines: list[SessionOutline]) -> None:
    known = {each.session_id for each in outlines}
    missing = [each for each in filters.ids if each not in known]
    if missing:
        raise NotFoundError(
            f"no agent here has stored a session {one_line(missing[0])!r}",
            hint="which sessions there are: upthread --all, or upthread search WORDS",
        )


async def _kept(project: Project, candidate: Candidate) -> Kept:
    outline = candidate.outline
    try:
        await project.keep(candidate.address, outline.session_id, agent=outline.agent)
    except UpthreadError as error:  # told with the others: one must not cost the rest
        if isinstance(error, UsageError) and not isinstance(error, NotFoundError):
            raise
        return Kept(candidate=candidate, fault=error.message)
    return Kept(candidate=candidate)


def _tell(
    call: Call, around: Surroundings, kept: list[Kept], *, held: int, is_dry_run: bool
) -> None:
    output = call.output
    if output.is_json:
        output.json(
            {
                "is_done": not is_dry_run,
                "on_record_already": held,
                "sessions": [_shape(each, around) for each in kept],
            }
        )
        return
    for each in kept:
        outline, address = each.candidate.outline, each.candidate.address
        if each.fault:
            output.row((one_line(address), "cyan"), (f": NOT KEPT: {one_line(each.fault)}", "red"))
            continue
        done = "would be kept" if is_dry_run else "KEPT"
        name = f"{one_line(outline.session_id)} of {outline.agent}"
        output.row((one_line(address), "cyan"), (f": {done} {name}", ""))
    if held:
        output.note(f"{held} of them on record already: upthread ls", "dim")
    first = next((each for each in kept if not each.fault), None)
    if first is not None and not is_dry_run:
        workstream = parse_address(first.candidate.address).workstream
        output.command("read it: ", quoted("upthread", "audit", workstream))
        output.command("undo it: ", quoted("upthread", "forget", workstream))
    if not kept and not held:
        output.note("there is nothing to keep: no session here is deleted soon", "dim")


def _shape(kept: Kept, around: Surroundings) -> dict[str, Any]:
    told = shape(kept.candidate, around.redactor.redact)
    return {**told, "fault": around.redactor.redact(kept.fault) or None}
