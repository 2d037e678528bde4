"""What every reader of an agent's own store gives back, and what it never does.

A reader opens nothing for writing and leaves no file behind. What it cannot read it reports with
its place and leaves where it is. It was written for versions it names: of any other version the
history is read as far as it goes and is said to be of unknown form, so that nothing is changed on
a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from upthread.core import types
from upthread.core.history.model import History

BEGINNING_CHARACTERS_MAX: Final = 80
OUTLINE_CHARACTERS: Final = 200
"""How much of each text a diagnosis keeps, so that a long session fits into little memory."""


class Unreadable(Struct, frozen=True, kw_only=True):
    """A line, row or value that could not be read. It stays in the store as it is."""

    place: str
    why: str
    beginning: str = ""


class VendorHistory(Struct, frozen=True, kw_only=True):
    """One session as an agent's store holds it.

    `version` is the agent's that wrote it, empty when it does not say. `parent_session_id` is set
    for a sub-agent's.
    """

    agent: str
    session_id: str
    path: Path
    version: str
    is_version_known: bool
    history: History
    unreadable: tuple[Unreadable, ...] = ()
    parent_session_id: str | None = None
    directory: str = ""
    title: str = ""

    @property
    def is_of_lines(self) -> bool:
        """Whether its file is one of lines: a copy can do without one that cannot be read."""
        return self.path.suffix == ".jsonl"


def is_known_version(version: str, known: tuple[str, ...]) -> bool:
    """Return whether a version is of a line the reader was written for: `2.1` takes `2.1.329`."""
    return any(version == line or version.startswith(f"{line}.") for line in known)


def outlined(parts: Iterable[types.Part], characters_max: int | None) -> tuple[types.Part, ...]:
    """Return parts with the beginning of each text, all of it when `characters_max` is None."""
    if characters_max is None:
        return tuple(parts)
    return tuple(_outline(part, characters_max) for part in parts)


def _outline(part: types.Part, characters_max: int) -> types.Part:
    match part:
        case types.TextPart() | types.ReasoningPart() | types.ToolResultPart():
            return structs.replace(part, text=part.text[:characters_max])
        case types.UnknownPart():
            return structs.replace(part, raw=None)
        case _:
            return part
