"""`effects`, and what a person is asked: what is held back beyond this machine, open questions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from upthread.client.project import Project
from upthread.core.events import AnswerSuggested, Question
from upthread.core.states import LOOK, answer_command, doubts_in_words, effects_command
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.turns.effects import Settlement
from upthread.core.turns.turn import HELD_BACK
from upthread.errors import UsageError
from upthread.runtime.record.effects import RecordedEffect
from upthread.runtime.record.workstream_views import RoleView
from upthread.runtime.turns.progress import Notice
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call, who_acts
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.table import write_table

DOUBTS_SHOWN_MAX: Final = 10


def show(call: Call, workstream: str) -> int:
    """Show what is held back, and how a person settles it."""

    async def use(project: Project) -> tuple[Sequence[RecordedEffect], Sequence[RoleView]]:
        return await project.effects_held(workstream), (await project.show(workstream)).roles

    found, roles = call.with_project(use)
    output = call.output
    waiting = [
        {"address": role.conversation.key.address, "detail": role.last_turn.parked.detail}
        for role in roles
        if role.last_turn and role.last_turn.parked and role.last_turn.parked.reason == HELD_BACK
    ]
    if output.is_json:
        is_in_doubt = {
            key: [shapes.effect(each) for each in found if each.effect.is_in_doubt is is_unknown]
            for key, is_unknown in (("in_doubt", True), ("done", False))
        }
        output.json({**is_in_doubt, "waiting": waiting})
        return 0
    if not found:
        output.line(f"nothing of {one_line(workstream)} is held back")
        return 0
    rows = [(each.effect_id, each.conversation.key.address, each.effect.in_words) for each in found]
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
    return 0


def settle(call: Call, workstream: str, said: str, effect_id: str | None) -> int:
    """Keep what a person says of one of them."""
    in_words = {
        Settlement.DONE: "was done, you say: it is held back where a turn is gone on with",
        Settlement.NOT_DONE: "was not done, you say: nothing stands in its way any more",
        Settlement.AGAIN: "may be done again",
    }
    if said not in set(Settlement):
        words = ", ".join(Settlement)
        raise UsageError(f"{said!r} is not one of: {words}", hint="look whether it was done")

    async def use(project: Project) -> RecordedEffect:
        by = who_acts(os.environ)
        return await project.settle_effect(workstream, Settlement(said), effect_id, by=by)

    settled = call.with_project(use)
    if call.output.is_json:
        call.output.json({**shapes.effect(settled), "settled": said})
        return 0
    title = one_line(settled.effect.title)[:LINE_CHARACTERS_MAX]
    call.output.line(f"{settled.effect_id} {title}: {in_words[Settlement(said)]}")
    return 0


def doubt_notice(doubt: RecordedEffect) -> Notice:
    """Return what is told of an action as soon as it is in doubt."""
    workstream = doubt.conversation.key.workstream
    address, title = doubt.conversation.key.address, one_line(doubt.effect.title)
    settle = effects_command(workstream)
    about = {
        "effect_id": doubt.effect_id,
        "address": address,
        "title": doubt.effect.title,
        "command": settle,
        "look": "; ".join(doubt.looks),
    }
    said = f"{address}: {title}: may have been done, or not; {LOOK}: {settle}"
    return Notice(kind="in_doubt", text=said, about=about)


def write_doubts(output: Output, workstream: str, doubts: Sequence[RecordedEffect]) -> None:
    """Write what may have been done to the outside, and where a person says so."""
    for text, words in _doubt_lines(workstream, doubts):
        if words:
            output.command(text, words)
        else:
            output.line(text, "yellow")


def write_doubt_line(output: Output, workstream: str, doubts: Sequence[RecordedEffect]) -> None:
    """Write in one line how many actions of a workstream are in doubt, and where they are shown."""
    if doubts:
        said = f"{one_line(workstream)}: {doubts_in_words(len(doubts))}: "
        output.command(said, effects_command(workstream))


def note_doubts(output: Output, workstream: str, doubts: Sequence[RecordedEffect]) -> None:
    """Tell it beside what was asked for, which is an agent's reply."""
    for text, words in _doubt_lines(workstream, doubts):
        output.note(f"{text}{words}", "" if words else "yellow")


def _doubt_lines(workstream: str, doubts: Sequence[RecordedEffect]) -> Iterator[tuple[str, str]]:
    """Yield lines, each with the command that it ends in, empty for none."""
    if not doubts:
        return
    yield f"  {doubts_in_words(len(doubts))}:", ""
    for doubt in doubts[:DOUBTS_SHOWN_MAX]:
        title = one_line(doubt.effect.title)[:LINE_CHARACTERS_MAX]
        yield f"    {doubt.conversation.key.address}: {title}", ""
        for look in doubt.looks:
            yield "      see what is there: ", look
    if len(doubts) > DOUBTS_SHOWN_MAX:
        yield f"    and {len(doubts) - DOUBTS_SHOWN_MAX} more", ""
    yield "    ", effects_command(workstream)


def write_question(
    output: Output, workstream: str, question: Question, suggested: AnswerSuggested | None
) -> None:
    """Write a question, what a model would answer, and the command that answers it.

    What a role or a model said in more than a line is behind a bar.
    """
    output.line()
    _write_said(output, f"  {one_line(question.question_id)}", question.text)
    if suggested is not None:
        _write_said(output, f"    suggested by {suggested.by.in_words}:", suggested.text)
    output.command("    ", answer_command(workstream, question.question_id))


def _write_said(output: Output, head: str, text: str) -> None:
    first, _, more = text.strip("\n").partition("\n")
    if len(first) > LINE_CHARACTERS_MAX:
        first, more = "", text
    output.row((head, "bold"), (f"  {one_line(first)}", ""))
    if more:
        output.quote(more.strip("\n"), "    ")
