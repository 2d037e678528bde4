"""`show`, and what was done. They read, and change nothing."""

from __future__ import annotations

from upthread.client.project import Project
from upthread.core.roles.limits import in_words as limits_in_words
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.types import Conversation
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.effects import RecordedEffect
from upthread.runtime.record.turn_views import Unseen
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.table import write_table
from upthread.surfaces.cli.verbs import conversation
from upthread.surfaces.cli.verbs.effects import write_doubts, write_question
from upthread.surfaces.cli.verbs.listing import write_roles
from upthread.surfaces.cli.verbs.state_lines import (
    Shown,
    opening_command,
    standing_lines,
    write_cut_off,
    write_going_on,
)


def show(call: Call, what: str) -> int:
    """Show a workstream, or one conversation."""

    async def use(project: Project) -> Shown:
        view = await found(project, what)
        roles = (view,) if isinstance(view, RoleView) else view.roles
        interfaces = [await project.own_interface(role.link) for role in roles]
        commands = await project.resume_commands(roles)
        if not isinstance(view, RoleView):
            return Shown(view, interfaces, commands)

        role = project.settings.roles.get(view.conversation.key.role)
        limits = limits_in_words(role.limits) if role else ()
        lacked, reading = await project.why.lacked(view), await project.reading(view.link)
        lacking = (len(lacked.turns), lacked.fault, lacked.gone)
        return Shown(view, interfaces, commands, limits, lacking, reading)

    shown = call.with_project(use)
    if isinstance(shown.view, RoleView):
        conversation.show(call.output, shown.view, shown)
    else:
        _show_workstream(call.output, shown.view, shown)
    return 0


def show_effects(call: Call, what: str) -> int:
    """Show what agents did to the world: done, failed, or unknown, in the order of each one."""

    async def use(project: Project) -> tuple[tuple[RecordedEffect, ...], Unseen]:
        view = await found(project, what)
        if isinstance(view, RoleView):
            conversations = [view.conversation]
        else:
            conversations = [*(role.conversation for role in view.roles), *view.children]
        return await project.effects(conversations), await project.unseen(conversations)

    effects, unseen = call.with_project(use)
    output = call.output
    if output.is_json:
        told = {"effects": [shapes.effect(each) for each in effects]}
        output.json({**told, "unseen": shapes.unseen(unseen)})
        return 0
    if effects:
        head = ("ADDRESS", "STATE", "REACH", "KEPT", "ACTION")
        rows = [_effect_row(each) for each in effects]
        write_table(output, head, rows, last_characters_max=LINE_CHARACTERS_MAX)
    reason = one_line(unseen.in_words)
    if not reason:
        if not effects:
            output.line(f"nothing was done to the world in {one_line(what)}")
    elif effects:
        output.line(f"this may not be all: {reason}", "yellow")
    else:
        output.line(
            f"whether anything was done to the world in {one_line(what)} is not known: {reason}"
        )
    return 0


async def found(project: Project, what: str) -> WorkstreamView | RoleView:
    """Return what was named. A name with a slash may be a workstream or an address.

    The workstream wins: it may be a branch's name.
    """
    try:
        return await project.show(what)
    except NotFoundError as error:
        try:
            address = await project.parse(what)
        # The first error is the one about what was typed.
        except UsageError:
            raise error from None
        return await project.role(f"{address.workstream}/{address.role}{_slot(address.slot)}")


def _slot(slot: int) -> str:
    return "" if slot == 1 else f"~{slot}"


# --- for people --------------------------------------------------------------------------------


def _effect_row(recorded: RecordedEffect) -> tuple[str, ...]:
    effect = recorded.effect
    return (
        recorded.conversation.key.address,
        str(effect.state),
        "outward" if effect.actions else "local",
        "before" if effect.was_asked else "observed",
        effect.title,
    )


def _show_workstream(output: Output, view: WorkstreamView, shown: Shown) -> None:
    if output.is_json:
        output.json(shapes.workstream(view, shown.commands))
        return
    known = view.workstream
    name = f" ({known.base_name})" if known.base_name else ""
    output.row((known.workstream, "bold"), (f"{name}: ", ""), (view.state, ""))
    for label, value in standing_lines(view.standing):
        output.row((f"  {label:<13}", "dim"), (value, ""))
    write_going_on(output, view.standing)
    if view.roles:
        output.line()
        write_roles(output, view)
    for role in view.roles:
        name = _name_within(role.conversation)
        if role.verdict:
            output.line(f"  {name}: {role.verdict.in_words}")
        if role.cut_off:
            output.line(f"  {name}:")
            write_cut_off(output, role, indent="    ")
    _show_questions(output, view)
    write_doubts(output, view.workstream.workstream, view.in_doubt)
    _show_commands(output, view, shown)


def _show_commands(output: Output, view: WorkstreamView, shown: Shown) -> None:
    """Write what opens each role's session, and where what it took is told.

    That is not added up here: it reads all that was said, and this is asked for all the time.
    """
    commands = [
        (_name_within(role.conversation), opening_command(opened))
        for role, opened in zip(view.roles, shown.interfaces, strict=True)
        if opened.command
    ]
    if view.roles:
        commands.append(("took", quoted("upthread", "savings", view.workstream.workstream)))
        output.line()
    for name, command in commands:
        output.command(f"  {name}: ", command)


def _name_within(conversation: Conversation) -> str:
    """Return what tells a conversation from the others of its workstream: `planner~2`."""
    return conversation.key.address.rpartition("/")[2]


def _show_questions(output: Output, view: WorkstreamView) -> None:
    for question in view.open_questions:
        suggested = view.suggested.get(question.question_id)
        write_question(output, view.workstream.workstream, question, suggested)
