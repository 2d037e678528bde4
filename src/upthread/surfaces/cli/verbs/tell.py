"""`upthread tell`: one turn with one role, shown as it happens."""

import click

from upthread.client.project import Project
from upthread.core.decision.words import Tokens
from upthread.errors import UsageError
from upthread.runtime.record.turn_views import RecordedEffect
from upthread.runtime.turns.delegation import TellOptions, TurnResult
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import TURN, Needs
from upthread.surfaces.cli.terminal.input import read_file, read_prompt
from upthread.surfaces.cli.terminal.phrases import command, spent_line
from upthread.surfaces.cli.terminal.screen import Screen
from upthread.surfaces.cli.terminal.state_lines import write_doubts


@options.verb
@options.address
@click.argument(
    "text", metavar="[TEXT]", required=False, help="The prompt; - reads standard input."
)
@options.agent
@options.flag("--sibling", "is_sibling", "If the role is busy, open a second conversation of it.")
@options.flag("--wait", "is_waiting", "Wait for another turn, and for a rate limit.")
@options.flag("--continue", "continues", "Continue an interrupted or parked turn.")
@options.tokens_max
@options.flag("--fresh", "is_fresh", "Start a fresh session.")
@click.option(
    "--briefing", "source", metavar="FILE", help="What a new session starts from; - for stdin."
)
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
    source: str | None,
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
    if source is not None and (continues or source == text == "-"):
        raise UsageError(
            "a briefing goes with a prompt of its own", hint="tell ADDRESS TEXT --briefing FILE"
        )
    if is_sibling and is_waiting:
        raise UsageError("--sibling and --wait exclude each other", hint="choose one")
    output = call.output
    screen = Screen(output)
    # Before the project is opened, because standard input may be slow or missing.
    prompt = None if text is None else read_prompt(text)
    briefing = "" if source is None else read_file(source, "the briefing", "--briefing")
    listener = screen.listener()

    async def use(
        project: Project, agent: str | None
    ) -> tuple[TurnResult, Tokens, tuple[RecordedEffect, ...]]:
        chosen = TellOptions(
            agent=agent,
            when_busy="sibling" if is_sibling else "wait" if is_waiting else "refuse",
            is_waiting=is_waiting,
            is_fresh=is_fresh,
            tokens_max=tokens_max,
            listener=listener,
            briefing=briefing,
        )
        if prompt is None:
            result = await project.go_on(address, chosen)
        else:
            result = await project.tell(address, prompt, chosen)
        total = await project.spent(result.conversation)
        workstream = result.conversation.key.workstream
        return result, total, await project.effects_in_doubt(workstream)

    needs = Needs(tables=TURN, address=address, notice=listener.notice)
    with screen.ended_by_signals():
        result, total, doubts = call.with_agent(
            use, agent, needs=needs, ask_person=screen.ask_person
        )
    output.json(shapes.turn_ended(result))
    output.json(shapes.told(result, total, in_doubt=doubts))
    screen.end(result)
    if doubts:
        write_doubts(output, result.conversation.key.workstream, doubts, is_beside=True)
    if tokens_max is not None:
        output.remark(spent_line(result.conversation.address, total, tokens_max))
    return shapes.told_exit_code(result, doubts)
