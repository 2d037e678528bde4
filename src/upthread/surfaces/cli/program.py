"""The program `upthread`: arguments in, exit code out. The last place an error can reach.

A line names a verb or asks for help. Only the verb that is called is imported.
"""

import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from importlib import import_module

import click
from click import Command, Context, Parameter
from click.exceptions import Exit
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from upthread import __version__
from upthread.core.names import did_you_mean
from upthread.errors import UpthreadError, UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.failures import failure_of, tell, tell_bug
from upthread.surfaces.cli.options import COMMON, SETTINGS, Verb, before_dashes, show
from upthread.surfaces.cli.terminal.output import Output

NAME = "upthread"
ASKED_BY_SHELL = "_UPTHREAD_COMPLETE"
"""The variable by which a shell asks for the next word."""

LISTED = {
    "tell": "Run one turn with one role: it continues its session, or says why it cannot.",
    "run": "Run the pipeline on a workstream until it ends or needs you.",
    "answer": "Answer a question that a role asked.",
    "ls": "List the workstreams, or the roles of one.",
    "show": "Show the status of a workstream or conversation, or its briefing.",
    "why": "Show the last decision, and what would be decided now.",
    "open": "Resume a session in the agent's own interface.",
    "search": "Search our record and the agents' stores, newest first.",
    "setup": "Set up an agent, so that each delegation finds its session.",
    "use": "Name the workstream of this working tree, or show its state.",
    "web": "Show the record in a browser: live and read-only.",
    "doctor": "Check the stored histories and the set-up, and name each cure.",
}
"""The verbs that `--help` lists, in this order."""

OTHERS = {
    "audit": "Write down everything that is recorded of a workstream.",
    "backup": "Copy the database to a file while others write.",
    "demo": "Watch a killed rehearsal agent continue its work.",
    "effects": "List actions beyond this machine that are in doubt, and settle them.",
    "encrypt": "Encrypt the database with the key that your config.toml names.",
    "export": "Send ended turns to an OpenTelemetry collector.",
    "forget": "Erase what was said; who spoke and when stays.",
    "fork": "Branch a conversation off after a message.",
    "help": "Show the help of upthread or of a verb.",
    "id": "Print the agent's own session id, for scripts.",
    "keep": "Copy or continue sessions of the agents, or erase what is too old.",
    "mcp": "Serve delegation as MCP tools.",
    "migrate": "Upgrade a PostgreSQL schema, or move a record to another database.",
    "repair": "Repair an agent's damaged histories in a copy.",
    "reset": "End a conversation and start a new one in its place.",
    "restore": "Replace the database by a backup.",
    "savings": "Show what delegations cost, and what resuming saved or lost.",
    "trust": "Show this repository's settings that need your consent, and agree to them.",
    "worker": "Carry out the runs of a shared database.",
    "worktree": "Show or remove the git worktrees of workstreams.",
}
"""The other verbs. `upthread help --all` lists them."""

VERBS = {**LISTED, **OTHERS}
"""Every verb with its summary. The verb is declared in `verbs/`, in the file of its name."""

ALIASES = {
    "adopt": ("keep", "--continue"),
    "agents": ("doctor", "--agents"),
    "brief": ("show", "--brief"),
    "status": ("use",),
}
"""Older names of verbs."""

GONE = {
    "compare": "upthread savings shows what resuming saved",
    "drain": "hooks record at once: there is nothing left to take in",
    "salvage": "upthread restore FILE, or upthread adopt without a backup",
}
"""Verbs that were removed, with what replaced them."""

WRITING = frozenset({"answer", "effects", "forget", "fork", "keep", "reset", "run", "tell", "use"})
"""Verbs that write to the record: after one of them, the backup of the day is made."""

PAGES = {
    "docs/guide.md": "Ten minutes, from the first prompt on.",
    "docs/troubleshooting.md": "By symptom.",
}


class Program(click.Group):
    """The command line. It imports a verb when the verb is called."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of the verbs."""
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Verb | None:
        """Return a verb, or None for another name."""
        return load_verb(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Find the verb that a line names. Raises UsageError with the verb that is like it."""
        name, *after = args
        if name not in {*VERBS, *ALIASES} and not ctx.resilient_parsing:
            raise UsageError(
                f"No such command {name!r}{did_you_mean(name, VERBS)}",
                hint=GONE.get(name, f"see {NAME} --help"),
            )
        return super().resolve_command(ctx, [*ALIASES.get(name, (name,)), *after])

    def format_commands(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs that are listed, or every verb for `upthread help --all`."""
        sections = {"Verbs": LISTED}
        if ctx.meta.get("is_all"):
            older = {name: " ".join((NAME, *words)) for name, words in ALIASES.items()}
            sections |= {"More verbs": OTHERS, "Older names": older}
        for title, rows in {**sections, "To read": PAGES}.items():
            with formatter.section(title):
                formatter.write_dl(list(rows.items()))
        if not ctx.meta.get("is_all"):
            formatter.write_paragraph()
            formatter.write_text(f"Every verb: {NAME} help --all")

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs and options that begin like this, and import no verb."""
        verbs = (each for each in VERBS.items() if each[0].startswith(incomplete))
        items = [CompletionItem(name, help=summary) for name, summary in verbs]
        return [*items, *Command.shell_complete(self, ctx, incomplete)]


def load_verb(name: str) -> Verb:
    """Import a verb that there is."""
    found = import_module(f"upthread.surfaces.cli.verbs.{name}").main
    assert isinstance(found, Verb)
    return found


def _show_version(ctx: Context, _option: Parameter, is_asked: bool) -> None:  # noqa: FBT001  # by click
    if is_asked and not ctx.resilient_parsing:
        show(ctx, f"{NAME} {__version__}")


def _show_script(ctx: Context, _option: Parameter, shell: str | None) -> None:
    """Print what a shell reads at its start, so that it asks us."""
    found = get_completion_class(shell) if shell and not ctx.resilient_parsing else None
    if found:
        # Not its own `source`, which starts bash to ask for a version.
        show(ctx, ShellComplete.source(found(PROGRAM, {}, NAME, ASKED_BY_SHELL)))


@click.command(
    NAME,
    cls=Program,
    invoke_without_command=True,
    add_help_option=False,
    context_settings=SETTINGS,
    subcommand_metavar="VERB …",
)
@click.option("--all", "is_all", is_flag=True, help="Without a verb: every session.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version.",
)
@click.option(
    "--show-completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_show_script,
    help="Print a script that makes a shell complete words.",
)
@click.pass_context
def PROGRAM(ctx: Context, *, is_all: bool) -> int:  # noqa: N802  # the one program there is
    """Your agents pick up where they left off, and tell you when they can't."""
    if ctx.invoked_subcommand:
        if is_all:
            raise UsageError(
                f"--all is for {NAME} alone", hint=f"see {NAME} {ctx.invoked_subcommand} --help"
            )
        return 0
    from upthread.surfaces.cli.overview import overview

    return overview(ctx.obj, is_all=is_all)


PROGRAM.params = [*COMMON[:-1], *PROGRAM.params, COMMON[-1]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    if asked := os.environ.get(ASKED_BY_SHELL):
        return _complete(asked)
    words = list(sys.argv[1:] if arguments is None else arguments)
    call = _call(words)
    try:
        code = _run(words, call)
        # A disk that was full while lines were written is an error of the verb, not found at exit.
        call.output.close()
        if call.verb in WRITING:
            from upthread.client.database_files import back_up_daily

            # A verb that has replied has not failed where no backup can be made.
            try:
                back_up_daily(call.settings())
            except (UpthreadError, OSError) as error:
                call.output.note(f"No backup was made today: {error}", "yellow")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # told, with its exit code
        code = _tell(error, call)
    gc.freeze()
    return code


def tell_interrupted(error: KeyboardInterrupt) -> int:
    """Report a Ctrl-C that came before `main` could; returns the exit code."""
    return _tell(error, _call(sys.argv[1:]))


def _call(words: Sequence[str]) -> Call:
    # Checked before the line is read: an error is printed in the form that the line asks for.
    return Call(output=Output(is_json="--json" in before_dashes(words)))


def _run(words: list[str], call: Call) -> int:
    """Carry out one line and return its exit code.

    Raises UsageError where the line cannot be read, and whatever its verb raises.
    """
    try:
        # Not click's own `main`, which ends a Ctrl-C and a closed pipe in its own way.
        with PROGRAM.make_context(NAME, words, obj=call) as context:
            return int(PROGRAM.invoke(context))
    except Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else NAME
        raise UsageError(error.format_message(), hint=f"see {path} --help") from None


def _tell(error: BaseException, call: Call) -> int:
    failure = failure_of(error)
    if failure is None:
        return tell_bug(error, call.output, is_stream=call.is_stream)
    return tell(failure, call.output, is_stream=call.is_stream)


def _complete(instruction: str) -> int:
    """Answer a shell that asks for the next word. The shell must never see an error."""
    shell, _, what = instruction.partition("_")
    found = get_completion_class(shell)
    if found is None or what != "complete":
        return 0
    with suppress(Exception), redirect_stderr(io.StringIO()):
        call = _call([])
        asking = found(PROGRAM, {"obj": call}, NAME, ASKED_BY_SHELL)
        call.output.document(f"{asking.complete()}\n")
    return 0
