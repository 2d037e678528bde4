"""`upthread run`: the pipeline on a workstream, step by step."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import click

from upthread.client.project import Project
from upthread.core.decision.words import Tokens
from upthread.core.events import RunEvent, RunParked, RunStarted
from upthread.core.runs.pipeline import RunView
from upthread.core.states import effects_command, run_command
from upthread.core.types import Continuity, Outcome
from upthread.errors import UsageError
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.runtime.turns.delegation import RunOptions, TurnResult
from upthread.store.address import is_postgres
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import RUN, Needs
from upthread.surfaces.cli.terminal.input import read_file, read_prompt
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import (
    counted,
    failure_in_words,
    message_in,
    one_line,
    parked_in_words,
    spaced,
    spent_line,
)
from upthread.surfaces.cli.terminal.screen import Screen, limit_notice, report_in_words
from upthread.surfaces.cli.terminal.state_lines import (
    doubt_notice,
    next_commands,
    write_doubts,
    write_next,
)

_ROLE_AGENT = re.compile(r"(?P<role>[a-z0-9][a-z0-9_-]*)=(?P<agent>.+)", re.DOTALL)
_STATUS_STYLES = {"approved": "green", "done": "green", "waiting_for_human": "yellow"}


class Ran(NamedTuple):
    """A run, the tokens it used, and the status of its workstream."""

    view: RunView
    total: Tokens
    stands: WorkstreamView


@options.verb
@options.workstream
@click.argument(
    "text", metavar="[TEXT]", required=False, help="The specification; without it, continue."
)
@click.option("--spec", metavar="FILE", help="The specification's file.")
@click.option(
    "--agent",
    "agents",
    metavar="A|ROLE=A",
    multiple=True,
    help="The agent, for all roles or for one.",
    shell_complete=options.agents,
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Stop after N steps.")
@options.tokens_max
@options.flag("--detach", "is_detached", "Take no step: leave the run to workers.")
@options.flag("--wait", "is_waiting", "Wait for another run, and for a rate limit.")
@options.flag("--worktree", "is_worktree", "Work in a git worktree of its own, on its own branch.")
@click.option(
    "--continuity",
    type=click.Choice(["resume", "fresh", "auto"]),
    help="For all roles, in place of their own.",
)
def main(
    call: Call,
    *,
    workstream: str,
    text: str | None,
    spec: str | None,
    agents: Sequence[str],
    steps: int | None,
    tokens_max: int | None,
    is_detached: bool,
    is_waiting: bool,
    is_worktree: bool,
    continuity: Continuity | None,
) -> int:
    """Run the pipeline on a workstream until it ends or needs you."""
    call.is_stream = True
    given = _specification(text, spec)
    everyone, by_role = _agents_by_role(agents)
    output = call.output
    screen = Screen(output, shows_reply=False)
    listener = screen.listener()

    def tell_event(event: RunEvent) -> None:
        if is_waiting and isinstance(event, RunParked) and event.reset_at_ms is not None:
            screen.tell_limit(limit_notice(workstream, run_command(workstream), event))
        if isinstance(event, RunStarted):
            number = f" · {counted(event.iteration, 'iteration')}" if event.iteration > 1 else ""
            output.line(f"{workstream}: a run begins{number}", "bold")

    async def use(project: Project, agent: str | None) -> Ran:
        # Checked before the run starts, because without workers no process would continue it.
        if is_detached and not is_postgres(project.settings.database):
            raise UsageError(
                "there are no workers to leave a run to: they share a PostgreSQL database",
                hint="run it here, without --detach",
            )
        chosen = RunOptions(
            agent=agent,
            agents=by_role,
            steps_max=0 if is_detached else steps,
            tokens_max=tokens_max,
            is_waiting=is_waiting,
            is_worktree=is_worktree,
            continuity=continuity,
            listener=listener,
            on_event=tell_event,
            on_result=_result_teller(project, output, screen),
        )
        view = await project.run(workstream, given, chosen)
        total = await project.spent_on_run(workstream)
        return Ran(view, total, await project.show(workstream))

    needs = Needs(tables=RUN, is_run=True, notice=listener.notice)
    with screen.ended_by_signals():
        ended = call.with_agent(use, everyone, needs=needs, ask_person=screen.ask_person)
    code = _end(workstream, ended, output, is_detached=is_detached)
    if tokens_max is not None:
        output.remark(spent_line(workstream, ended.total, tokens_max))
    return code


def _agents_by_role(given: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Split `--agent A` and `--agent ROLE=A`. Raises UsageError for two agents for all roles."""
    everyone: list[str] = []
    by_role: dict[str, str] = {}
    for each in given:
        found = _ROLE_AGENT.fullmatch(each)
        if found:
            by_role[found["role"]] = found["agent"]
        else:
            everyone.append(each)
    if len(everyone) > 1:
        raise UsageError(
            f"two agents for all roles: {', '.join(everyone)}", hint="name roles: --agent ROLE=A"
        )
    return (everyone[0] if everyone else None), by_role


def _specification(text: str | None, path: str | None) -> str | None:
    """Return the specification, typed or from a file, or None to continue. Raises UsageError."""
    if text is not None and path is not None:
        raise UsageError("a specification twice: as text and as --spec", hint="give one of them")
    if path is not None:
        return read_file(path, "the specification", "--spec")
    return None if text is None else read_prompt(text)


# --- while it goes -----------------------------------------------------------------------------


def _result_teller(
    project: Project, output: Output, screen: Screen
) -> Callable[[str, TurnResult], Awaitable[None]]:
    """Return a callback that shows a step's result, and each action in doubt once."""
    told: set[str] = set()
    notice = screen.listener().notice

    async def tell(_role: str, result: TurnResult) -> None:
        output.json(shapes.turn_ended(result))
        screen.hide()
        style, said = step_in_words(result)
        output.row("  ", (said, style))
        for doubt in await project.effects_in_doubt(result.conversation.key.workstream):
            # After each step, so that a person can check while the run continues.
            if doubt.effect_id not in told:
                told.add(doubt.effect_id)
                notice(doubt_notice(doubt))

    return tell


def step_in_words(result: TurnResult) -> tuple[str, str]:
    """Return the style and the line for the result of a step."""
    if result.parked is not None:
        said, _ = parked_in_words(result.parked)
        return "yellow", f"parked: {one_line(message_in(result.parked.detail)) or said}"
    if result.outcome is not Outcome.OK:
        said, _ = failure_in_words(result)
        return "red", one_line(said)
    return report_in_words(result.report)


# --- at the end --------------------------------------------------------------------------------


def _end(workstream: str, ended: Ran, output: Output, *, is_detached: bool) -> int:
    """Tell how the run ended or stands; returns the exit code."""
    view, doubts = ended.view, ended.stands.in_doubt
    if view.open_questions:
        output.json(shapes.waiting(workstream, view))
    settling = [effects_command(workstream)] if doubts else []
    commands = [*settling, *next_commands(workstream, view)]
    output.json(
        shapes.ran(workstream, view, ended.total, next_commands=commands, stands=ended.stands)
    )
    status = shapes.run_status(view)
    style = "yellow" if doubts else _STATUS_STYLES.get(status, "")
    said = spaced(status) + (", but in doubt" if doubts else "")
    output.row((f"{workstream}: ", "bold"), (said, style))
    if view.ended:
        for evidence in view.ended.evidence:
            output.line(f"  {one_line(evidence)}")
    write_doubts(output, workstream, doubts)
    if is_detached and status == "running":
        output.line("  left to the workers: upthread ls --workers", "dim")
    else:
        write_next(workstream, view, output)
    return shapes.run_exit_code(status, is_in_doubt=bool(doubts))
