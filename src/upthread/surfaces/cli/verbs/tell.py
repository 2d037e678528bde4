"""`upthread tell`: one turn with one role, shown as it happens."""

from __future__ import annotations

from typing import NamedTuple

import click

from upthread.client.project import Project
from upthread.core.decision.words import Tokens
from upthread.errors import UsageError
from upthread.runtime.record.turn_views import RecordedEffect
from upthread.runtime.turns.delegation import TellOptions, TurnResult
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call, ended_by_signals
from upthread.surfaces.cli.consent import TURN, Needs
from upthread.surfaces.cli.terminal.input import read_prompt, with_agent
from upthread.surfaces.cli.terminal.phrases import command, spent_line
from upthread.surfaces.cli.terminal.screen import Screen
from upthread.surfaces.cli.terminal.state_lines import note_doubts


class Told(NamedTuple):
    """The result of a turn, the tokens of its conversation, and the actions in doubt."""

    result: TurnResult
    total: Tokens
    in_doubt: tuple[RecordedEffect, ...]


@options.verb
@options.address
@click.argument(
    "text", metavar="[TEXT]", required=False, help="The prompt; - reads standard input."
)
@options.agent
@click.option(
    "--sibling",
    "is_sibling",
    is_flag=True,
    help="If the role is busy, open a second conversation of it.",
)
@click.option(
    "--wait", "is_waiting", is_flag=True, help="Wait for another turn, and for a rate limit."
)
@click.option(
    "--continue", "continues", is_flag=True, help="Continue an interrupted or parked turn."
)
@options.tokens_max
@click.option("--fresh", "is_fresh", is_flag=True, help="Start a fresh session.")
def main(
    call: Call,
    *,
    address: str,
    text: str | None,
    agent: str | None,
    is_sibling: bool,
    is_waiting: bool,
    continues: bool,
    tokens_max: int | None,
    is_fresh: bool,
) -> int:
    """Run one turn with one role: it continues its session, or says why it cannot."""
    call.is_stream = True
    if continues and text is not None:
        raise UsageError(
            "--continue takes no text", hint="it continues with the prompt that was sent"
        )
    if not continues and text is None:
        raise UsageError(
            "there is nothing to tell", hint=f'{command("upthread", "tell", address)} "…"'
        )
    if is_sibling and is_waiting:
        raise UsageError("--sibling and --wait exclude each other", hint="choose one")
    output = call.output
    screen = Screen(output)
    # Before the project is opened, because standard input may be slow or missing.
    prompt = None if text is None else read_prompt(text)
    listener = screen.listener()

    async def use(project: Project, agent: str | None) -> Told:
        chosen = TellOptions(
            agent=agent,
            when_busy="sibling" if is_sibling else "wait" if is_waiting else "refuse",
            is_waiting=is_waiting,
            is_fresh=is_fresh,
            tokens_max=tokens_max,
            listener=listener,
        )
        if prompt is None:
            result = await project.go_on(address, chosen)
        else:
            result = await project.tell(address, prompt, chosen)
        total = await project.spent(result.conversation)
        workstream = result.conversation.key.workstream
        return Told(result, total, await project.effects_in_doubt(workstream))

    def attempt(agent: str | None) -> Told:
        needs = Needs(tables=TURN, address=address, agent=agent, notice=listener.notice)
        return call.with_project(
            lambda up: use(up, agent), ask_person=screen.ask_person, needs=needs
        )

    # The screen is inside, so that its status line is gone before a signal is reported.
    with ended_by_signals(screen.ids, screen.has_ended), screen:
        result, total, doubts = with_agent(output, attempt, agent)
    if output.is_json:
        output.json(shapes.turn_ended(result))
        output.json(shapes.told(result, total, in_doubt=doubts))
    else:
        screen.end(result)
        note_doubts(output, result.conversation.key.workstream, doubts)
        if tokens_max is not None:
            output.note(spent_line(result.conversation.address, total, tokens_max))
    return shapes.told_exit_code(result, doubts)
