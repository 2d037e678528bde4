"""`upthread id`: the agent's own id of a session."""

from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import one_line
from upthread.surfaces.cli.terminal.state_lines import open_link


@options.verb
@options.address
def main(call: Call, *, address: str) -> None:
    """Print the agent's own session id, for scripts."""
    conversation, current = call.with_project(lambda project: project.session(address))
    link = open_link(conversation, current)
    told = {
        **members(conversation, "address conversation_id"),
        **members(link, "agent upstream_session_id"),
    }
    call.output.json(told)
    call.output.line(one_line(link.upstream_session_id))
