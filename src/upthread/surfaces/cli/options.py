"""How a verb is declared: the verb itself, and the options that several verbs take.

A verb is a function `main` in a file of its own in `verbs/`, with one line in `program.VERBS`:

    @verb
    @address
    @options.flag("--turn", "is_turn", "Only free the conversation.")
    def main(call: Call, *, address: str, is_turn: bool) -> int:
        '''Say what the verb does. Its help page shows this text.'''

click reads the line, prints the help and completes words in the shell. This module adds what click
does not do: options that stand before or after the verb, texts that begin with a dash, and names
from the record for completion.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from click import Context, Option, Parameter

from upthread.core.agents import AGENTS, WITH_A_STORE
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output

Main = TypeVar("Main", bound=Callable[..., int | None])

OFFERED_MAX = 500
HELP = ("-h", "--help")
SETTINGS = {"max_content_width": 100}

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*(?:~[0-9]+)?")
"""A name without quotes, blanks, expansions or colons. Completion scripts of shells evaluate names,
and names may come from a repository or from an agent (ADR 65)."""


class Verb(click.Command):
    """One verb. Options of every verb may stand among its own."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the words after the verb."""
        typed = before_dashes(args)
        # Checked first: a person who asks for help may have typed something wrong.
        if not set(HELP).isdisjoint(typed):
            return super().parse_args(ctx, ["--help"])
        return super().parse_args(ctx, _texts_last(ctx, typed, args[len(typed) :]))

    def invoke(self, ctx: Context) -> Any:
        """Run the verb, and return its exit code."""
        call = ctx.find_object(Call)
        assert call is not None
        assert self.callback is not None
        call.verb = ctx.info_name or ""
        return self.callback(call, **ctx.params) or 0


def verb(main: Callable[..., int | None]) -> Verb:
    """Declare the function of a verb; its docstring is the help.

    The function returns the exit code, or nothing where all went well.
    """
    made = click.command(cls=Verb, add_help_option=False, context_settings=SETTINGS)(main)
    made.params += COMMON
    return made


def before_dashes(words: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`, among which options are read."""
    return words[: words.index("--")] if "--" in words else words


def _texts_last(ctx: Context, typed: Sequence[str], literal: Sequence[str]) -> list[str]:
    """Return the words with texts such as "- first this, then that" moved behind `--`.

    Raises BadOptionUsage for an option whose value would be the next option: click would take
    `forget --role --dry-run` for the role `--dry-run`.
    """
    options = [each for each in ctx.command.get_params(ctx) if isinstance(each, Option)]
    names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
    with_value = {name for each in options if not each.is_flag for name in each.opts}
    kept: list[str] = []
    texts: list[str] = []
    owner = ""
    for word in typed:
        if owner and word in names:
            raise click.BadOptionUsage(owner, f"Option {owner!r} requires an argument.", ctx)
        is_text = word.startswith("-") and len(word.split()) > 1 and not owner
        is_option = word.partition("=")[0] in names or word[:2] in names
        (texts if is_text and not is_option else kept).append(word)
        owner = word if word in with_value and not owner else ""
    return [*kept, "--", *texts, *literal[1:]] if texts else [*kept, *literal]


# --- options of every verb ---------------------------------------------------------------------


def _show_help(ctx: Context, _option: Parameter, is_asked: bool) -> None:  # noqa: FBT001  # by click
    if is_asked and not ctx.resilient_parsing:
        show(ctx, ctx.get_help())


def show(ctx: Context, text: str) -> None:
    """Print a text in place of running a verb."""
    call = ctx.find_object(Call)
    assert call is not None
    call.output.document(f"{text}\n")
    ctx.exit()


def _enter(_ctx: Context, _option: Parameter, directories: Sequence[str]) -> None:
    # One after the other, as git does: the second is relative to the first.
    for directory in directories:
        try:
            os.chdir(directory)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot enter {directory!r}: {reason}", hint="-C DIRECTORY"
            ) from error


def _print_json(ctx: Context, _option: Parameter, is_asked: bool) -> None:  # noqa: FBT001  # by click
    if is_asked and (call := ctx.find_object(Call)):
        call.output = Output(is_json=True)


def _keep(ctx: Context, option: Parameter, value: str | bool | None) -> None:  # noqa: FBT001  # by click
    if value is not None and option.name:
        if isinstance(value, str) and value.startswith("-"):  # before a verb: not read by us
            raise click.BadParameter(f"{value!r} looks like an option.", ctx, option)
        setattr(ctx.find_object(Call), option.name, value)


COMMON = (
    Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_print_json,
        help="Print JSON, for programs.",
    ),
    Option(
        ["--db", "database"],
        metavar="URL",
        expose_value=False,
        callback=_keep,
        help="Another database: a file path, or postgres://…",
    ),
    Option(
        ["--project"],
        metavar="ID",
        expose_value=False,
        callback=_keep,
        help="Which project of a shared database this is.",
    ),
    Option(
        ["-C", "--directory"],
        metavar="DIR",
        multiple=True,
        expose_value=False,
        callback=_enter,
        help="Work as if started in DIR.",
    ),
    Option(
        HELP,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_help,
        help="Show this and end.",
    ),
)
"""What may stand before a verb and after it."""


# --- completion in the shell -------------------------------------------------------------------


def _known(ctx: Context) -> list[tuple[str, list[str]]]:
    """Return each workstream of the project that the line is about, with its addresses."""
    from upthread.client.project import Project

    async def use(project: Project) -> list[tuple[str, list[str]]]:
        return [
            (view.workstream.workstream, [role.conversation.address for role in view.roles])
            for view in await project.workstreams()
        ]

    call = ctx.find_object(Call)
    return call.with_project(use) if call else []


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    plain = (name for name in names if _PLAIN.fullmatch(name) and name.startswith(incomplete))
    return list(plain)[:OFFERED_MAX]


def workstreams(ctx: Context, _: Parameter, incomplete: str) -> list[str]:
    """Return the workstreams that begin like this."""
    return _offered((name for name, _ in _known(ctx)), incomplete)


def addresses(ctx: Context, _: Parameter, incomplete: str) -> list[str]:
    """Return the addresses that begin like this, and their workstreams."""
    known = _known(ctx)
    return _offered((name for pair in known for name in (pair[0], *pair[1])), incomplete)


def _offering(*names: str) -> Callable[[Context, Parameter, str], list[str]]:
    return lambda _ctx, _option, incomplete: _offered(names, incomplete)


agents = _offering(*AGENTS)
agents_to_set_up = _offering(*(each.setup_name for each in AGENTS.values()))
"""The agents as `upthread setup` calls them."""
stores = _offering("upthread", *WITH_A_STORE)
"""The agents whose own store upthread reads, and upthread."""


# --- parameters of several verbs ---------------------------------------------------------------

address = click.argument(
    "address",
    metavar="ADDRESS",
    help="WORKSTREAM/ROLE, for example spec-42/planner, or an instance name.",
    shell_complete=addresses,
)
workstream = click.argument(
    "workstream",
    metavar="WS",
    help="The workstream, for example spec-42.",
    shell_complete=workstreams,
)
workstream_or_all = click.argument(
    "workstream",
    metavar="[WS]",
    required=False,
    help="Only this workstream; without it, all.",
    shell_complete=workstreams,
)
agent = click.option(
    "--agent", metavar="A", help='opencode, …, or acp:"COMMAND".', shell_complete=agents
)
one_agent_only = click.option(
    "--agent", metavar="A", help="Only this agent.", shell_complete=agents_to_set_up
)
tokens_max = click.option(
    "--tokens-max",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop before a turn that would pass N.",
)
port = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The port to listen on; 0 for any free port.",
)
dry_run = click.option(
    "--dry-run",
    "is_dry_run",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Only show what would be done.",
)
yes = click.option(
    "-y", "--yes", "is_yes", is_flag=True, expose_value=False, callback=_keep, help="Do not ask."
)


def flag(name: str, parameter: str, text: str) -> Callable[[Main], Main]:
    """Declare an option without a value; `text` is its help."""
    return click.option(name, parameter, is_flag=True, help=text)
