"""Lines about the state of a role or a workstream: why, since when, what waits for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from upthread.core.events import AnswerSuggested, Question
from upthread.core.runs.pipeline import RunView
from upthread.core.sessions import OwnInterface
from upthread.core.states import (
    LOOK,
    Standing,
    answer_command,
    doubts_in_words,
    effects_command,
    run_command,
)
from upthread.core.text import LINE_CHARACTERS_MAX
from upthread.core.types import Conversation, Link
from upthread.errors import NotFoundError
from upthread.runtime.record.effects import RecordedEffect
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.runtime.turns.progress import Notice
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import (
    one_line,
    since,
    standing_in_words,
    stopped_in_words,
)
from upthread.surfaces.cli.terminal.table import write_table

DOUBTS_SHOWN_MAX: Final = 10


def standing_lines(standing: Standing) -> list[tuple[str, str]]:
    """Return the lines of a state: its reason, since when, by which agent, and the cure."""
    lines = [("because", standing_in_words(standing))]
    if standing.since_ms is not None:
        by = f", by {one_line(standing.agent)}" if standing.agent else ""
        lines.append(("since", f"{since(standing.since_ms)}{by}"))
    if standing.cure:
        lines.append(("what helps", standing.cure))
    return lines


def write_going_on(output: Output, standing: Standing) -> None:
    """Write the command that continues, if there is one."""
    if standing.command:
        output.command(f"  {'go on with':<13}", standing.command)


def write_cut_off(output: Output, view: RoleView, *, indent: str) -> None:
    """Write the facts about a last turn that stopped before its end."""
    if view.cut_off is None:
        return
    happened, asked = view.cut_off.lines
    for line in (happened, asked, *view.cut_off.actions):
        output.line(f"{indent}{one_line(line)}", "dim")


def opening_command(opened: OwnInterface) -> str:
    """Return the command that opens a session, or the main one it is reached from; else empty."""
    command = opened.command or opened.main_command
    if command is None:
        return ""
    return f"{quoted('cd', opened.working_directory)} && {quoted(*command)}"


def doubt_notice(doubt: RecordedEffect) -> Notice:
    """Return the notice about an action in doubt."""
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
    """Write the actions in doubt, and the command that settles them."""
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
    """Write the actions in doubt to standard error, beside an agent's reply."""
    for text, words in _doubt_lines(workstream, doubts):
        output.note(f"{text}{words}", "" if words else "yellow")


def _doubt_lines(workstream: str, doubts: Sequence[RecordedEffect]) -> Iterator[tuple[str, str]]:
    """Yield lines, each with the command at its end, or an empty text."""
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


def write_next(workstream: str, view: RunView, output: Output) -> None:
    """Write why a run waits, its questions, and the command that continues it."""
    if view.parked and not view.ended:
        parked = view.parked
        said, hint = stopped_in_words(
            parked.reason, detail=parked.detail, until_ms=parked.reset_at_ms
        )
        output.line(f"  {parked.role}: {said}" if parked.role else f"  {said}")
        if hint:
            output.line(f"  {hint}", "dim")
    for question in view.open_questions:
        write_question(output, workstream, question, view.suggested.get(question.question_id))
    if view.open_questions:
        output.line()
    for command in next_commands(workstream, view):
        if not command.startswith("upthread answer"):
            then = "then go on" if view.open_questions else "go on"
            output.command(f"  {then}: ", command)


def next_commands(workstream: str, view: RunView) -> list[str]:
    """Return the commands that answer the open questions and continue the run."""
    if view.ended:
        return []
    answers = [answer_command(workstream, each.question_id) for each in view.open_questions]
    is_limited = view.parked is not None and view.parked.reset_at_ms is not None
    return [*answers, run_command(workstream, is_limited=is_limited)]


def write_roles(output: Output, view: WorkstreamView) -> None:
    """Write how each role of a workstream stands."""
    head = ("ADDRESS", "NAME", "STATE", "SINCE", "TURNS", "LAST TURN", "AGENT", "SESSION")
    rows = [
        (
            role.conversation.key.address,
            role.conversation.instance_name,
            role.state,
            since(role.standing.since_ms),
            str(role.turns),
            role.ending.how,
            role.link.agent if role.link else "—",
            role.link.upstream_session_id if role.link else "—",
        )
        for role in view.roles
    ]
    write_table(output, head, rows)


def open_link(conversation: Conversation, link: Link | None) -> Link:
    """Return the open link of a conversation; raises NotFoundError when it has none."""
    if link is None:
        address = conversation.key.address
        raise NotFoundError(
            f"{address} has no open session",
            hint=f'start one: {quoted("upthread", "tell", address)} "…"',
            address=address,
        )
    return link
