"""The upstream sessions of a conversation: those it has held, and how a person opens the last one.

The chain is source-true to the field notes this project grew from: an id is appended once, moves to
the end when it comes back, and the readable chain is capped; the store keeps every link.

A session is opened with the agent's own interface, or something says why not. A sub-agent's session
may be one that its agent opens only inside of the main session that it was started in: then that
one is opened, and the sub-agent is reached from there. Which commands an agent has is known to its
adapter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from upthread.core.text import visible_line
from upthread.core.types import Link


class OwnInterface(Struct, frozen=True, kw_only=True):
    """How a session is opened.

    `command` opens the session itself, in `working_directory`; without one `why_not` says why.
    `main_command` opens the main session that a sub-agent's is reached from, and `there` says how.
    """

    command: tuple[str, ...] | None = None
    working_directory: str = ""
    why_not: str = ""
    main_command: tuple[str, ...] | None = None
    there: str = ""


NO_SESSION: Final = OwnInterface(why_not="no session of it is open")


class MainSession(Struct, frozen=True, kw_only=True):
    """The session that a sub-agent's lies in, the command that opens it, and how it is reached."""

    upstream_session_id: str
    command: tuple[str, ...] | None
    there: str = ""


def of_link(
    link: Link,
    *,
    command: tuple[str, ...] | None,
    is_configured: bool = True,
    main: MainSession | None = None,
) -> OwnInterface:
    """Return how a link's session is opened; `main` is set where only its main session opens it."""
    agent = visible_line(link.agent)
    # Before anything of the agent's is asked: its commands are those of a program nobody names.
    if not is_configured:
        return OwnInterface(why_not=f"the configuration no longer names the agent {agent}")
    if main is not None:
        return OwnInterface(
            working_directory=link.working_directory,
            why_not=f"it is a sub-agent's session, which {agent} opens only inside the main "
            f"session that it was started in, {visible_line(main.upstream_session_id)}",
            main_command=main.command,
            there=main.there,
        )
    if command is None:
        return OwnInterface(why_not=f"{agent} has no interface of its own")
    return OwnInterface(command=command, working_directory=link.working_directory)


# --- the chain, newest last -----------------------------------------------------------------------


CHAIN_LENGTH_MAX = 16
"""How many upstream sessions a read spans. All links stay stored for the audit."""


def append(chain: tuple[str, ...], upstream_session_id: str) -> tuple[str, ...]:
    """Return the chain with the id last; blank or unchanged ids change nothing."""
    trimmed = upstream_session_id.strip()
    if not trimmed or (chain and chain[-1] == trimmed):
        return chain
    kept = tuple(held for held in chain if held != trimmed)
    return (*kept, trimmed)[-CHAIN_LENGTH_MAX:]


def readable(upstream_session_ids: Iterable[str]) -> tuple[str, ...]:
    """Fold the ids of all links, oldest first, into the readable chain."""
    chain: tuple[str, ...] = ()
    for upstream_session_id in upstream_session_ids:
        chain = append(chain, upstream_session_id)
    return chain
