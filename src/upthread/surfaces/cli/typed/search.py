"""The verb that looks for words in what was said, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.typed.parameters import Argument, Option


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
    from upthread.surfaces.cli.search.verb import Asked, search

    asked = Asked(words=words, role=role, agent=agent, place=place, since=since, is_all=is_all)
    return search(call, asked)
