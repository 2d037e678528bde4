"""`upthread keep`: copies sessions into our record, so that they stay.

There upthread redacts, encrypts, shows, searches and forgets them like every conversation. It only
reads the agent's own file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import click

from upthread.agent_stores.outline import SessionOutline
from upthread.client.project import Project
from upthread.core.names import parse_address
from upthread.errors import NotFoundError, UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.sessions import (
    Candidate,
    Done,
    Filters,
    addressed,
    done_to,
    on_record,
    outlines_here,
    tell,
    unheld,
)
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.verbs.forget import forget_outlived

WORD = "KEPT"


@options.verb
@click.argument(
    "sessions",
    metavar="[SESSION]…",
    nargs=-1,
    help="Sessions to copy into the record, by the agents' ids.",
)
@click.option(
    "--soon", "is_soon", is_flag=True, help="All here that their agents delete within 7 days."
)
@options.one_agent_only
@click.option(
    "--as",
    "address",
    metavar="ADDRESS",
    help="Where to keep the session; by default its branch or its title decides.",
)
@options.yes
@options.dry_run
def main(
    call: Call,
    *,
    sessions: Sequence[str],
    is_soon: bool,
    agent: str | None,
    address: str | None,
    is_yes: bool,
    is_dry_run: bool,
) -> int:
    """Copy sessions before their agent deletes them; without any, apply the rules of `[keep]`.

    Those rules erase what is older than the configuration keeps.
    """
    if sessions and is_soon:
        raise UsageError("--soon takes no session", hint="upthread keep --soon")
    if sessions or is_soon:
        filters = Filters(agent=agent, ids=sessions, is_soon=is_soon)
        return _keep_sessions(call, filters, address=address, is_dry_run=is_dry_run)
    if agent or address:
        raise UsageError("no session is named", hint="upthread keep SESSION, or --soon")
    return forget_outlived(call, is_yes=is_yes, is_dry_run=is_dry_run)


def _keep_sessions(call: Call, filters: Filters, *, address: str | None, is_dry_run: bool) -> int:
    if address is not None and len(filters.ids) != 1:
        raise UsageError("--as names one session's address", hint="name one session")
    around = call.surroundings()
    outlines = outlines_here(around, filters)
    _require_found(filters, outlines)

    async def use(project: Project) -> tuple[int, list[Done]]:
        left = unheld(project, outlines)
        chosen = list(addressed(project, left))
        if address is not None:
            parse_address(address)
            chosen = [Candidate(outline=each.outline, address=address) for each in chosen]
        new = {each.session_id for each in left}
        held = [each for each in outlines if each.session_id not in new]
        if is_dry_run:
            return len(held), [Done(candidate=each) for each in chosen]

        async def keep(each: Candidate) -> None:
            await project.keep(each.address, each.outline.session_id, agent=each.outline.agent)

        is_named = address is not None
        # Newer messages too, because the agent may delete them before the conversation continues.
        grown = [done async for done in _caught_up(project, held)]
        kept = [await done_to(each, keep, is_named=is_named) for each in chosen]
        return len(held) - len(grown), [*grown, *kept]

    held, kept = call.with_project(use, needs=Needs(tables=STARTING))
    code = tell(call, around, kept, word=WORD, is_done=not is_dry_run, held=held)
    if not call.output.is_json:
        _next(call, kept, held=held, is_dry_run=is_dry_run)
    return code


async def _caught_up(project: Project, held: list[SessionOutline]) -> AsyncIterator[Done]:
    """Record new messages of recorded sessions; yields those that had some, or that failed."""
    added: list[int] = []

    async def catch_up(each: Candidate) -> None:
        added.append(await project.catch_up(each.outline.session_id))

    for candidate in on_record(project, held):
        done = await done_to(candidate, catch_up)
        if done.fault or added.pop():
            yield done


def _require_found(filters: Filters, outlines: list[SessionOutline]) -> None:
    known = {each.session_id for each in outlines}
    missing = [each for each in filters.ids if each not in known]
    if missing:
        raise NotFoundError(
            f"no agent here has stored a session {one_line(missing[0])!r}",
            hint="which sessions there are: upthread --all, or upthread search WORDS",
        )


def _next(call: Call, kept: list[Done], *, held: int, is_dry_run: bool) -> None:
    output = call.output
    first = next((each for each in kept if not each.fault), None)
    if first is not None and not is_dry_run:
        workstream = parse_address(first.candidate.address).workstream
        output.command("read it: ", quoted("upthread", "audit", workstream))
        output.command("undo it: ", quoted("upthread", "forget", workstream))
    if not kept and not held:
        output.note("there is nothing to keep: no session here is deleted soon", "dim")
