"""`id`: the agent's own id of a session."""

from __future__ import annotations

from upthread.client.project import Project
from upthread.core.types import Conversation, Link
from upthread.errors import NotFoundError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line


def session_id(call: Call, address: str) -> int:
    """Print the bare upstream id. Raises NotFoundError when no session is open."""

    async def use(project: Project) -> tuple[Conversation, Link]:
        conversation, link = await project.session(address)
        return conversation, open_link(conversation, link)

    conversation, link = call.with_project(use)
    if call.output.is_json:
        told = {
            "address": conversation.key.address,
            "conversation_id": conversation.conversation_id,
            "agent": link.agent,
            "upstream_session_id": link.upstream_session_id,
        }
        call.output.json(told)
    else:
        call.output.line(one_line(link.upstream_session_id))
    return 0


def open_link(conversation: Conversation, link: Link | None) -> Link:
    """Return the open link of a conversation; raises NotFoundError when it has none."""
    if link is None:
        address = conversation.key.address
        raise NotFoundError(
            f"{address} has no open session",
            hint=f'start one: {quoted("upthread", "tell", address)} "…"',
            address=address,
        )
    return link
