"""`upthread fork`: branches a conversation off."""

from collections.abc import Iterator

import click

from upthread.client.fork import Fork, ForkPlan
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted, one_line

EFFECTS_SHOWN_MAX = 20


@options.verb
@options.address
@click.option(
    "--as", "into", required=True, metavar="ADDRESS", help="The new conversation's address."
)
@click.option(
    "--at",
    "at_message",
    type=click.IntRange(min=1),
    metavar="MESSAGE",
    help="The last message to copy; by default the newest possible.",
)
@options.yes
@options.dry_run
def main(call: Call, *, address: str, into: str, at_message: int | None) -> None:
    """Branch a conversation off after a message. The first conversation stays as it is."""
    # The project is closed before the question; the plan is made again when it is carried out.
    plan = call.with_project(
        lambda project: project.plan_fork(address, into, at_message=at_message)
    )
    output = call.output
    for line in _plan(plan):
        output.line(line)
    if call.is_dry_run:
        _tell(call, plan, None)
        return
    call.confirm(f"Fork {plan.source.address}?")
    made = call.with_project(lambda project: project.fork(address, into, at_message=at_message))
    _tell(call, plan, made)


def _plan(plan: ForkPlan) -> Iterator[str]:
    copied = counted(len(plan.spoken), "message")
    how = (
        f"{plan.link.agent} is asked to fork its session; if it cannot, the first prompt replays"
        if plan.link
        else "the first prompt replays them into a new session"
    )
    name, into = conversation_name(plan.source), plan.target.address
    yield f"{name}: {copied}, up to message {plan.at_message}, go to {into}; {how}."
    for change in plan.changes:
        yield f"  repaired on the way: {change.in_words()}"
    if plan.children_left:
        children = counted(len(plan.children_left), "sub-agent")
        yield f"  left with the first branch: {children}; the results keep their text"
    if plan.effects:
        yield f"  not undone, {counted(len(plan.effects), 'action')}:"
        yield from (f"  - {one_line(each.in_words)}" for each in plan.effects[:EFFECTS_SHOWN_MAX])
    if len(plan.effects) > EFFECTS_SHOWN_MAX:
        yield f"  - and {len(plan.effects) - EFFECTS_SHOWN_MAX} more; all are in --json"


def _tell(call: Call, plan: ForkPlan, made: Fork | None) -> None:
    link = made.link if made else None
    call.output.json(
        {
            "address": plan.source.address,
            "as": plan.target.address,
            "is_done": made is not None,
            "at_message": plan.at_message,
            "messages": len(plan.spoken),
            **members(made and made.conversation, "conversation_id"),
            **members(link, "upstream_session_id"),
            "why_replay": made.why_replay if made else "",
            "effects": [members(each, "call_id title state") for each in plan.effects],
            **members(plan, "children_left changes"),
        }
    )
    if made is not None:
        session = f", session {link.upstream_session_id}" if link else ""
        name = conversation_name(made.conversation)
        call.output.line(f"{name}: FORKED from {plan.source.address}{session}", "green")
        if made.why_replay:
            call.output.remark(f"it will replay: {one_line(made.why_replay)}")
