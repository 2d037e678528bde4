"""The verbs about agents and what they have stored, as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from upthread.core.agents import WITH_A_STORE, one_of
from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import Argument, DryRun, Option, Yes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import command


def list_agents(call: Call) -> int:
    """List the agents: which are known, which are here, how they are driven."""
    from upthread.surfaces.cli.verbs import agents

    return agents.list_agents(call)


def doctor(
    call: Call,
    *,
    store: Annotated[
        str | None,
        Argument(metavar="STORE", help=f"upthread, {one_of(WITH_A_STORE)}.", completed="store"),
    ] = None,
    probe: Annotated[
        str | None,
        Option(
            "--probe",
            metavar="AGENT",
            help="Try what an agent does about sessions.",
            completed="agent",
        ),
    ] = None,
    rate_limit_prompt: Annotated[
        str | None,
        Option(
            "--rate-limit-prompt",
            metavar="TEXT",
            help="With --probe: what makes a scripted model answer with a rate limit.",
        ),
    ] = None,
    yes: Yes = False,
) -> int:
    """Diagnose the stored histories, ours and the agents', and say what cures them."""
    from upthread.surfaces.cli.doctor import probe as probing
    from upthread.surfaces.cli.doctor import verb as diagnosing

    if probe is None:
        return diagnosing.doctor(call, store)
    if store is not None:
        raise UsageError(
            "--probe takes no store", hint=command("upthread", "doctor", "--probe", probe)
        )
    return probing.probe(call, probe, rate_limit_prompt=rate_limit_prompt, is_yes=yes)


def repair(
    call: Call,
    *,
    target: Annotated[
        str,
        Argument(
            metavar="AGENT|ADDRESS", help=f"{one_of(WITH_A_STORE)}, or ours.", completed="store"
        ),
    ],
    session: Annotated[
        str | None, Argument(metavar="SESSION", help="One session; all without it.")
    ] = None,
    into: Annotated[
        str | None, Option("--into", metavar="DIR", help="Where the copies go.")
    ] = None,
    dry_run: DryRun = False,
) -> int:
    """Repair an agent's damaged histories in a copy; its own store is never changed."""
    from upthread.surfaces.cli.doctor import repair

    return repair.repair(call, target, session, into=into, is_dry_run=dry_run)


def search(
    call: Call,
    *,
    words: Annotated[list[str], Argument(metavar="WORDS", help="All of them, in one message.")],
    role: Annotated[str | None, Option("--role", metavar="ROLE", help="Only this role.")] = None,
    agent: Annotated[
        str | None,
        Option("--agent", metavar="A", help="Only this agent.", completed="agent_with_setup"),
    ] = None,
    place: Annotated[
        Path | None, Option("--in", metavar="DIR", help="Only sessions in this directory.")
    ] = None,
    since: Annotated[
        str | None, Option("--since", metavar="DATE", help="Only sessions used since, UTC.")
    ] = None,
    is_all: Annotated[bool, Option("--all", help="Every hit, not the newest alone.")] = False,
) -> int:
    """Look for words in our record and in all that the agents have stored, newest first."""
    from upthread.agent_stores.homes import store_of
    from upthread.surfaces.cli.search.verb import Asked, search

    agent = None if agent is None else store_of(agent)
    asked = Asked(words=words, role=role, agent=agent, place=place, since=since, is_all=is_all)
    return search(call, asked)
