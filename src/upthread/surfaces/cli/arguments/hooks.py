"""The verbs for the agents people already run, as they are typed."""

from __future__ import annotations

from typing import Annotated

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import Argument, DryRun, Option, Yes
from upthread.surfaces.cli.call import Call


def use(
    call: Call,
    *,
    workstream: Annotated[
        str | None,
        Argument(metavar="WS", help="The workstream.", completed="workstream"),
    ] = None,
    clear: Annotated[bool, Option("--clear", help="Use none any more.")] = False,
) -> int:
    """Say which workstream this working tree is on."""
    from upthread.surfaces.cli.verbs import use

    if clear == (workstream is not None):
        raise UsageError("say which workstream", hint="upthread use WS, or upthread use --clear")
    return use.use(call, workstream)


def status(
    call: Call,
    *,
    snippet: Annotated[
        bool, Option("--snippet", help="Print what shows it in Claude Code's status line.")
    ] = False,
) -> int:
    """Show which workstream this working tree is on and why, and how the work stands."""
    from upthread.surfaces.cli.verbs import use

    return use.snippet(call) if snippet else use.status(call)


def setup(
    call: Call,
    *,
    agent: Annotated[
        str,
        Argument(metavar="AGENT", help="claude, codex or opencode.", completed="agent_with_setup"),
    ],
    role: Annotated[
        list[str] | None,
        Option("--role", metavar="NAME=HOW", help="A role: resume, fresh or auto."),
    ] = None,
    remove: Annotated[bool, Option("--remove", help="Take it back.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    diff: Annotated[bool, Option("--diff", help="Show each file line by line.")] = False,
    status_line: Annotated[
        bool | None,
        Option("--status-line", help="Claude Code's, with the workstream."),
    ] = None,
) -> int:
    """Give an agent continuity of its own: every delegation finds its session."""
    from upthread.surfaces.cli.setup import verb

    asked = verb.Asked(
        is_removing=remove,
        is_yes=yes,
        is_dry_run=dry_run,
        has_diff=diff,
        status_line=status_line,
        roles=tuple(role or ()),
    )
    return verb.setup(call, agent, asked)


def mcp(
    call: Call,
    *,
    http: Annotated[bool, Option("--http", help="Over HTTP on loopback, not stdio.")] = False,
    port: Annotated[int, Option("--port", minimum=0, maximum=65535, help="0: a free one.")] = 0,
) -> int:
    """Serve delegation as MCP tools, to agents that take MCP servers."""
    from upthread.surfaces.cli.verbs import serve

    return serve.mcp(call, is_http=http, port=port)


def web(
    call: Call,
    *,
    port: Annotated[int, Option("--port", minimum=0, maximum=65535, help="0: a free one.")] = 0,
    no_open: Annotated[
        bool, Option("--no-open", help="Only print the address, open no browser.")
    ] = False,
) -> int:
    """Show the record in a browser: live, read-only, for you alone."""
    from upthread.surfaces.cli.verbs import serve

    return serve.web(call, port=port, opens_browser=not no_open)
