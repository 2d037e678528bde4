"""Lines about the state of a role or a workstream: why, since when, what waits for a person."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from upthread.core.events import AnswerSuggested, Question
from upthread.core.runs.pipeline import RunView
from upthread.core.states import (
    LOOK,
    OwnInterface,
    Standing,
    State,
    answer_command,
    doubts_in_words,
    effects_command,
    run_command,
)
from upthread.core.text import LINE_CHARACTERS_MAX, visible_ends
from upthread.core.types import Conversation, Link
from upthread.errors import NotFoundError
from upthread.runtime.record.turn_views import RecordedEffect
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.runtime.turns.delegation import Notice
from upthread.surfaces.cli.terminal.output import Output, Styled
from upthread.surfaces.cli.terminal.output import width as _width
from upthread.surfaces.cli.terminal.phrases import command as quoted
from upthread.surfaces.cli.terminal.phrases import (
    one_line,
    parked_in_words,
    since,
    standing_in_words,
)

DOUBTS_SHOWN_MAX = 10


def write_standing(output: Output, standing: Standing, more: Sequence[Styled] = ()) -> None:
    """Write a state: its reason, since when, by which agent, and the cure; `more` lines below.

    The command that continues comes last, if there is one.
    """
    lines = [("because", standing_in_words(standing))]
    if standing.since_ms is not None:
        by = f", by {one_line(standing.agent)}" if standing.agent else ""
        lines.append(("since", f"{since(standing.since_ms)}{by}"))
    if standing.cure:
        lines.append(("what helps", standing.cure))
    for label, value in (*lines, *more):
        output.row((f"  {label:<13}", "dim"), value)
    if standing.command:
        output.command(f"  {'go on with':<13}", standing.command)


def write_cut_off(output: Output, view: RoleView, *, indent: str) -> None:
    """Write the facts about a last turn that stopped before its end."""
    if view.cut_off is None:
        return
    happened, asked = view.cut_off.lines()
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
    address, title = doubt.conversation.address, one_line(doubt.effect.title)
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


def write_doubts(
    output: Output, workstream: str, doubts: Sequence[RecordedEffect], *, is_beside: bool = False
) -> None:
    """Write the actions in doubt, and the command that settles them.

    `is_beside` writes them to standard error, beside an agent's reply.
    """
    if not doubts:
        return
    lines = [(f"  {doubts_in_words(len(doubts))}:", "")]
    for doubt in doubts[:DOUBTS_SHOWN_MAX]:
        title = one_line(doubt.effect.title)[:LINE_CHARACTERS_MAX]
        lines.append((f"    {doubt.conversation.address}: {title}", ""))
        lines += [("      see what is there: ", look) for look in doubt.looks]
    if len(doubts) > DOUBTS_SHOWN_MAX:
        lines.append((f"    and {len(doubts) - DOUBTS_SHOWN_MAX} more", ""))
    lines.append(("    ", effects_command(workstream)))
    for text, command in lines:
        if is_beside:
            output.remark(f"{text}{command}", "" if command else "yellow")
        elif command:
            output.command(text, command)
        else:
            output.line(text, "yellow")


def write_doubt_line(output: Output, workstream: str, doubts: Sequence[RecordedEffect]) -> None:
    """Write in one line how many actions of a workstream are in doubt, and where they are shown."""
    if doubts:
        said = f"{one_line(workstream)}: {doubts_in_words(len(doubts))}: "
        output.command(said, effects_command(workstream))


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
    output.row((head, "bold"), f"  {one_line(first)}")
    if more:
        output.quote(more.strip("\n"), "    ")


def write_next(workstream: str, view: RunView, output: Output) -> None:
    """Write why a run waits, its questions, and the command that continues it."""
    if view.parked and not view.ended:
        said, hint = parked_in_words(view.parked)
        output.line(f"  {view.parked.role}: {said}" if view.parked.role else f"  {said}")
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
            role.conversation.address,
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
        address = conversation.address
        raise NotFoundError(
            f"{address} has no open session",
            hint=f'start one: {quoted("upthread", "tell", address)} "…"',
            address=address,
        )
    return link


# --- table --------------------------------------------------------------------------------------
# Tables: aligned columns of plain text, wide characters counted as the terminal shows them.

Row: TypeAlias = tuple[str, ...]

GAP = "  "
CELL_CHARACTERS_MAX = 60

LAST_COLUMNS_MIN = 20
"""How many columns there must be for a last one that is longer, for a table to be one."""

_STATE_STYLES: Mapping[str, str] = {
    State.RUNNING: "cyan",
    State.APPROVED: "green",
    State.WAITING: "yellow",
    State.PARKED: "yellow",
    State.INTERRUPTED: "yellow",
    State.UNSETTLED: "yellow",
    State.OUTDATED: "yellow",
    State.HALFWAY: "cyan",
    State.BLOCKED: "red",
    State.FAILED: "red",
}


def write_table(
    output: Output,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    last_characters_max: int = CELL_CHARACTERS_MAX,
) -> None:
    """Write a table; a cell that is the word of a state has that state's colour.

    The last column may be wider than the others: what does not fit beside them is wrapped. On a
    terminal too narrow for that, each row is written as a record, a line for each of its cells.
    """
    cells = [
        [
            *(one_line(cell, characters_max=CELL_CHARACTERS_MAX) for cell in row[:-1]),
            # Both ends, since of a command the last word may be the one that matters.
            visible_ends(row[-1], characters_max=last_characters_max),
        ]
        for row in rows
    ]
    widths = [max(_width(row[column]) for row in (head, *cells)) for column in range(len(head))]
    beside = sum(widths[:-1]) + len(GAP) * (len(head) - 1)
    if output.columns is not None and beside + min(widths[-1], LAST_COLUMNS_MIN) > output.columns:
        for row in cells:
            _write_record(output, head, row)
        return
    _write_row(output, head, widths, style="dim")
    for row in cells:
        _write_row(output, row, widths)


def _write_record(output: Output, head: Sequence[str], row: Sequence[str]) -> None:
    """Write a row under its first cell; a cell with nothing in it says nothing."""
    output.line(row[0], "bold")
    label_width = max(map(_width, head))
    for label, cell in zip(head[1:], row[1:], strict=True):
        if cell:
            name = f"  {label.lower()}{' ' * (label_width - _width(label))}{GAP}"
            output.row((name, "dim"), (cell, _STATE_STYLES.get(cell, "")))


def _write_row(output: Output, row: Sequence[str], widths: Sequence[int], style: str = "") -> None:
    pieces: list[Styled] = []
    last = len(row) - 1
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        pieces.append((cell, style or _STATE_STYLES.get(cell, "")))
        if column != last:
            pieces.append((" " * (width - _width(cell)) + GAP, ""))
    output.row(*pieces)
