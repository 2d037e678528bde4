"""`run` and `answer`: a pipeline over a workstream, step by step, and the human's part in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import structs

from upthread.client.project import Project
from upthread.core.decision.price import Tokens
from upthread.core.events import RunEvent, RunParked, RunStarted
from upthread.core.lazy_regex import regex
from upthread.core.runs.pipeline import RunView
from upthread.core.states import answer_command, effects_command, run_command
from upthread.core.types import Outcome
from upthread.errors import UsageError
from upthread.runtime.options import RunOptions
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.runtime.turns.progress import Listener, TurnResult
from upthread.store.address import is_postgres
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.call import Call, ended_by_signals
from upthread.surfaces.cli.terminal.input import read_prompt, read_specification, with_agent
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import (
    counted,
    failure_in_words,
    message_in,
    spaced,
    spent_line,
    stopped_in_words,
)
from upthread.surfaces.cli.terminal.report_veil import report_in_words
from upthread.surfaces.cli.verbs.consent import RUN, Needs
from upthread.surfaces.cli.verbs.effects import doubt_notice, write_doubts, write_question
from upthread.surfaces.cli.verbs.tell import Screen, limit_notice

TellResult: TypeAlias = Callable[[str, TurnResult], Awaitable[None]]

_ROLE_AGENT = regex(r"(?P<role>[a-z0-9][a-z0-9_-]*)=(?P<agent>.+)", re.DOTALL)
_STATUS_STYLES = {"approved": "green", "done": "green", "waiting_for_human": "yellow"}


class Ran(NamedTuple):
    """A run as it is left, what it has taken, and how its workstream stands."""

    view: RunView
    total: Tokens
    stands: WorkstreamView


def run(
    call: Call,
    workstream: str,
    specification: str | None,
    chosen: RunOptions,
    *,
    is_detached: bool,
) -> int:
    """Carry a `run` out; returns its exit code. No specification goes on with the newest run."""
    output = call.output
    screen = Screen(output, shows_reply=False)
    listener = screen.listener()
    on_event = _event_printer(workstream, chosen, output, screen)
    options = structs.replace(chosen, listener=listener, on_event=on_event)
    tell_result = _result_printer(output, screen)

    async def use(project: Project, agent: str | None) -> Ran:
        # Before the run is begun: without workers nobody would ever take it on.
        if is_detached and not is_postgres(project.settings.database):
            raise UsageError(
                "there are no workers to leave a run to: they share a PostgreSQL database",
                hint="run it here, without --detach",
            )
        on_result = _doubt_teller(project, tell_result, listener)
        named = structs.replace(options, agent=agent, on_result=on_result)
        view = await project.run(workstream, specification, named)
        total = await project.spent_on_run(workstream)
        return Ran(view, total, await project.show(workstream))

    needs = Needs(tables=RUN, is_run=True, notice=listener.notice)

    def attempt(agent: str | None) -> Ran:
        return call.with_project(
            lambda up: use(up, agent), ask_person=screen.ask_person, needs=needs
        )

    with ended_by_signals(screen.ids, screen.has_ended), screen:
        ended = with_agent(output, attempt, chosen.agent)
    _end(workstream, ended, output, is_detached=is_detached)
    if chosen.tokens_max is not None and not output.is_json:
        output.note(spent_line(workstream, ended.total, chosen.tokens_max))
    is_in_doubt = bool(ended.stands.in_doubt)
    return shapes.run_exit_code(shapes.run_status(ended.view), is_in_doubt=is_in_doubt)


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


def specification(text: str | None, path: str | None) -> str | None:
    """Return what is to be done, as typed or from its file; None goes on. Raises UsageError."""
    if text is not None and path is not None:
        raise UsageError("a specification twice: as text and as --spec", hint="give one of them")
    if path is not None:
        return read_specification(path)
    return None if text is None else read_prompt(text)


# --- while it goes -----------------------------------------------------------------------------


def _event_printer(
    workstream: str, chosen: RunOptions, output: Output, screen: Screen
) -> Callable[[RunEvent], None]:
    def tell_event(event: RunEvent) -> None:
        if chosen.is_waiting and isinstance(event, RunParked) and event.reset_at_ms is not None:
            screen.tell_limit(limit_notice(workstream, run_command(workstream), event))
        if isinstance(event, RunStarted) and not output.is_json:
            number = f" · {counted(event.iteration, 'iteration')}" if event.iteration > 1 else ""
            output.line(f"{workstream}: a run begins{number}", "bold")

    return tell_event


def _result_printer(output: Output, screen: Screen) -> TellResult:
    async def tell_result(_role: str, result: TurnResult) -> None:
        if output.is_json:
            output.json(shapes.turn_ended(result))
            return
        screen.hide()
        style, said = step_in_words(result)
        output.row(("  ", ""), (said, style))

    return tell_result


def _doubt_teller(project: Project, tell_result: TellResult, listener: Listener) -> TellResult:
    """Return what tells a step's result, and then each action that is in doubt by now, once."""
    told: set[str] = set()

    async def tell(role: str, result: TurnResult) -> None:
        await tell_result(role, result)
        for doubt in await project.effects_in_doubt(result.conversation.key.workstream):
            # After each step, and once: a person can look while the rest goes on.
            if doubt.effect_id not in told:
                told.add(doubt.effect_id)
                listener.notice(doubt_notice(doubt))

    return tell


def step_in_words(result: TurnResult) -> tuple[str, str]:
    """Return the style and the line that tells what a step came to."""
    if result.parked is not None:
        parked = result.parked
        said, _ = stopped_in_words(parked.reason, detail=parked.detail, until_ms=parked.reset_at_ms)
        return "yellow", f"parked: {one_line(message_in(parked.detail)) or said}"
    if result.outcome is not Outcome.OK:
        return "red", one_line(_failure(result))
    return report_in_words(result.report)


def _failure(result: TurnResult) -> str:
    said, _ = failure_in_words(result)
    return said


# --- at the end --------------------------------------------------------------------------------


def _end(workstream: str, ended: Ran, output: Output, *, is_detached: bool) -> None:
    view = ended.view
    if output.is_json:
        if view.open_questions:
            output.json(shapes.waiting(workstream, view))
        settling = [effects_command(workstream)] if ended.stands.in_doubt else []
        commands = [*settling, *_next(workstream, view)]
        stands = ended.stands
        output.json(
            shapes.ran(workstream, view, ended.total, next_commands=commands, stands=stands)
        )
        return
    status = shapes.run_status(view)
    is_in_doubt = bool(ended.stands.in_doubt)
    style = "yellow" if is_in_doubt else _STATUS_STYLES.get(status, "")
    said = spaced(status) + (", but in doubt" if is_in_doubt else "")
    output.row((f"{workstream}: ", "bold"), (said, style))
    if view.ended:
        for evidence in view.ended.evidence:
            output.line(f"  {one_line(evidence)}")
    write_doubts(output, workstream, ended.stands.in_doubt)
    if is_detached and status == "running":
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
