"""`run` and `answer`: a pipeline over a workstream, step by step, and the human's part in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from upthread.client import Project, RunOptions
from upthread.client.stores import is_postgres
from upthread.core.events import RunEvent, RunStarted
from upthread.core.handshake import Continuity
from upthread.core.pipeline import RunView
from upthread.core.price import Tokens
from upthread.core.reports import Report
from upthread.core.states import answer_command, run_command
from upthread.core.types import Outcome
from upthread.errors import UsageError
from upthread.runtime.delegation import TurnResult
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.asking import with_agent
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consenting import RUN, Needs
from upthread.surfaces.cli.neutral import one_line
from upthread.surfaces.cli.output import Output
from upthread.surfaces.cli.questions import write_question
from upthread.surfaces.cli.signals import ended_by_signals
from upthread.surfaces.cli.talking import Screen
from upthread.surfaces.cli.texts import read_prompt, read_specification
from upthread.surfaces.cli.words import counted, failure_in_words, spent_line, stopped_in_words

_ROLE_AGENT = re.compile(r"(?P<role>[a-z0-9][a-z0-9_-]*)=(?P<agent>.+)", re.DOTALL)
_STATUS_STYLES = {"approved": "green", "done": "green", "waiting_for_human": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was typed. Without a specification the newest run goes on."""

    workstream: str
    text: str | None = None
    specification_path: str | None = None
    agents: Sequence[str] = ()
    steps_max: int | None = None
    tokens_max: int | None = None
    is_waiting: bool = False
    is_detached: bool = False
    is_worktree: bool = False
    continuity: Continuity | None = None


def run(call: Call, asked: Run) -> int:
    """Carry a `run` out; returns its exit code."""
    output = call.output
    specification = _specification(asked)
    agent, agents = agents_by_role(asked.agents)
    screen = Screen(output, shows_reply=False)
    options = RunOptions(
        agents=agents,
        continuity=asked.continuity,
        steps_max=0 if asked.is_detached else asked.steps_max,
        tokens_max=asked.tokens_max,
        is_waiting=asked.is_waiting,
        is_worktree=asked.is_worktree,
        listener=screen.listener(),
        on_event=_event_printer(asked, output),
        on_result=_result_printer(output, screen),
    )

    async def use(project: Project, chosen: str | None) -> tuple[RunView, Tokens]:
        if asked.is_detached and not is_postgres(project.settings.database):
            raise UsageError(
                "there are no workers to leave a run to: they share a PostgreSQL database",
                hint="run it here, without --detach",
            )
        view = await project.run(asked.workstream, specification, replace(options, agent=chosen))
        return view, await project.spent_on_run(asked.workstream)

    needs = Needs(tables=RUN, is_run=True, notice=options.listener.notice)

    def attempt(chosen: str | None) -> tuple[RunView, Tokens]:
        return call.with_project(
            lambda up: use(up, chosen), ask_person=screen.ask_person, needs=needs
        )

    with ended_by_signals(screen.ids), screen:
        view, total = with_agent(output, attempt, agent)
    _end(asked, view, total, output)
    if asked.tokens_max is not None and not output.is_json:
        output.note(spent_line(asked.workstream, total, asked.tokens_max))
    return shapes.run_exit_code(shapes.run_status(view))


def answer(call: Call, *, workstream: str, question_id: str | None, text: str) -> int:
    """Answer an open question; tells what is still open, or how the run goes on."""
    given = read_prompt(text)

    async def use(project: Project) -> RunView:
        return await project.answer(workstream, given, question_id=question_id)

    view = call.with_project(use)
    output = call.output
    if output.is_json:
        output.json(shapes.run_state(workstream, view, next_commands=_next(workstream, view)))
    else:
        is_open = any(each.text == given for each in view.suggested.values())
        said = "suggested; a person decides" if is_open else "answered"
        output.line(f"{workstream}: {said}", "yellow" if is_open else "green")
        _tell_next(workstream, view, output)
    return shapes.run_exit_code(shapes.run_status(view))


def agents_by_role(given: Sequence[str]) -> tuple[str | None, dict[str, str]]:
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


def _specification(asked: Run) -> str | None:
    if asked.text is not None and asked.specification_path is not None:
        raise UsageError("a specification twice: as text and as --spec", hint="give one of them")
    if asked.specification_path is not None:
        return read_specification(asked.specification_path)
    return None if asked.text is None else read_prompt(asked.text)


# --- while it goes -----------------------------------------------------------------------------


def _event_printer(asked: Run, output: Output) -> Callable[[RunEvent], None]:
    def tell_event(event: RunEvent) -> None:
        if isinstance(event, RunStarted) and not output.is_json:
            number = f" · {counted(event.iteration, 'iteration')}" if event.iteration > 1 else ""
            output.line(f"{asked.workstream}: a run begins{number}", "bold")

    return tell_event


def _result_printer(output: Output, screen: Screen) -> Callable[[str, TurnResult], Awaitable[None]]:
    async def tell_result(_role: str, result: TurnResult) -> None:
        if output.is_json:
            output.json(shapes.turn_ended(result))
            return
        screen.hide()
        style, said = step_in_words(result)
        output.row(("  ", ""), (said, style))

    return tell_result


def step_in_words(result: TurnResult) -> tuple[str, str]:
    """Return the style and the line that tells what a step came to."""
    if result.parked is not None:
        parked = result.parked
        said, _ = stopped_in_words(parked.reason, detail=parked.detail, until_ms=parked.reset_at_ms)
        return "yellow", f"parked: {one_line(parked.detail) or said}"
    if result.outcome is not Outcome.OK:
        return "red", one_line(_failure(result))
    return _report_in_words(result.report)


def _failure(result: TurnResult) -> str:
    said, _ = failure_in_words(result)
    return said


def _report_in_words(report: Report | None) -> tuple[str, str]:
    if report is None:
        return "yellow", "no report that can be read"
    if report.status == "needs_input":
        return "yellow", f"asks {counted(len(report.questions), 'question')}"
    if report.status == "blocked":
        return "red", f"blocked: {one_line(report.summary)}"
    if report.verdict is None:
        return "", f"done: {_first_line(report.summary)}"
    evidence = "; ".join(report.verdict.evidence)
    style = "green" if report.verdict.result == "approved" else "yellow"
    return style, one_line(
        f"{report.verdict.result}: {evidence}" if evidence else report.verdict.result
    )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    more = f" (and {counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    return one_line(lines[0], characters_max=160) + more if lines else "no summary"


# --- at the end --------------------------------------------------------------------------------


def _end(asked: Run, view: RunView, total: Tokens, output: Output) -> None:
    workstream = asked.workstream
    if output.is_json:
        if view.open_questions:
            output.json(shapes.waiting(workstream, view))
        output.json(shapes.ran(workstream, view, total, next_commands=_next(workstream, view)))
        return
    status = shapes.run_status(view)
    style = _STATUS_STYLES.get(status, "")
    output.row((f"{workstream}: ", "bold"), (status.replace("_", " "), style))
    if view.ended:
        for evidence in view.ended.evidence:
            output.line(f"  {one_line(evidence)}")
    if asked.is_detached and status == "running":
        output.line("  left to the workers: upthread ls --workers", "dim")
    else:
        _tell_next(workstream, view, output)


def _tell_next(workstream: str, view: RunView, output: Output) -> None:
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
    for command in _next(workstream, view):
        if not command.startswith("upthread answer"):
            then = "then go on" if view.open_questions else "go on"
            output.command(f"  {then}: ", command)


def _next(workstream: str, view: RunView) -> list[str]:
    if view.ended:
        return []
    answers = [answer_command(workstream, each.question_id) for each in view.open_questions]
    is_limited = view.parked is not None and view.parked.reset_at_ms is not None
    return [*answers, run_command(workstream, is_limited=is_limited)]
