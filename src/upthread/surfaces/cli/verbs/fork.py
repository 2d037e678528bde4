"""`fork`: a conversation branched off at a message; says what will be copied, and asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from upthread.client import Project
from upthread.runtime.record.fork import Fork as MadeFork
from upthread.runtime.record.fork import ForkPlan
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.input import DECLINED, UNCHANGED, confirm
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.words import conversation_name, counted

EFFECTS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """What was typed. `at_message` None is the newest message that can be forked after."""

    address: str
    into: str
    at_message: int | None


def fork(call: Call, asked: Fork, *, is_yes: bool, is_dry_run: bool) -> int:
    """Branch off, after asking."""

    async def look(project: Project) -> ForkPlan:
        return await project.fork.plan(asked.address, asked.into, at_message=asked.at_message)

    async def change(project: Project) -> MadeFork:
        return await project.fork(asked.address, asked.into, at_message=asked.at_message)

    # Looked up and closed before the question: the plan is made again when it is carried out.
    plan = call.with_project(look)
    output = call.output
    if not output.is_json:
        for line in _plan(plan):
            output.line(line)
    if is_dry_run:
        _tell(call, plan, None)
        return 0
    if not is_yes and not confirm(output, f"Fork {plan.source.key.address}?", declined=UNCHANGED):
        return DECLINED
    _tell(call, plan, call.with_project(change))
    return 0


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


def _tell(call: Call, plan: ForkPlan, made: MadeFork | None) -> None:
    link = made.link if made else None
    if call.output.is_json:
        call.output.json(
            {
                "address": plan.source.key.address,
                "as": plan.target.address,
                "is_done": made is not None,
                "at_message": plan.at_message,
                "messages": len(plan.spoken),
                "conversation_id": made.conversation.conversation_id if made else None,
                "upstream_session_id": link.upstream_session_id if link else None,
                "why_replay": made.why_replay if made else "",
                "effects": [
                    {"call_id": each.call_id, "title": each.title, "state": str(each.state)}
                    for each in plan.effects
                ],
                "children_left": list(plan.children_left),
                "changes": [structs.asdict(change) for change in plan.changes],
            }
        )
    elif made is not None:
        session = f", session {link.upstream_session_id}" if link else ""
        name = conversation_name(made.conversation)
        call.output.line(f"{name}: FORKED from {plan.source.key.address}{session}", "green")
        if made.why_replay:
            call.output.note(f"it will replay: {one_line(made.why_replay)}")
