"""A verb's parameters: what they are declared with, those that several take, and how they are read.

Options and arguments are values, which cost nothing. Annotations are texts until they are asked
for, and are evaluated here, for one verb at a time; what is made of them is `parser`, `help_page`
and `completion`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct

Completed: TypeAlias = Literal["", "address", "agent", "agent_with_setup", "store", "workstream"]
"""What a shell can offer for a word; `completion` says where that comes from."""


class Argument(Struct, frozen=True, kw_only=True):
    """A word that is known by its place. `metavar` is what it is called, in help and errors."""

    metavar: str
    help: str = ""
    completed: Completed = ""


class Option(Struct, frozen=True):
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


KINDS: Final = (bool, int, float, str, Path)
"""What one value may be; several choices are texts."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a verb.

    `kind` is that of one value, `choices` its words where there are only so many. `is_list` takes
    any number of them, and `is_undecided` is a flag that may also be said to be off.
    """

    name: str
    declared: Argument | Option
    kind: type
    choices: tuple[str, ...] = ()
    is_list: bool = False
    is_required: bool = False
    is_undecided: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What an option is called by; an argument has no name."""
        return tuple(self.declared.names.split(", ")) if isinstance(self.declared, Option) else ()

    @property
    def metavar(self) -> str:
        """What its value is called, empty for a flag."""
        return self.declared.metavar or "|".join(self.choices)


def parameters_of(verb: Callable[..., object]) -> tuple[Parameter, ...]:
    """Return what may be typed for a verb, in its order; its Call is none of it."""
    hints = get_type_hints(verb, include_extras=True)
    defaults = verb.__kwdefaults__ or {}
    return tuple(
        _parameter(name, hint, is_required=name not in defaults)
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    )


def _parameter(name: str, hint: Any, *, is_required: bool) -> Parameter:
    annotation, declared = get_args(hint)
    value, is_optional = _without_none(annotation)
    is_list = get_origin(value) is list
    (value,) = get_args(value) if is_list else (value,)
    choices = get_args(value) if get_origin(value) is Literal else ()
    kind = str if choices else value
    assert kind in KINDS, f"no word can be read as {kind}, for {name}"
    return Parameter(
        name=name,
        declared=declared,
        kind=kind,
        choices=choices,
        is_list=is_list,
        is_required=is_required,
        is_undecided=kind is bool and is_optional,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """What an annotation says beside `| None`, and whether it says that."""
    if get_origin(annotation) not in {Union, types.UnionType}:
        return annotation, False
    (value,) = (each for each in get_args(annotation) if each is not types.NoneType)
    return value, True
