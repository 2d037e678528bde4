"""The agent's own interface: with what a person opens a session there, or why nothing opens it.

A sub-agent's session may be one that its agent opens only inside of the main session that it was
started in: then that one is opened, and the sub-agent is reached from there. Pure: which commands
an agent has is known to its adapter.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from upthread.core.text.visible import visible_line
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
