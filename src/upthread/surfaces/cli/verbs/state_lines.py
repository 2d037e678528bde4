"""How a role or a workstream stands, as `show` and `why` say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from upthread.core.decision.read_coverage import Reading
from upthread.core.sessions import OwnInterface
from upthread.core.states import Standing
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.terminal.neutral import command as quoted
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import standing_in_words
from upthread.surfaces.cli.terminal.times import since


class Shown(NamedTuple):
    """What was found, and how the session of each of its roles is opened, in their order.

    `limits` are those of the role's file, in words, and `lacking` what the record lacks of its
    session, where one address was asked for.
    """

    view: WorkstreamView | RoleView
    interfaces: Sequence[OwnInterface]
    commands: shapes.Commands
    limits: Sequence[str] = ()
    lacking: tuple[int, str, str] = (0, "", "")
    reading: Reading | None = None


def standing_lines(standing: Standing) -> list[tuple[str, str]]:
    """Why it stands so, since when, by whom, and what a person can do."""
    lines = [("because", standing_in_words(standing))]
    if standing.since_ms is not None:
        by = f", by {one_line(standing.agent)}" if standing.agent else ""
        lines.append(("since", f"{since(standing.since_ms)}{by}"))
    if standing.cure:
        lines.append(("what helps", standing.cure))
    return lines


def write_going_on(output: Output, standing: Standing) -> None:
    """Write the command that a person goes on with, where there is one."""
    if standing.command:
        output.command(f"  {'go on with':<13}", standing.command)


def write_cut_off(output: Output, view: RoleView, *, indent: str) -> None:
    """Write what is known of a last turn that stopped before its end."""
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
