"""The program's command line: every verb with its words, and those that need a few lines only.

A verb imports its module when it is called: `--help`, `--version` and the light verbs must not pay
for the heavy ones. The first eight are the ones people use daily; the rest comes after.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from upthread import __version__
from upthread.core.agents import WITH_A_STORE, one_of
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call, enter_directory
from upthread.surfaces.cli.terminal.neutral import command
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.typed.completion import complete_address
from upthread.surfaces.cli.typed.database import backup, restore, salvage
from upthread.surfaces.cli.typed.hooks import drain, mcp, setup, status, use
from upthread.surfaces.cli.typed.options import (
    Address,
    Agent,
    DryRun,
    Workstream,
    WorkstreamOrAll,
    Yes,
)
from upthread.surfaces.cli.typed.privacy import encrypt, forget, keep, trust
from upthread.surfaces.cli.typed.shared_database import migrate, worker
from upthread.surfaces.cli.typed.talk import answer, run, tell, worktree

DAILY = "Every day"
MORE = "More"
STREAMS = frozenset({"tell", "run"})

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Database = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="Another database: a file path, or postgres://…"),
]
InProject = Annotated[
    str | None,
    typer.Option("--project", metavar="ID", help="Which project of a shared database this is."),
]
Directory = Annotated[
    str | None, typer.Option("-C", "--directory", metavar="DIR", help="Work as if started in DIR.")
]


@dataclass(slots=True, kw_only=True)
class Invocation:
    """What is known of this run of the program so far; errors are told accordingly."""

    verb: str = ""
    is_json: bool = False
    database: str | None = None
    project: str | None = None
    output: Output | None = None


def build(invocation: Invocation) -> typer.Typer:
    """Return the program, which notes in `invocation` how it was called."""
    app = typer.Typer(
        name="upthread",
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Your agents pick up where they left off, and tell you when they can't.",
    )
    _add_globals(app, invocation)
    for panel, verbs in ((DAILY, _DAILY_VERBS), (MORE, _MORE_VERBS)):
        for name, function in verbs:
            command = app.command(name, rich_help_panel=panel)
            command(_callable(name, function, invocation))
    _add_demo(app)
    return app


def _add_globals(app: typer.Typer, invocation: Invocation) -> None:
    @app.callback()
    def before(  # pyright: ignore[reportUnusedFunction]  # the decorator has it
        *,
        as_json: AsJson = False,
        database: Database = None,
        project: InProject = None,
        directory: Directory = None,
        version: Annotated[  # noqa: ARG001  # its callback has printed it
            bool,
            typer.Option(
                "--version", is_eager=True, callback=_print_version, help="Print the version."
            ),
        ] = False,
    ) -> None:
        invocation.is_json |= as_json
        invocation.database = database
        invocation.project = project
        if directory is not None:
            enter_directory(directory)


def _print_version(value: bool) -> None:  # noqa: FBT001  # how typer calls it
    if value:
        typer.echo(f"upthread {__version__}")
        raise typer.Exit


def _callable(
    name: str, function: Callable[..., int], invocation: Invocation
) -> Callable[..., int]:
    """Give a verb the options every verb takes, and its Call in their place."""

    @functools.wraps(function)
    def invoke(
        *,
        as_json: bool,
        database: str | None,
        project: str | None,
        directory: str | None,
        **given: Any,
    ) -> int:
        invocation.verb = name
        invocation.is_json |= as_json
        invocation.output = Output(is_json=invocation.is_json)
        if directory is not None:
            enter_directory(directory)
        call = Call(
            output=invocation.output,
            database=database or invocation.database,
            project=project or invocation.project,
        )
        return function(call, **given)

    # Evaluated, since annotations are texts here and typer reads what they stand for.
    own = inspect.signature(function, eval_str=True)
    added = [
        _option("as_json", AsJson, False),
        _option("database", Database, None),
        _option("project", InProject, None),
        _option("directory", Directory, None),
    ]
    parameters = [*list(own.parameters.values())[1:], *added]
    invoke.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # read by inspect
    return invoke


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _add_demo(app: typer.Typer) -> None:
    settings: dict[str, Any] = {
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        # All words go on as they are, `--help` too: the demo has its own.
        "help_option_names": [],
    }

    @app.command("demo", rich_help_panel=MORE, context_settings=settings)
    def demo(context: typer.Context) -> object:  # pyright: ignore[reportUnusedFunction]
        """Play the main job with the rehearsal agent, and the same job without continuity."""
        from upthread.surfaces.cli.demo.verb import demo as play

        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command()(play)
        command = typer.main.get_command(alone)
        code = command.main(list(context.args), prog_name="upthread demo", standalone_mode=False)
        return code or 0


# --- every day ---------------------------------------------------------------------------------


def ls(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show each change, until Ctrl-C.")] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="The workers of a shared database instead.")
    ] = False,
) -> int:
    """List the workstreams, or the roles of one."""
    from upthread.surfaces.cli.verbs import inspect

    if workers:
        from upthread.surfaces.cli.verbs import worker

        return worker.list_workers(call)
    return inspect.list_workstreams(call, workstream, is_watching=watch)


def show(
    call: Call,
    *,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WS|ADDRESS",
            help="A workstream or one conversation.",
            autocompletion=complete_address,
        ),
    ],
    effects: Annotated[
        bool, typer.Option("--effects", help="What was done to the world, and what is unknown.")
    ] = False,
) -> int:
    """Show how a workstream or one conversation stands."""
    from upthread.surfaces.cli.verbs import inspect

    return inspect.show_effects(call, what) if effects else inspect.show(call, what)


def why(call: Call, *, address: Address, agent: Agent = None) -> int:
    """Show the last decision, and what would be decided now."""
    from upthread.surfaces.cli.verbs import inspect

    return inspect.why(call, address, agent=agent)


def upstream_id(call: Call, *, address: Address) -> int:
    """Print the agent's own session id, for scripts."""
    from upthread.surfaces.cli.verbs import session_id

    return session_id.session_id(call, address)


def open_session(call: Call, *, address: Address, dry_run: DryRun = False) -> int:
    """Resume the session in the agent's own interface; --json only says how."""
    from upthread.surfaces.cli.verbs import change

    return change.open_session(call, address, is_dry_run=dry_run)


# --- more --------------------------------------------------------------------------------------


def brief(
    call: Call,
    *,
    address: Address,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit it; what you change is kept and marked.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Take your text from a file, or - for stdin."),
    ] = None,
) -> int:
    """Show what a fresh session of a role would be told of the past."""
    from upthread.surfaces.cli.verbs import brief

    return brief.brief(call, address, is_edit=edit, source=source)


def adopt(
    call: Call,
    *,
    address: Address,
    session: Annotated[str, typer.Argument(metavar="ID", help="The agent's own session id.")],
    agent: Agent = None,
) -> int:
    """Take an existing session of an agent in, as the conversation's current one."""
    from upthread.surfaces.cli.verbs import change

    return change.adopt(call, address, session, agent=agent)


def reset(
    call: Call,
    *,
    address: Address,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """End a conversation and begin a new one in its place; the old one stays for the audit."""
    from upthread.surfaces.cli.verbs import change

    return change.reset(call, address, is_yes=yes, is_dry_run=dry_run)


def fork(
    call: Call,
    *,
    address: Address,
    into: Annotated[
        str, typer.Option("--as", metavar="ADDRESS", help="Where it goes on; none may be there.")
    ],
    at: Annotated[
        int | None,
        typer.Option(
            "--at", min=1, metavar="MESSAGE", help="After which message; the newest it can be."
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Branch a conversation off after a message, to go its own way; the first one stays."""
    from upthread.surfaces.cli.verbs import fork

    asked = fork.Fork(address=address, into=into, at_message=at)
    return fork.fork(call, asked, is_yes=yes, is_dry_run=dry_run)


def effects(
    call: Call,
    *,
    workstream: Workstream,
    said: Annotated[
        str | None, typer.Argument(metavar="[done|not-done|again]", help="What you found.")
    ] = None,
    effect: Annotated[
        str | None, typer.Argument(metavar="[EFFECT]", help="Which one, if several are in doubt.")
    ] = None,
) -> int:
    """Show what may have been done to the outside, or say what came of it."""
    from upthread.surfaces.cli.verbs import effects as verb

    if said is None:
        return verb.show(call, workstream)
    return verb.settle(call, workstream, said, effect)


def audit(
    call: Call,
    *,
    workstream: Workstream,
    form: Annotated[
        Literal["md", "json"], typer.Option("--format", help="Markdown or JSON.")
    ] = "md",
) -> int:
    """Write down everything that is kept of a workstream."""
    from upthread.surfaces.cli.audit import verb

    return verb.audit(call, workstream, form=form)


def list_agents(call: Call) -> int:
    """List the agents: which are known, which are here, how they are driven."""
    from upthread.surfaces.cli.verbs import agents

    return agents.list_agents(call)


def doctor(
    call: Call,
    *,
    store: Annotated[
        str | None,
        typer.Argument(metavar="STORE", help=f"upthread, {one_of(WITH_A_STORE)}."),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option("--probe", metavar="AGENT", help="Try what an agent does about sessions."),
    ] = None,
    rate_limit_prompt: Annotated[
        str | None,
        typer.Option(
            "--rate-limit-prompt",
            metavar="TEXT",
            help="With --probe: what makes a scripted model answer with a rate limit.",
        ),
    ] = None,
    yes: Yes = False,
) -> int:
    """Diagnose the stored histories, ours and the agents', and say what cures them."""
    from upthread.surfaces.cli.doctor import probe as probing
    from upthread.surfaces.cli.doctor import verb as diagnosing

    if probe is None:
        return diagnosing.doctor(call, store)
    if store is not None:
        raise UsageError(
            "--probe takes no store", hint=command("upthread", "doctor", "--probe", probe)
        )
    return probing.probe(call, probe, rate_limit_prompt=rate_limit_prompt, is_yes=yes)


def repair(
    call: Call,
    *,
    target: Annotated[
        str, typer.Argument(metavar="AGENT|ADDRESS", help=f"{one_of(WITH_A_STORE)}, or ours.")
    ],
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="One session; all without it.")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="DIR", help="Where the copies go.")
    ] = None,
    dry_run: DryRun = False,
) -> int:
    """Repair an agent's damaged histories in a copy; its own store is never changed."""
    from upthread.surfaces.cli.doctor import repair

    return repair.repair(call, target, session, into=into, is_dry_run=dry_run)


_DAILY_VERBS: tuple[tuple[str, Callable[..., int]], ...] = (
    ("tell", tell),
    ("run", run),
    ("answer", answer),
    ("ls", ls),
    ("show", show),
    ("why", why),
    ("id", upstream_id),
    ("open", open_session),
)
_MORE_VERBS: tuple[tuple[str, Callable[..., int]], ...] = (
    ("setup", setup),
    ("trust", trust),
    ("use", use),
    ("status", status),
    ("brief", brief),
    ("adopt", adopt),
    ("reset", reset),
    ("fork", fork),
    ("effects", effects),
    ("audit", audit),
    ("encrypt", encrypt),
    ("forget", forget),
    ("keep", keep),
    ("worktree", worktree),
    ("agents", list_agents),
    ("doctor", doctor),
    ("repair", repair),
    ("backup", backup),
    ("restore", restore),
    ("salvage", salvage),
    ("mcp", mcp),
    ("drain", drain),
    ("worker", worker),
    ("migrate", migrate),
)
