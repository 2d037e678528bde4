"""`upthread keep`: sessions of the agents, copied into our record or continued as conversations.

A copied session is redacted, encrypted, shown, searched and forgotten like every conversation. The
agent's own file is only read.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import click
from msgspec import Struct
from msgspec.structs import replace

from upthread.agent_stores.base import SessionOutline
from upthread.client.project import Project
from upthread.client.project_opener import Surroundings
from upthread.client.stores import conversations_in
from upthread.core.names import parse_address
from upthread.core.types import Link, UpstreamSessionId
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.sessions import (
    can_be_adopted,
    free_address,
    outline_shape,
    outlines_here,
)
from upthread.surfaces.cli.terminal.input import can_ask
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import conversation_name, one_line, since
from upthread.surfaces.cli.terminal.state_lines import open_link
from upthread.surfaces.cli.verbs.forget import forget_outlived

TITLE_CHARACTERS_MAX = 48
NOT_ALL = 1
"""The exit code where one of the sessions could not be taken."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A session, and its address. `fault` says why the session could not be taken."""

    outline: SessionOutline
    address: str
    fault: str = ""


@options.verb
@click.argument(
    "words",
    metavar="[SESSION]…",
    nargs=-1,
    help="Sessions, by the agents' ids; with --continue, ADDRESS SESSION.",
)
@options.flag(
    "--continue", "is_continuing", "Import a session as a conversation that continues in it."
)
@options.flag("--pick", "is_picking", "With --continue: choose from the sessions here.")
@options.flag("--soon", "is_soon", "All here that their agents delete within 7 days.")
@options.one_agent_only
@click.option(
    "--as",
    "given",
    metavar="ADDRESS",
    help="Where to keep the session; by default its branch or its title decides.",
)
@options.yes
@options.dry_run
def main(
    call: Call,
    *,
    words: Sequence[str],
    is_continuing: bool,
    is_picking: bool,
    is_soon: bool,
    agent: str | None,
    given: str | None,
) -> int:
    """Copy sessions before their agent deletes them; without any, apply the rules of `[keep]`.

    Those rules erase what is older than the configuration keeps. `upthread adopt ADDRESS SESSION`
    is `upthread keep --continue ADDRESS SESSION`.
    """
    if words and is_soon:
        raise UsageError("--soon takes no session", hint="upthread keep --soon")
    if is_picking or is_continuing:
        if is_soon or given or call.is_dry_run:
            raise UsageError("adopt takes no --soon, --as or --dry-run", hint="leave it out")
        if is_picking:
            if words:
                raise UsageError("--pick suggests the addresses", hint="leave the address out")
            return _pick(call, agent)
        if len(words) != 2:
            raise UsageError(
                "adopt takes an address and a session's id",
                hint="upthread adopt ADDRESS ID, or choose from a list: upthread adopt --pick",
            )
        return _adopt(call, words[0], words[1], agent)
    if words or is_soon:
        if given is not None and len(words) != 1:
            raise UsageError("--as names one session's address", hint="name one session")
        return _keep(call, words, agent, is_soon=is_soon, address=given)
    if agent or given:
        raise UsageError("no session is named", hint="upthread keep SESSION, or --soon")
    forget_outlived(call)
    return 0


# --- a copy -------------------------------------------------------------------------------------


def _keep(
    call: Call, ids: Sequence[str], agent: str | None, *, is_soon: bool, address: str | None
) -> int:
    around = call.surroundings()
    outlines = outlines_here(around, agent=agent, ids=ids, is_soon=is_soon)
    if missing := [each for each in ids if each not in {known.session_id for known in outlines}]:
        raise NotFoundError(
            f"no agent here has stored a session {one_line(missing[0])!r}",
            hint="which sessions there are: upthread --all, or upthread search WORDS",
        )

    async def use(project: Project) -> tuple[int, list[Candidate]]:
        held, chosen = _candidates(project, outlines)
        if address is not None:
            parse_address(address)
            chosen = [replace(each, address=address) for each in chosen]
        if call.is_dry_run:
            return len(held), chosen

        # Newer messages too, because the agent may delete them before the conversation continues.
        grown: list[Candidate] = []  # those that had new messages, or that failed
        for candidate in held:
            try:
                if await project.catch_up(candidate.outline.session_id):
                    grown.append(candidate)
            except UpthreadError as error:  # one must not cost the rest
                grown.append(replace(candidate, fault=error.message))
        kept = [await _done_to(each, project.keep, is_named=address is not None) for each in chosen]
        return len(held) - len(grown), [*grown, *kept]

    held, kept = call.with_project(use, needs=Needs(tables=STARTING))
    code = _tell(call, around, kept, word="KEPT", is_done=not call.is_dry_run, held=held)
    first = next((each for each in kept if not each.fault), None)
    if first is not None and not call.is_dry_run:
        workstream = parse_address(first.address).workstream
        call.output.command("read it: ", quoted("upthread", "audit", workstream))
        call.output.command("undo it: ", quoted("upthread", "forget", workstream))
    if not kept and not held:
        call.output.remark("there is nothing to keep: no session here is deleted soon", "dim")
    return code


# --- a conversation that continues ----------------------------------------------------------------


def _adopt(call: Call, address: str, session: str, agent: str | None) -> int:
    async def use(project: Project, chosen: str | None) -> tuple[RoleView | None, RoleView]:
        # Read first, because afterwards the replaced session is not known any more.
        try:
            before = await project.role(address)
        except NotFoundError:
            before = None
        await project.adopt(address, session, agent=chosen)
        return before, await project.role(address)

    before, after = call.with_agent(use, agent, needs=Needs(tables=STARTING))
    link = open_link(after.conversation, after.link)
    held = before.link if before else None
    replaced = held.upstream_session_id if held and held.seq != link.seq else None
    told = {
        **members(after.conversation, "address instance_name conversation_id"),
        **members(link, "agent upstream_session_id"),
        "replaced_upstream_session_id": replaced,
    }
    call.output.json(told)
    instead = f", in place of {replaced}" if replaced else ""
    name = conversation_name(after.conversation)
    call.output.line(f"{name}: ADOPTED {link.upstream_session_id} of {link.agent}{instead}")
    return 0


def _pick(call: Call, agent: str | None) -> int:
    """Let a person choose; with --yes all; else only list the sessions, and say how."""
    around, output = call.surroundings(), call.output
    outlines = [
        each
        for each in outlines_here(around, agent=agent)
        # Not a sub-agent that always starts fresh.
        if can_be_adopted(each) and (each.is_of_a_role or not each.is_sub_agent)
    ]

    held, found = call.with_project(
        lambda project: project.read(lambda: _candidates(project, outlines))
    )
    if not found and not output.is_json:
        output.note("there is no session here that is not on record", "dim")
        return 0
    is_done = call.is_yes or can_ask(output)
    chosen = found if call.is_yes or not is_done else _asked(found, around)

    async def use(project: Project) -> list[Candidate]:
        return [await _done_to(each, project.adopt) for each in chosen]

    if not chosen and not output.is_json:
        output.note("none was chosen", "dim")
        return 0
    done = call.with_project(use, needs=Needs(tables=STARTING)) if is_done else found
    code = _tell(call, around, done, word="ADOPTED", is_done=is_done, held=len(held))
    first = next((each for each in done if not each.fault), None)
    if first is None:
        return code
    if is_done:
        output.command("go on in it: ", f'{quoted("upthread", "tell", first.address)} "…"')
    else:
        its = first.outline
        one = quoted("upthread", "adopt", first.address, its.session_id, "--agent", its.agent)
        output.command("all of them: ", "upthread adopt --pick --yes")
        output.command("one of them: ", one)
    return code


def _asked(found: Sequence[Candidate], around: Surroundings) -> list[Candidate]:
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


# --- both ---------------------------------------------------------------------------------------


def _candidates(
    project: Project, outlines: Sequence[SessionOutline]
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the sessions that conversations have, and the others, each with a free address.

    Blocking.
    """
    store, project_id = project.store, project.project_id
    taken = {each.address for each in conversations_in(store, project_id)}
    held: list[Candidate] = []
    new: list[Candidate] = []
    for outline in outlines:
        owner = store.owner(project_id, UpstreamSessionId(outline.session_id))
        if owner is not None:
            held.append(Candidate(outline=outline, address=owner.address))
            continue
        address = free_address(project, outline, taken)
        taken.add(address)
        new.append(Candidate(outline=outline, address=address))
    return held, new


async def _done_to(
    candidate: Candidate, act: Callable[..., Awaitable[Link]], *, is_named: bool = False
) -> Candidate:
    """Keep or adopt one session. What its agent or its file lacks is told with the others.

    Raises UsageError where a person has named the address, and named it wrongly; one that was
    suggested may have been taken by another process meanwhile.
    """
    try:
        outline = candidate.outline
        await act(candidate.address, outline.session_id, agent=outline.agent)
    except UpthreadError as error:  # one must not cost the rest
        is_wrong = isinstance(error, UsageError) and not isinstance(error, NotFoundError)
        if is_named and is_wrong:
            raise
        return replace(candidate, fault=error.message)
    return candidate


def _tell(
    call: Call,
    around: Surroundings,
    done: Sequence[Candidate],
    *,
    word: str,
    is_done: bool,
    held: int,
) -> int:
    """Tell of each and return the exit code. `word` is what was done: KEPT.

    `held` is how many of those meant were on record already.
    """
    output = call.output
    redact = around.redactor.redact
    sessions = [
        {
            "address": each.address,
            **outline_shape(each.outline, redact),
            "fault": redact(each.fault) or None,
        }
        for each in done
    ]
    output.json({"is_done": is_done, "on_record_already": held, "sessions": sessions})
    for each in done:
        address, outline = one_line(each.address), each.outline
        if each.fault:
            said = f": NOT {word}: {one_line(each.fault)}"
            output.row((address, "cyan"), (said, "red"))
            continue
        what = word if is_done else f"would be {word.lower()}"
        name = f"{one_line(outline.session_id)} of {outline.agent}"
        output.row((address, "cyan"), f": {what} {name}")
    if held:
        said = "on record already; what was forgotten of them stays so"
        output.remark(f"{held} of them {said}: upthread ls", "dim")
    return NOT_ALL if any(each.fault for each in done) else 0
