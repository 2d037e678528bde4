"""`upthread adopt`: stored sessions become conversations that continue in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import click

from upthread.agent_stores.outline import SessionOutline
from upthread.client.parts import Surroundings
from upthread.client.project import Project
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.sessions import (
    Candidate,
    Done,
    Filters,
    addressed,
    can_be_adopted,
    done_to,
    outlines_here,
    tell,
    unheld,
)
from upthread.surfaces.cli.terminal.input import can_ask, with_agent
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line, since
from upthread.surfaces.cli.terminal.phrases import conversation_name
from upthread.surfaces.cli.terminal.state_lines import open_link

TITLE_CHARACTERS_MAX = 48
WORD = "ADOPTED"


@options.verb
@click.argument(
    "address",
    metavar="[ADDRESS]",
    required=False,
    help="WORKSTREAM/ROLE, for example spec-42/planner.",
    shell_complete=options.addresses,
)
@click.argument("session", metavar="[ID]", required=False, help="The agent's own session id.")
@options.agent
@click.option(
    "--pick", "is_picking", is_flag=True, help="Choose from the sessions of this directory."
)
@click.option("-y", "--yes", "is_yes", is_flag=True, help="With --pick: all sessions.")
def main(
    call: Call,
    *,
    address: str | None,
    session: str | None,
    agent: str | None,
    is_picking: bool,
    is_yes: bool,
) -> int:
    """Import sessions of an agent as conversations that continue in these sessions."""
    if is_picking:
        if address is not None:
            raise UsageError("--pick suggests the addresses", hint="leave the address out")
        return _pick(call, agent, is_yes=is_yes)
    if address is None or session is None:
        raise UsageError(
            "adopt takes an address and a session's id",
            hint="upthread adopt ADDRESS ID, or choose from a list: upthread adopt --pick",
        )
    return _adopt(call, address, session, agent)


def _adopt(call: Call, address: str, session: str, agent: str | None) -> int:
    async def use(project: Project, chosen: str | None) -> tuple[RoleView | None, RoleView]:
        # Read first, because afterwards the replaced session is not known any more.
        before = await _role_or_none(project, address)
        await project.adopt(address, session, agent=chosen)
        return before, await project.role(address)

    def attempt(chosen: str | None) -> tuple[RoleView | None, RoleView]:
        return call.with_project(lambda up: use(up, chosen), needs=Needs(tables=STARTING))

    before, after = with_agent(call.output, attempt, agent)
    link = open_link(after.conversation, after.link)
    held = before.link if before else None
    replaced = held.upstream_session_id if held and held.seq != link.seq else None
    if call.output.is_json:
        told = {
            "address": after.conversation.key.address,
            "instance_name": after.conversation.instance_name,
            "conversation_id": after.conversation.conversation_id,
            "agent": link.agent,
            "upstream_session_id": link.upstream_session_id,
            "replaced_upstream_session_id": replaced,
        }
        call.output.json(told)
        return 0
    instead = f", in place of {replaced}" if replaced else ""
    name = conversation_name(after.conversation)
    call.output.line(f"{name}: ADOPTED {link.upstream_session_id} of {link.agent}{instead}")
    return 0


async def _role_or_none(project: Project, address: str) -> RoleView | None:
    try:
        return await project.role(address)
    except NotFoundError:
        return None


def _pick(call: Call, agent: str | None, *, is_yes: bool) -> int:
    """Let a person choose; with `is_yes` all; else only list the sessions, and say how."""
    around = call.surroundings()
    outlines = [each for each in outlines_here(around, Filters(agent=agent)) if _is_offered(each)]

    async def look(project: Project) -> list[Candidate]:
        return list(addressed(project, unheld(project, outlines)))

    found = call.with_project(look)
    held = len(outlines) - len(found)
    if not found and not call.output.is_json:
        call.output.note("there is no session here that is not on record", "dim")
        return 0
    if is_yes:
        chosen: Sequence[Candidate] = found
    elif can_ask(call.output):
        chosen = _asked(found, around)
    else:
        return _listed(call, around, found, held)

    async def use(project: Project) -> list[Done]:
        async def adopt(each: Candidate) -> None:
            await project.adopt(each.address, each.outline.session_id, agent=each.outline.agent)

        return [await done_to(each, adopt) for each in chosen]

    if not chosen and not call.output.is_json:
        call.output.note("none was chosen", "dim")
        return 0
    done = call.with_project(use, needs=Needs(tables=STARTING))
    code = tell(call, around, done, word=WORD, is_done=True, held=held)
    first = next((each for each in done if not each.fault), None)
    if first is not None and not call.output.is_json:
        address = first.candidate.address
        call.output.command("go on in it: ", f'{quoted("upthread", "tell", address)} "…"')
    return code


def _is_offered(outline: SessionOutline) -> bool:
    """Return whether a session can continue here: not a sub-agent that always starts fresh."""
    return can_be_adopted(outline) and (outline.is_of_a_role or not outline.is_sub_agent)


def _listed(call: Call, around: Surroundings, found: list[Candidate], held: int) -> int:
    code = tell(
        call,
        around,
        [Done(candidate=each) for each in found],
        word=WORD,
        is_done=False,
        held=held,
    )
    if found and not call.output.is_json:
        first = found[0]
        one = quoted("upthread", "adopt", first.address, first.outline.session_id)
        call.output.command("all of them: ", "upthread adopt --pick --yes")
        call.output.command("one of them: ", one)
    return code


def _asked(found: list[Candidate], around: Surroundings) -> list[Candidate]:
    """Return those that a person marks in the list. None is marked before."""
    import questionary

    choices = [
        questionary.Choice(title=_line(each, around), value=number)
        for number, each in enumerate(found)
    ]
    asked = questionary.checkbox(
        "Which sessions are conversations from now on?",
        choices=choices,
        instruction="(space marks, type to filter, enter ends)",
        use_search_filter=True,
        use_jk_keys=False,
        pointer=">",
    )
    marked = cast("list[int]", asked.unsafe_ask())  # Ctrl-C ends it as it ends any verb
    return [found[number] for number in marked]


def _line(candidate: Candidate, around: Surroundings) -> str:
    outline = candidate.outline
    title = one_line(outline.title(around.redactor.redact))
    if len(title) > TITLE_CHARACTERS_MAX:
        title = f"{title[:TITLE_CHARACTERS_MAX]}…"
    used = since(outline.used_at_ms)
    return f"{one_line(candidate.address)}  “{title}”  {outline.agent} · {used}"
