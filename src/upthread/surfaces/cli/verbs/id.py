"""`upthread id`: the agent's own id of a session."""

from __future__ import annotations

from upthread.client.project import Project
from upthread.core.types import Conversation, Link
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import one_line
from upthread.surfaces.cli.terminal.state_lines import open_link


@options.verb
@options.address
def main(call: Call, *, address: str) -> None:
    """Print the agent's own session id, for scripts."""

    async def use(project: Project) -> tuple[Conversation, Link]:
        conversation, link = await project.session(address)
        return conversation, open_link(conversation, link)

    conversation, link = call.with_project(use)
    if call.output.is_json:
        told = {
            **members(conversation, "address conversation_id"),
            **members(link, "agent upstream_session_id"),
        }
        call.output.json(told)
    else:
        call.output.line(one_line(link.upstream_session_id))
