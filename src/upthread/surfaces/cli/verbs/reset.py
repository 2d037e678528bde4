"""`upthread reset`: ends a conversation, so that a new one starts in its place."""

from upthread.client.project import Project
from upthread.core.types import Conversation
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted


@options.verb
@options.address
@options.flag(
    "--turn", "is_turn", "Only free the conversation from an agent on a host that is gone."
)
@options.yes
@options.dry_run
def main(call: Call, *, address: str, is_turn: bool) -> None:
    """End a conversation and start a new one in its place. The old one stays for the audit."""
    if not call.is_dry_run:
        only = ("--turn",) if is_turn else ()
        require_person("nobody ends a conversation", "reset", address, *only)

    async def change(project: Project) -> Conversation:
        if not is_turn:
            return await project.reset(address)
        await project.free(address)
        return view.conversation

    view = call.with_project(lambda project: project.role(address))
    output = call.output
    output.line(_plan(view, is_turn=is_turn))
    if call.is_dry_run:
        _tell(call, view, None)
        return
    call.confirm(f"Reset {view.conversation.address}?")
    _tell(call, view, call.with_project(change))


def _plan(view: RoleView, *, is_turn: bool) -> str:
    name, link = conversation_name(view.conversation), view.link
    if is_turn:
        holder = view.holder.in_words() if view.holder else "nobody"
        return (
            f"{name}: in use by {holder}. Free it only if that agent is gone: otherwise two agents"
            " work in one session. The conversation continues."
        )
    session = f", session {link.upstream_session_id} of {link.agent}" if link else ""
    return (
        f"{name}: {counted(view.turns, 'turn')}{session}. A new conversation begins in its place, "
        "which remembers nothing of this one; the old one stays for the audit."
    )


def _tell(call: Call, old: RoleView, new: Conversation | None) -> None:
    told = {
        "address": old.conversation.address,
        "is_done": new is not None,
        "turns": old.turns,
        **members(old.link, "upstream_session_id"),
        "old_conversation_id": old.conversation.conversation_id,
        "new_conversation_id": new.conversation_id if new else None,
    }
    call.output.json(told)
    if new is not None:
        is_free = new == old.conversation
        done = "FREED" if is_free else f"RESET, {new.conversation_id} begins"
        call.output.line(f"{conversation_name(new)}: {done}", "green")
