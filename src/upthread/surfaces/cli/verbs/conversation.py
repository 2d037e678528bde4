"""`show` of one conversation: its sessions, its last turn, and how it is opened."""

from __future__ import annotations

from upthread.core.decision.handshake import in_words, reasons_in_words
from upthread.core.decision.words import (
    became_in_words,
    lacking_in_words,
)
from upthread.core.sessions import OwnInterface
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import (
    conversation_name,
    counted,
)
from upthread.surfaces.cli.verbs.effects import write_doubts
from upthread.surfaces.cli.verbs.state_lines import (
    Shown,
    opening_command,
    standing_lines,
    write_cut_off,
    write_going_on,
)


def show(output: Output, view: RoleView, shown: Shown) -> None:
    """Show one conversation."""
    if output.is_json:
        told = {"workstream": view.conversation.key.workstream}
        turns, fault, gone = shown.lacking
        lacked = {"turns_lacking": turns, "not_compared": fault, "turns_gone": gone}
        more = {**lacked, "reading": shapes.reading(shown.reading)}
        role = shapes.role(view, shown.commands)
        output.json({**told, **role, "limits": [*shown.limits], **more})
        return
    output.row((conversation_name(view.conversation), "bold"), (f": {view.state}", ""))
    limits = [("limited to", one_line(line)) for line in shown.limits]
    known = [("read", shown.reading.in_words)] if shown.reading else []
    lacking = lacking_in_words(*shown.lacking)
    older = [("the record", one_line(lacking))] if lacking else []
    more_lines = (*older, *known, *limits)
    for label, value in (*standing_lines(view.standing), *_role_lines(view), *more_lines):
        output.row((f"  {label:<13}", "dim"), (value, ""))
    write_going_on(output, view.standing)
    write_cut_off(output, view, indent=" " * 15)
    write_doubts(output, view.conversation.key.workstream, view.in_doubt)
    _write_own_interface(output, shown.interfaces[0])


def _write_own_interface(output: Output, opened: OwnInterface) -> None:
    """Write with what a session is opened in its agent's own interface, or why with nothing."""
    command = opening_command(opened)
    if opened.command is not None and command:
        output.command(f"  {'open it with':<13}", command)
        return
    output.row((f"  {'open it with':<13}", ""), (f"nothing: {opened.why_not}", ""))
    if command:
        output.command(f"  {'open that by':<13}", command)
        if opened.there:
            output.line(f"  {'and there':<13}{one_line(opened.there)}")


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
        reasons = reasons_in_words(last.intended.reasons)
        decision, was_refused = last.intended.decision, last.was_refused
        done, why = became_in_words(decision, reasons, was_refused=was_refused)
        said = f"{done} ({why}), {view.ending.how}"
        lines.append(("last turn", f"{counted(view.turns, 'turn')}; {said}"))
    if view.verdict:
        lines.append(("verdict", view.verdict.in_words))
    return lines
