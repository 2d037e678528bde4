"""The verbs that look at conversations and workstreams, or change one, as they are typed."""

from __future__ import annotations

from typing import Annotated, Literal

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import (
    Address,
    Agent,
    Argument,
    DryRun,
    Option,
    Workstream,
    WorkstreamOrAll,
    Yes,
)
from upthread.surfaces.cli.call import Call


def ls(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    watch: Annotated[bool, Option("--watch", help="Show each change, until Ctrl-C.")] = False,
    workers: Annotated[
        bool, Option("--workers", help="The workers of a shared database instead.")
    ] = False,
) -> int:
    """List the workstreams, or the roles of one."""
    if workers:
        from upthread.surfaces.cli.verbs import worker

        return worker.list_workers(call)
    from upthread.surfaces.cli.verbs import listing

    return listing.list_workstreams(call, workstream, is_watching=watch)


def show(
    call: Call,
    *,
    what: Annotated[
        str,
        Argument(
            metavar="WS|ADDRESS",
            help="A workstream or one conversation.",
            completed="address",
        ),
    ],
    effects: Annotated[
        bool, Option("--effects", help="What was done to the world, and what is unknown.")
    ] = False,
    tree: Annotated[
        bool, Option("--tree", help="Its sessions, turns and sub-agents as a tree.")
    ] = False,
) -> int:
    """Show how a workstream or one conversation stands."""
    if tree:
        from upthread.surfaces.cli.audit.tree import show_tree

        return show_tree(call, what)
    from upthread.surfaces.cli.verbs import inspect

    return inspect.show_effects(call, what) if effects else inspect.show(call, what)


def why(call: Call, *, address: Address, agent: Agent = None) -> int:
    """Show the last decision, and what would be decided now."""
    from upthread.surfaces.cli.verbs import why

    return why.why(call, address, agent=agent)


def upstream_id(call: Call, *, address: Address) -> int:
    """Print the agent's own session id, for scripts."""
    from upthread.surfaces.cli.verbs import session_id

    return session_id.session_id(call, address)


def open_session(call: Call, *, address: Address, dry_run: DryRun = False) -> int:
    """Resume the session in the agent's own interface; --json only says how."""
    from upthread.surfaces.cli.verbs import change

    return change.open_session(call, address, is_dry_run=dry_run)


def brief(
    call: Call,
    *,
    address: Address,
    edit: Annotated[
        bool, Option("--edit", help="Edit it; what you change is kept and marked.")
    ] = False,
    source: Annotated[
        str | None,
        Option("--from", metavar="FILE", help="Take your text from a file, or - for stdin."),
    ] = None,
) -> int:
    """Show what a fresh session of a role would be told of the past."""
    from upthread.surfaces.cli.verbs import brief

    return brief.brief(call, address, is_edit=edit, source=source)


def adopt(
    call: Call,
    *,
    address: Annotated[
        str | None,
        Argument(
            metavar="ADDRESS",
            help="WORKSTREAM/ROLE, such as spec-42/planner.",
            completed="address",
        ),
    ] = None,
    session: Annotated[
        str | None, Argument(metavar="ID", help="The agent's own session id.")
    ] = None,
    agent: Agent = None,
    pick: Annotated[
        bool, Option("--pick", help="Choose from the sessions that are here; several at once.")
    ] = False,
    yes: Annotated[bool, Option("-y, --yes", help="With --pick: all that are listed.")] = False,
) -> int:
    """Take existing sessions of an agent in, as conversations that go on in them."""
    if pick:
        from upthread.surfaces.cli.sessions.candidates import Filters
        from upthread.surfaces.cli.sessions.pick import pick as picked

        if address is not None:
            raise UsageError("--pick suggests the addresses", hint="leave the address out")
        return picked(call, Filters(agent=agent), is_yes=yes)
    if address is None or session is None:
        raise UsageError(
            "adopt takes an address and a session's id",
            hint="upthread adopt ADDRESS ID, or choose from a list: upthread adopt --pick",
        )
    from upthread.surfaces.cli.verbs import change

    return change.adopt(call, address, session, agent=agent)


def reset(
    call: Call,
    *,
    address: Address,
    turn: Annotated[
        bool, Option("--turn", help="Only free it from an agent on a host that is gone.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """End a conversation and begin a new one in its place; the old one stays for the audit."""
    from upthread.surfaces.cli.verbs import change

    return change.reset(call, address, is_turn=turn, is_yes=yes, is_dry_run=dry_run)


def fork(
    call: Call,
    *,
    address: Address,
    into: Annotated[
        str, Option("--as", metavar="ADDRESS", help="Where it goes on; none may be there.")
    ],
    at: Annotated[
        int | None,
        Option(
            "--at", minimum=1, metavar="MESSAGE", help="After which message; the newest it can be."
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Branch a conversation off after a message, to go its own way; the first one stays."""
    from upthread.surfaces.cli.verbs import change

    asked = change.Fork(address=address, into=into, at_message=at)
    return change.fork(call, asked, is_yes=yes, is_dry_run=dry_run)


def effects(
    call: Call,
    *,
    workstream: Workstream,
    said: Annotated[
        str | None, Argument(metavar="[done|not-done|again]", help="What you found.")
    ] = None,
    effect: Annotated[
        str | None, Argument(metavar="[EFFECT]", help="Which one, if several are in doubt.")
    ] = None,
) -> int:
    """Show what may have been done to the outside, or say what came of it."""
    from upthread.surfaces.cli.verbs import effects as verb

    if said is None:
        return verb.show(call, workstream)
    return verb.settle(call, workstream, said, effect)


def savings(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    prices: Annotated[
        str | None,
        Option(
            "--prices",
            metavar="P",
            help="What you pay for a million tokens, such as read=3,written=15 "
            "(also: cached, cache_written).",
        ),
    ] = None,
) -> int:
    """Show what delegations took, as their agents counted it, and what resuming saved or lost."""
    from upthread.surfaces.cli.verbs import savings

    return savings.savings(call, workstream, prices=prices)


def audit(
    call: Call,
    *,
    workstream: Workstream,
    form: Annotated[
        Literal["md", "html", "json", "atif", "otel"],
        Option(
            "--format",
            help="Markdown, one page to open or to mail, JSON, trajectories, or spans.",
        ),
    ] = "md",
    into: Annotated[
        str | None, Option("-o, --output", metavar="FILE", help="Write it there, for you alone.")
    ] = None,
    content: Annotated[
        bool, Option("--content", help="In spans, tell what was said as well.")
    ] = False,
) -> int:
    """Write down everything that is kept of a workstream."""
    from upthread.surfaces.cli.audit import verb

    return verb.audit(call, workstream, form=form, into=into, with_content=content)


def export(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    endpoint: Annotated[
        str | None,
        Option(
            "--endpoint", metavar="URL", help="The collector; else as the OTEL_… variables say."
        ),
    ] = None,
    follow: Annotated[
        bool, Option("-f, --follow", help="Send what ends from now on, as it ends.")
    ] = False,
    content: Annotated[bool, Option("--content", help="Tell what was said as well.")] = False,
) -> int:
    """Send ended turns to an OpenTelemetry collector, as spans; with --follow live."""
    from upthread.surfaces.cli.verbs import export as verb

    return verb.export(call, workstream, endpoint=endpoint, follows=follow, with_content=content)
