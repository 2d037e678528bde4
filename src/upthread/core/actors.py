"""Actors: who does something to the record, as far as it can be known. Never more than that.

A person is somebody at a terminal of their own. What a model asks for, through MCP or in a shell
that an agent opened, is the model's; everything else is a program's: a script, a worker, a caller
of the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from upthread.core.agents import AGENTS
from upthread.core.text import visible_line
from upthread.core.workstreams import CALLERS_VARIABLE

ActorKind: TypeAlias = Literal["person", "model", "program"]

NAME_CHARACTERS_MAX: Final = 60

MARKS: Final[Mapping[str, str]] = {
    **{variable: row.name for row in AGENTS.values() for variable in row.marks},
    "CURSOR_AGENT": "cursor",
    "UPTHREAD_PROCESS_MARK": "an agent that upthread started",
    CALLERS_VARIABLE: "an agent that upthread started",
}
"""Variables that agents give to what they start, and whose they are."""

_IN_WORDS: Final[dict[ActorKind, str]] = {
    "person": "a person at a terminal",
    "model": "a model",
    "program": "a program, with nobody at a terminal",
}


class Actor(Struct, frozen=True, kw_only=True):
    """Who acts. `name` is what a model's agent calls itself, which nobody has checked."""

    kind: ActorKind
    name: str = ""

    @property
    def in_words(self) -> str:
        """`a model (codex)`."""
        return _IN_WORDS[self.kind] + (f" ({self._shown})" if self.name else "")

    def for_user(self, user: str) -> str:
        """Return who is named in an act: the user, and what acted for them."""
        if self.kind == "person":
            return user
        return f"{user} ({self.kind}: {self._shown})" if self.name else f"{user} ({self.kind})"

    @property
    def _shown(self) -> str:
        return visible_line(self.name, characters_max=NAME_CHARACTERS_MAX)


PERSON: Final = Actor(kind="person")
PROGRAM: Final = Actor(kind="program")


def model_of(environment: Mapping[str, str]) -> Actor | None:
    """Return the model that a process with this environment acts for; None if there is no mark."""
    agents = (agent for variable, agent in MARKS.items() if environment.get(variable))
    name = next(agents, None)
    return None if name is None else Actor(kind="model", name=name)


def answerer_in_words(by: Actor | None) -> str:
    """Return who answered; of what was answered before that was recorded, that it is not known."""
    return by.in_words if by is not None else "somebody, before it was recorded who,"
