"""Options and arguments that several verbs take, as they are typed."""

from __future__ import annotations

from typing import Annotated

import typer

from upthread.surfaces.cli.typed.completion import complete_address, complete_workstream

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="WORKSTREAM/ROLE, such as spec-42/planner, or an instance name.",
        autocompletion=complete_address,
    ),
]
Workstream = Annotated[
    str,
    typer.Argument(
        metavar="WS", help="The workstream, such as spec-42.", autocompletion=complete_workstream
    ),
]
WorkstreamOrAll = Annotated[
    str | None, typer.Argument(metavar="WS", autocompletion=complete_workstream)
]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="A", help='opencode, …, or acp:"COMMAND".')
]
TokensMax = Annotated[
    int | None,
    typer.Option("--tokens-max", min=1, metavar="N", help="Stop before a turn that would pass N."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
