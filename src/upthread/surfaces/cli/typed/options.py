"""Options and arguments: what a verb's parameters are declared with, and those that several take.

Values only, which cost nothing: what is made of them is `parameters`, `parser`, `help_page` and
`completion`, each for the verb that is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

Completed: TypeAlias = Literal["", "address", "agent", "agent_with_setup", "store", "workstream"]
"""What a shell can offer for a word; `completion` says where that comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word that is known by its place. `metavar` is what it is called, in help and errors."""

    metavar: str
    help: str = ""
    completed: Completed = ""


@dataclass(frozen=True, slots=True)
class Option:
    """A word that is known by its name. `names` are as the help prints them: `-y, --yes`.

    `metavar` is what its value is called, empty for a flag and for one of a few words; `minimum`
    and `maximum` bound a number.
    """

    names: str
    help: str = ""
    metavar: str = ""
    minimum: int | None = None
    maximum: int | None = None
    completed: Completed = ""


Address = Annotated[
    str,
    Argument(
        metavar="ADDRESS",
        help="WORKSTREAM/ROLE, such as spec-42/planner, or an instance name.",
        completed="address",
    ),
]
Workstream = Annotated[
    str,
    Argument(metavar="WS", help="The workstream, such as spec-42.", completed="workstream"),
]
WorkstreamOrAll = Annotated[
    str | None,
    Argument(metavar="WS", help="Only this workstream; all without it.", completed="workstream"),
]
Agent = Annotated[
    str | None,
    Option("--agent", metavar="A", help='opencode, …, or acp:"COMMAND".', completed="agent"),
]
TokensMax = Annotated[
    int | None,
    Option("--tokens-max", minimum=1, metavar="N", help="Stop before a turn that would pass N."),
]
DryRun = Annotated[bool, Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, Option("-y, --yes", help="Do not ask.")]
