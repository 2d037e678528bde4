"""`adopt --pick`: chosen from a list, stored sessions become conversations that go on in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from upthread.agent_stores.outline import SessionOutline
from upthread.client.project import Project
from upthread.client.surroundings import Surroundings, surroundings
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.sessions.candidates import (
    Candidate,
    Filters,
    addressed,
    outlines_here,
    unheld,
)
from upthread.surfaces.cli.sessions.opening import can_be_adopted
from upthread.surfaces.cli.sessions.told import Done, done_to, tell
from upthread.surfaces.cli.terminal.input import can_ask
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.times import since
from upthread.surfaces.cli.verbs.consent import STARTING, Needs

TITLE_CHARACTERS_MAX = 48
WORD = "ADOPTED"


def pick(call: Call, filters: Filters, *, is_yes: bool) -> int:
    """Let a person choose; with `is_yes` all of them; else only say which there are, and how."""
    around = surroundings(Path(), environment=os.environ, database=call.database)
    outlines = [each for each in outlines_here(around, filters) if _is_offered(each)]

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
    """Return whether it is one to go on in: no sub-agent of a kind that begins anew each time."""
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
