"""`upthread effects`: actions in doubt beyond this machine, and a person's word on them."""

from collections.abc import Sequence

import click

from upthread.client.project import Project
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.turns.effects import Settlement
from upthread.core.turns.turn import HELD_BACK
from upthread.runtime.record.turn_views import RecordedEffect
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import one_line
from upthread.surfaces.cli.terminal.state_lines import write_table


@options.verb
@options.workstream
@click.argument(
    "said",
    metavar="[done|not-done|again]",
    type=click.Choice([each.value for each in Settlement]),
    required=False,
    help="What you found out.",
)
@click.argument(
    "effect", metavar="[EFFECT]", required=False, help="Which action, if several are in doubt."
)
def main(call: Call, *, workstream: str, said: str | None, effect: str | None) -> None:
    """List actions beyond this machine that are in doubt, or settle one of them."""
    if said is None:
        _show(call, workstream)
        return
    in_words = {
        Settlement.DONE: "was done, you say: it is held back where a turn is gone on with",
        Settlement.NOT_DONE: "was not done, you say: nothing stands in its way any more",
        Settlement.AGAIN: "may be done again",
    }
    settled = call.with_project(
        lambda project: project.settle_effect(workstream, Settlement(said), effect)
    )
    call.output.json({**shapes.effect(settled), "settled": said})
    title = one_line(settled.effect.title)[:LINE_CHARACTERS_MAX]
    call.output.line(f"{settled.effect_id} {title}: {in_words[Settlement(said)]}")


def _show(call: Call, workstream: str) -> None:
    async def use(project: Project) -> tuple[Sequence[RecordedEffect], Sequence[RoleView]]:
        return await project.effects_held(workstream), (await project.show(workstream)).roles

    found, roles = call.with_project(use)
    output = call.output
    waiting = [
        {"address": role.conversation.address, "detail": role.last_turn.parked.detail}
        for role in roles
        if role.last_turn and role.last_turn.parked and role.last_turn.parked.reason == HELD_BACK
    ]
    is_in_doubt = {
        key: [shapes.effect(each) for each in found if each.effect.is_in_doubt is is_unknown]
        for key, is_unknown in (("in_doubt", True), ("done", False))
    }
    output.json({**is_in_doubt, "waiting": waiting})
    if not found:
        output.line(f"nothing of {one_line(workstream)} is held back")
        return
    rows = [(each.effect_id, each.conversation.address, each.effect.in_words) for each in found]
    head = ("EFFECT", "ADDRESS", "ACTION")
    write_table(output, head, rows, last_characters_max=LINE_CHARACTERS_MAX)
    for each in found:
        for look in each.looks:
            output.command(f"see what is there of {each.effect_id}: ", look)
    for held in waiting:
        output.line(f"{one_line(held['address'])} waits: {one_line(held['detail'])}", "yellow")
    output.line("look whether each was done; until you say something, nobody does it again:")
    for said in Settlement:
        output.command("  ", quoted("upthread", "effects", workstream, said, found[0].effect_id))
