"""`show`, `why`, and what was done. They read, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from upthread.core.decision.freshness import change_lines
from upthread.core.decision.handshake import in_words, reasons_in_words
from upthread.core.decision.model import freshness_in, lacking_in, limit_in, price_in
from upthread.core.decision.words import (
    done_in_words,
    intention_in_words,
    lacking_in_words,
    ordinal,
    price_in_words,
)
from upthread.core.roles.limits import in_words as limits_in_words
from upthread.core.sessions import OwnInterface
from upthread.core.states import Standing
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.types import Conversation, Decision
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import (
    conversation_name,
    counted,
    standing_in_words,
    stopped_in_words,
)
from upthread.surfaces.cli.terminal.table import write_table
from upthread.surfaces.cli.terminal.times import since
from upthread.surfaces.cli.verbs.effects import write_doubts, write_question
from upthread.surfaces.cli.verbs.listing import write_roles

if TYPE_CHECKING:
    from upthread.client import Project, Why
    from upthread.core.decision.read_coverage import Reading
    from upthread.runtime.record.effects import RecordedEffect, Unseen


class Shown(NamedTuple):
    """What was found, and how the session of each of its roles is opened, in their order.

    `limits` are those of the role's file, in words, and `lacking` what the record lacks of its
    session, where one address was asked for.
    """

    view: WorkstreamView | RoleView
    interfaces: Sequence[OwnInterface]
    command_of: shapes.CommandOf
    limits: Sequence[str] = ()
    lacking: tuple[int, str] = (0, "")
    reading: Reading | None = None


def show(call: Call, what: str) -> int:
    """Show a workstream, or one conversation."""

    async def use(project: Project) -> Shown:
        view = await found(project, what)
        roles = (view,) if isinstance(view, RoleView) else view.roles
        interfaces = [await project.own_interface(role.link) for role in roles]
        named = roles[0].conversation.key.role if isinstance(view, RoleView) else ""
        role = project.settings.roles.get(named)
        limits = limits_in_words(role.limits) if role else ()
        if not isinstance(view, RoleView):
            return Shown(view, interfaces, project.command_of)
        lacked, reading = await project.why.lacked(view), await project.reading(view.link)
        lacking = (len(lacked.turns), lacked.fault)
        return Shown(view, interfaces, project.command_of, limits, lacking, reading)

    shown = call.with_project(use, is_reading=True)
    if isinstance(shown.view, RoleView):
        _show_role(call.output, shown.view, shown)
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

    effects, unseen = call.with_project(use, is_reading=True)
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


def why(call: Call, address: str, *, agent: str | None) -> int:
    """Show the last decision, and what would be decided now."""

    async def use(project: Project) -> tuple[Why, RoleView]:
        return await project.why(address, agent=agent), await project.role(address)

    found, view = call.with_project(use, is_reading=True)
    output = call.output
    session = view.link.upstream_session_id if view.link else None
    if output.is_json:
        instance_name = view.conversation.instance_name
        output.json({"instance_name": instance_name, **shapes.why(found)})
        return 0
    output.row((conversation_name(view.conversation), "bold"), (f": {found.standing.state}", ""))
    output.line(f"  state {standing_in_words(found.standing)}", "dim")
    if found.standing.command:
        output.command("        go on with ", found.standing.command)
    if found.last is not None:
        last = done_in_words(found.last.decision, one_line(session or ""))
        number = f" · {ordinal(view.turns)} turn" if view.turns else ""
        output.line(f"  last  {last}{number}: {reasons_in_words(found.last.reasons)}")
        _write_grounds(output, found.last)
    _write_cut_off(output, view, indent="        ")
    write_doubts(output, view.conversation.key.workstream, view.in_doubt)
    if found.reading is not None:
        output.line(f"  read  {found.reading.in_words}")
    now = intention_in_words(found.now.decision, one_line(session or ""))
    output.line(f"  next  it would {now}: {reasons_in_words(found.now.reasons)}")
    _write_grounds(output, found.now)
    if found.now.hint:
        output.line(f"        {found.now.hint}", "dim")
    # Told only where it differs: nearly always both ways come to the same.
    if found.inside and found.inside.reasons[0] != found.now.reasons[0]:
        _write_inside(output, found.inside_agent, found.inside, session)
    return 0


def _write_inside(output: Output, agent: str, inside: Decision, session: str | None) -> None:
    """Write what becomes of a call that the agent makes itself, which may be something else."""
    would = intention_in_words(inside.decision, one_line(session or ""))
    output.line(f"  in    {agent}, called by its own tool, it would {would}:")
    output.line(f"        {reasons_in_words(inside.reasons)}", "dim")


def _write_cut_off(output: Output, view: RoleView, *, indent: str) -> None:
    """Write what is known of a last turn that stopped before its end."""
    if view.cut_off is None:
        return
    happened, asked = view.cut_off.lines
    for line in (happened, asked, *view.cut_off.actions):
        output.line(f"{indent}{one_line(line)}", "dim")


def _write_grounds(output: Output, decision: Decision) -> None:
    """Write what a decision rests on: the changed files, and what each way would cost."""
    for line in change_lines(freshness_in(decision.inputs)):
        output.line(f"        {one_line(line)}", "dim")
    limit = limit_in(decision.inputs)
    if limit is not None:
        said, _ = stopped_in_words(limit.reason, detail="", until_ms=limit.until_ms)
        output.line(f"        {said}", "dim")
    lacking = lacking_in_words(*lacking_in(decision.inputs))
    if lacking:
        output.line(f"        {one_line(lacking)}", "dim")
    price = price_in_words(price_in(decision.inputs))
    if price:
        output.line(f"        {price}", "dim")


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
        "outward" if effect.is_outward else "local",
        "before" if effect.was_asked else "observed",
        effect.title,
    )


def _show_workstream(output: Output, view: WorkstreamView, shown: Shown) -> None:
    if output.is_json:
        output.json(shapes.workstream(view, shown.command_of))
        return
    known = view.workstream
    name = f" ({known.base_name})" if known.base_name else ""
    output.row((known.workstream, "bold"), (f"{name}: ", ""), (view.state, ""))
    for label, value in _standing_lines(view.standing):
        output.row((f"  {label:<13}", "dim"), (value, ""))
    _write_going_on(output, view.standing)
    if view.roles:
        output.line()
        write_roles(output, view)
    for role in view.roles:
        name = _name_within(role.conversation)
        if role.verdict:
            output.line(f"  {name}: {role.verdict.in_words}")
        if role.cut_off:
            output.line(f"  {name}:")
            _write_cut_off(output, role, indent="    ")
    _show_questions(output, view)
    write_doubts(output, view.workstream.workstream, view.in_doubt)
    commands = [
        (
            _name_within(role.conversation),
            _command(opened) if opened.command else "",
        )
        for role, opened in zip(view.roles, shown.interfaces, strict=True)
    ]
    if any(command for _, command in commands):
        output.line()
        for name, command in commands:
            if command:
                output.command(f"  {name}: ", command)


def _name_within(conversation: Conversation) -> str:
    """Return what tells a conversation from the others of its workstream: `planner~2`."""
    return conversation.key.address.rpartition("/")[2]


def _show_questions(output: Output, view: WorkstreamView) -> None:
    for question in view.open_questions:
        suggested = view.suggested.get(question.question_id)
        write_question(output, view.workstream.workstream, question, suggested)


def _show_role(output: Output, view: RoleView, shown: Shown) -> None:
    if output.is_json:
        told = {"workstream": view.conversation.key.workstream}
        turns, fault = shown.lacking
        lacked = {"turns_lacking": turns, "not_compared": fault}
        more = {**lacked, "reading": shapes.reading(shown.reading)}
        role = shapes.role(view, shown.command_of)
        output.json({**told, **role, "limits": [*shown.limits], **more})
        return
    output.row((conversation_name(view.conversation), "bold"), (f": {view.state}", ""))
    limits = [("limited to", one_line(line)) for line in shown.limits]
    known = [("read", shown.reading.in_words)] if shown.reading else []
    lacking = lacking_in_words(*shown.lacking)
    older = [("the record", one_line(lacking))] if lacking else []
    more_lines = (*older, *known, *limits)
    for label, value in (*_standing_lines(view.standing), *_role_lines(view), *more_lines):
        output.row((f"  {label:<13}", "dim"), (value, ""))
    _write_going_on(output, view.standing)
    _write_cut_off(output, view, indent=" " * 15)
    write_doubts(output, view.conversation.key.workstream, view.in_doubt)
    _write_own_interface(output, shown.interfaces[0])


def _write_own_interface(output: Output, opened: OwnInterface) -> None:
    """Write with what a session is opened in its agent's own interface, or why with nothing."""
    command = _command(opened)
    if opened.command is not None and command:
        output.command(f"  {'open it with':<13}", command)
        return
    output.row((f"  {'open it with':<13}", ""), (f"nothing: {opened.why_not}", ""))
    if command:
        output.command(f"  {'open that by':<13}", command)
        if opened.there:
            output.line(f"  {'and there':<13}{one_line(opened.there)}")


def _standing_lines(standing: Standing) -> list[tuple[str, str]]:
    """Why it stands so, since when, by whom, and what a person can do."""
    lines = [("because", standing_in_words(standing))]
    if standing.since_ms is not None:
        by = f", by {one_line(standing.agent)}" if standing.agent else ""
        lines.append(("since", f"{since(standing.since_ms)}{by}"))
    if standing.cure:
        lines.append(("what helps", standing.cure))
    return lines


def _write_going_on(output: Output, standing: Standing) -> None:
    if standing.command:
        output.command(f"  {'go on with':<13}", standing.command)


def _role_lines(view: RoleView) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = [("conversation", view.conversation.conversation_id)]
    if view.holder:
        lines.append(("held by", one_line(view.holder.in_words())))
    for link in view.chain:
        ended = f"; ended: {one_line(in_words(link.ended_because))}" if link.ended_because else ""
        opened = f"{one_line(link.agent)}; opened: {one_line(in_words(link.opened_because))}{ended}"
        session = one_line(link.upstream_session_id)
        lines.append((f"session {link.seq}", f"{session} ({opened})"))
    last = view.last_turn
    if last and last.intended:
        why = reasons_in_words(last.intended.reasons)
        said = f"{done_in_words(last.intended.decision, None)} ({why}), {view.ending.how}"
        lines.append(("last turn", f"{counted(view.turns, 'turn')}; {said}"))
    if view.verdict:
        lines.append(("verdict", view.verdict.in_words))
    return lines


def _command(opened: OwnInterface) -> str:
    """Return the command that opens a session, or the main one it is reached from; else empty."""
    command = opened.command or opened.main_command
    if command is None:
        return ""
    return f"{quoted('cd', opened.working_directory)} && {quoted(*command)}"
