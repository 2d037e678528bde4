"""The verbs that talk to agents, as they are typed."""

from __future__ import annotations

from typing import Annotated, Literal

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import (
    Address,
    Agent,
    Argument,
    DryRun,
    Option,
    TokensMax,
    Workstream,
    WorkstreamOrAll,
    Yes,
)
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import command


def tell(
    call: Call,
    *,
    address: Address,
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="The prompt; - reads standard input.")
    ] = None,
    agent: Agent = None,
    sibling: Annotated[
        bool, Option("--sibling", help="If busy, open a second conversation of the role.")
    ] = False,
    wait: Annotated[
        bool, Option("--wait", help="Wait for another turn to end, and for a rate limit.")
    ] = False,
    go_on: Annotated[
        bool, Option("--continue", help="Go on with an interrupted or parked turn.")
    ] = False,
    tokens_max: TokensMax = None,
    fresh: Annotated[bool, Option("--fresh", help="Start a fresh session.")] = False,
) -> int:
    """One turn with one role: says whether the session was resumed, and why not."""
    from upthread.runtime.options import TellOptions
    from upthread.surfaces.cli.verbs import tell

    if go_on and text is not None:
        raise UsageError(
            "--continue takes no text", hint="it goes on with the prompt that was sent"
        )
    if not go_on and text is None:
        raise UsageError(
            "there is nothing to tell", hint=f'{command("upthread", "tell", address)} "…"'
        )
    chosen = TellOptions(
        agent=agent,
        when_busy=tell.when_busy(is_sibling=sibling, is_waiting=wait),
        is_waiting=wait,
        is_fresh=fresh,
        tokens_max=tokens_max,
    )
    return tell.tell(call, address, text, chosen)


def run(
    call: Call,
    *,
    workstream: Workstream,
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="The specification; none goes on.")
    ] = None,
    spec: Annotated[
        str | None, Option("--spec", metavar="FILE", help="The specification's file.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        Option(
            "--agent",
            metavar="A|ROLE=A",
            help="The agent, for all roles or for one.",
            completed="agent",
        ),
    ] = None,
    steps: Annotated[
        int | None, Option("--steps", minimum=1, metavar="N", help="Stop after N steps.")
    ] = None,
    tokens_max: TokensMax = None,
    detach: Annotated[
        bool, Option("--detach", help="Take no step: leave the run to workers.")
    ] = False,
    wait: Annotated[
        bool,
        Option("--wait", help="Wait for another run, and for a rate limit."),
    ] = False,
    worktree: Annotated[
        bool,
        Option("--worktree", help="Work in a git worktree of its own, on its own branch."),
    ] = False,
    continuity: Annotated[
        Literal["resume", "fresh", "auto"] | None,
        Option("--continuity", help="For all roles, in place of their own."),
    ] = None,
) -> int:
    """Take the pipeline over a workstream, as far as it goes by itself."""
    from upthread.runtime.options import RunOptions
    from upthread.surfaces.cli.verbs import run

    given = run.specification(text, spec)
    everyone, by_role = run.agents_by_role(agent or ())
    chosen = RunOptions(
        agent=everyone,
        agents=by_role,
        steps_max=0 if detach else steps,
        tokens_max=tokens_max,
        is_waiting=wait,
        is_worktree=worktree,
        continuity=continuity,
    )
    return run.run(call, workstream, given, chosen, is_detached=detach)


def answer(
    call: Call,
    *,
    workstream: Workstream,
    words: Annotated[
        list[str],
        Argument(metavar="[QUESTION] TEXT", help="The question's id if several are open."),
    ],
) -> int:
    """Answer a question a role has asked."""
    from upthread.surfaces.cli.verbs import run

    if len(words) not in {1, 2}:
        raise UsageError(
            "too many words", hint=f'{command("upthread", "answer", workstream)} QUESTION "TEXT"'
        )
    question_id = words[0] if len(words) == 2 else None
    return run.answer(call, workstream=workstream, question_id=question_id, text=words[-1])


def worktree(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    remove: Annotated[
        bool, Option("--remove", help="Remove it, if all is committed; its branch stays.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show the working trees that workstreams have of their own, or remove one."""
    from upthread.surfaces.cli.verbs import worktree

    if not remove:
        return worktree.show(call, workstream)
    if workstream is None:
        raise UsageError("which one is to be removed?", hint="upthread worktree WS --remove")
    return worktree.remove(call, workstream, is_yes=yes, is_dry_run=dry_run)
