"""What a person types to open a stored session in its agent's own interface."""

from __future__ import annotations

from typing import NamedTuple

from upthread.agent_stores.outline import SessionOutline
from upthread.core.agents import AGENTS


class Opening(NamedTuple):
    """The command that opens a session, and the one before it for a session that was archived.

    None where there is none. `is_by_main` says that its main session is opened instead.
    """

    resume_command: tuple[str, ...] | None
    unarchive_command: tuple[str, ...] | None
    is_by_main: bool


def opening_of(outline: SessionOutline) -> Opening:
    """Return what opens a session: a sub-agent that its agent opens for nobody, by its main one."""
    row = AGENTS.get(outline.agent)
    if row is None:
        return Opening(None, None, is_by_main=False)
    is_by_main = outline.is_sub_agent and not row.opens_sub_agents
    opened = outline.parent_session_id if is_by_main else outline.session_id
    unarchive = row.unarchive_command(opened) if outline.is_archived else None
    return Opening(row.resume_command(opened), unarchive, is_by_main)


def can_be_adopted(outline: SessionOutline) -> bool:
    """Return whether a prompt of ours could go on in it as it lies there."""
    opening = opening_of(outline)
    return not opening.is_by_main and opening.unarchive_command is None
