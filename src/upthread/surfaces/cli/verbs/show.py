"""`upthread show`: the status of a workstream or of one conversation, and what was done."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from upthread.boundary import programs
from upthread.client.project import Project
from upthread.core.decision.handshake import in_words, reasons_in_words
from upthread.core.decision.words import became_in_words, lacking_in_words
from upthread.core.roles.limits import in_words as limits_in_words
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.types import Conversation
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.record.briefing import Briefing
from upthread.runtime.record.turn_views import RecordedEffect, Unseen
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.input import read_file
from upthread.surfaces.cli.terminal.output import Output, Styled, members
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import conversation_name, counted, one_line
from upthread.surfaces.cli.terminal.state_lines import (
    opening_command,
    write_cut_off,
    write_doubts,
    write_question,
    write_roles,
    write_standing,
    write_table,
)
from upthread.surfaces.cli.tree import write_tree


@options.verb
@click.argument(
    "what",
    metavar="WS|ADDRESS",
    help="A workstream or one conversation.",
    shell_complete=options.addresses,
)
@options.flag("--effects", "is_effects", "What was done to the world, and what is unknown.")
@options.flag("--tree", "is_tree", "The sessions, turns and sub-agents as a tree.")
@options.flag("--reply", "is_reply", "What the role replied in its last turn, all of it.")
@options.flag("--brief", "is_brief", "The briefing that a fresh session would get.")
@options.flag("--edit", "is_edit", "Edit the briefing; upthread keeps and marks your text.")
@click.option(
    "--from", "source", metavar="FILE", help="Take the briefing from a file, or - for stdin."
)
def main(
    call: Call,
    *,
    what: str,
    is_effects: bool,
    is_tree: bool,
    is_reply: bool,
    is_brief: bool,
    is_edit: bool,
    source: str | None,
) -> None:
    """Show the status of a workstream or of one conversation, or its briefing."""
    if is_brief or is_edit or source is not None:
        _show_briefing(call, what, is_edit=is_edit, source=source)
    elif is_reply:
        _show_reply(call, what)
    elif is_effects and not is_tree:
        _show_effects(call, what)
    else:
        call.with_project(lambda project: _show(call.output, project, what, is_tree=is_tree))


async def _show(output: Output, project: Project, what: str, *, is_tree: bool) -> None:
    view = await find_view(project, what)
    if is_tree:
        if isinstance(view, RoleView):
            name, only = view.conversation.key.workstream, view.conversation.conversation_id
        else:
            name, only = view.workstream.workstream, None
        # Written while it is read: a long record is never held whole.
        await project.with_audit(name, lambda timeline: write_tree(output, timeline, only))
    elif isinstance(view, RoleView):
        await _show_conversation(output, project, view)
    else:
        await _show_workstream(output, project, view)


def _show_reply(call: Call, address: str) -> None:
    async def use(project: Project) -> tuple[str, str]:
        view = await project.role(address)
        return view.conversation.address, await project.last_reply(view)

    name, reply = call.with_project(use)
    if call.output.is_json:
        call.output.json({"address": name, "reply": reply})
    elif reply:
        call.output.foreign_document(reply + "\n")
    else:
        call.output.note(f"{name}: its last turn has no reply")


def _show_effects(call: Call, what: str) -> None:
    """Show the actions of agents, with their state, in the order in which they happened."""

    async def use(project: Project) -> tuple[tuple[RecordedEffect, ...], Unseen]:
        view = await find_view(project, what)
        if isinstance(view, RoleView):
            conversations = [view.conversation]
        else:
            conversations = [*(role.conversation for role in view.roles), *view.children]
        return await project.effects(conversations), await project.unseen(conversations)

    effects, unseen = call.with_project(use)
    output = call.output
    told = {"effects": [shapes.effect(each) for each in effects]}
    output.json({**told, "unseen": shapes.unseen(unseen)})
    if effects:
        head = ("ADDRESS", "STATE", "REACH", "KEPT", "ACTION")
        rows = [
            (
                each.conversation.address,
                str(each.effect.state),
                "outward" if each.effect.actions else "local",
                "before" if each.effect.was_asked else "observed",
                each.effect.title,
            )
            for each in effects
        ]
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


async def find_view(project: Project, what: str) -> WorkstreamView | RoleView:
    """Return the named workstream or conversation. A name with a slash may be either.

    The workstream wins: it may be a branch's name.
    """
    try:
        return await project.show(what)
    except NotFoundError as error:
        try:
            address = await project.parse(what)
        # The first error is about the typed name.
        except UsageError:
            raise error from None
        slot = "" if address.slot == 1 else f"~{address.slot}"
        return await project.role(f"{address.workstream}/{address.role}{slot}")


# --- for people --------------------------------------------------------------------------------


async def _show_workstream(output: Output, project: Project, view: WorkstreamView) -> None:
    if output.is_json:
        output.json(shapes.workstream(view, await project.resume_commands(view.roles)))
        return
    interfaces = [await project.own_interface(role.link) for role in view.roles]
    known = view.workstream
    name = f" ({known.base_name})" if known.base_name else ""
    output.row((known.workstream, "bold"), f"{name}: ", view.state)
    write_standing(output, view.standing)
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
    for question in view.open_questions:
        suggested = view.suggested.get(question.question_id)
        write_question(output, view.workstream.workstream, question, suggested)
    write_doubts(output, view.workstream.workstream, view.in_doubt)
    if not view.roles:
        return
    output.line()
    for role, opened in zip(view.roles, interfaces, strict=True):
        if opened.command:
            output.command(f"  {_name_within(role.conversation)}: ", opening_command(opened))
    # Not added up here: it reads all that was said, and this is asked for all the time.
    output.command("  took: ", quoted("upthread", "savings", view.workstream.workstream))


def _name_within(conversation: Conversation) -> str:
    """Return the name of a conversation within its workstream, for example `planner~2`."""
    return conversation.address.rpartition("/")[2]


async def _show_conversation(output: Output, project: Project, view: RoleView) -> None:
    role = project.settings.roles.get(view.conversation.key.role)
    limits = limits_in_words(role.limits) if role else ()
    lacked, reading = await project.lacked(view), await project.reading(view.link)
    turns = len(lacked.turns)
    if output.is_json:
        output.json(
            {
                "workstream": view.conversation.key.workstream,
                **shapes.role(view, await project.resume_commands([view])),
                "limits": limits,
                "turns_lacking": turns,
                "not_compared": lacked.fault,
                "turns_gone": lacked.gone,
                "reading": reading,
            }
        )
        return
    opened = await project.own_interface(view.link)
    output.row((conversation_name(view.conversation), "bold"), f": {view.state}")
    lines = _role_lines(view)
    if lacking := lacking_in_words(turns, lacked.fault, lacked.gone):
        lines.append(("the record", one_line(lacking)))
    if reading:
        lines.append(("read", reading.in_words))
    lines += [("limited to", one_line(line)) for line in limits]
    write_standing(output, view.standing, lines)
    write_cut_off(output, view, indent=" " * 15)
    write_doubts(output, view.conversation.key.workstream, view.in_doubt)
    command = opening_command(opened)
    if opened.command is not None and command:
        output.command(f"  {'open it with':<13}", command)
        return
    output.row(f"  {'open it with':<13}", f"nothing: {opened.why_not}")
    if command:
        output.command(f"  {'open that by':<13}", command)
        if opened.there:
            output.line(f"  {'and there':<13}{one_line(opened.there)}")


def _role_lines(view: RoleView) -> list[Styled]:
    lines: list[Styled] = [("conversation", view.conversation.conversation_id)]
    if view.holder:
        lines.append(("held by", one_line(view.holder.in_words())))
    for link in view.chain:
        ended = f"; ended: {one_line(in_words(link.ended_because))}" if link.ended_because else ""
        opened = f"{one_line(link.agent)}; opened: {one_line(in_words(link.opened_because))}{ended}"
        session = one_line(link.upstream_session_id)
        lines.append((f"session {link.seq}", f"{session} ({opened})"))
    last = view.last_turn
    if last and last.intended:
        reasons = reasons_in_words(last.intended.reasons)
        decision, was_refused = last.intended.decision, last.was_refused
        done, why = became_in_words(decision, reasons, was_refused=was_refused)
        said = f"{done} ({why}), {view.ending.how}"
        lines.append(("last turn", f"{counted(view.turns, 'turn')}; {said}"))
    if view.verdict:
        lines.append(("verdict", view.verdict.in_words))
    return lines


# --- briefing -----------------------------------------------------------------------------------
# The briefing of a fresh session, which a person may edit.


def _show_briefing(call: Call, address: str, *, is_edit: bool, source: str | None) -> None:
    """Show a briefing, after a person edited it or gave its text in a file, `-` for stdin."""
    if is_edit and source is not None:
        raise UsageError("a briefing is edited or read from a file", hint="leave one of them out")
    given = None if source is None else read_file(source, "the briefing", "--from")

    async def use(project: Project) -> tuple[Briefing, tuple[str, ...]]:
        shown = await project.brief(address)
        if given is not None:
            return await project.edit_briefing(shown, given)
        if is_edit:
            return await project.edit_briefing(shown, _edited(shown.text))
        return shown, ()

    told, faults = call.with_project(use)
    output = call.output
    if output.is_json:
        output.json(
            {
                **members(told.conversation, "address instance_name conversation_id"),
                "text": told.text,
                "sections": [members(each, "heading is_edited items") for each in told.sections],
                "edits": told.edits,
                "faults": faults,
            }
        )
        return
    for fault in faults:
        output.note(fault)
    if told.text:
        output.foreign_document(told.text + "\n")
        return
    name = conversation_name(told.conversation)
    output.note(f"{name}: nothing is known yet, so a fresh session would be told nothing")


def _edited(text: str) -> str:
    """Return the text after a person's editor has had it. Raises UsageError when that fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("no editor is named", hint="set EDITOR, such as EDITOR=nano")
    with tempfile.TemporaryDirectory(prefix="upthread-") as folder:  # 0700: the text is private
        path = Path(folder, "briefing.md")
        path.write_text(text + "\n", encoding="utf-8", errors="replace")
        _run(editor, path)
        return read_file(str(path), "the briefing", "--from")


def _run(editor: str, path: Path) -> None:
    try:
        command = [*shlex.split(editor), str(path)]
    except ValueError as error:
        raise UsageError(f"EDITOR={editor!r} cannot be read: {error}") from error
    try:
        # Never from the repository: a clone must not choose the editor.
        found = programs.absolute_command(command, os.environ, outside=(os.curdir,))
        if found is None:
            raise UsageError(
                f"the editor {editor!r} is not on PATH outside of this repository",
                hint="set EDITOR to one that is installed, or to its whole path",
            )
        # A person's own program, so it gets the person's whole environment.
        environment = {**os.environ, "PATH": programs.search_path(os.environ)}
        # In the folder of the text: started in the clone, an editor may load the clone's settings.
        done = subprocess.run(found, cwd=path.parent, env=environment, check=False)
    except OSError as error:
        raise UsageError(
            f"the editor {editor!r} cannot be started: {error.strerror}",
            hint="set EDITOR to one that is installed",
        ) from error
    if done.returncode != 0:
        raise UsageError(
            f"the editor ended with exit code {done.returncode}: nothing was changed",
            hint="edit it again",
        )
