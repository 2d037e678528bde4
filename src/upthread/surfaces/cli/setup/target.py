"""How one agent is set up, as each agent's own module here says it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from upthread.surfaces.cli.setup.changes import Change


@dataclass(frozen=True, slots=True)
class Trust:
    """What an agent said of its trust in our hooks: None where it was not asked or said nothing."""

    is_given: bool | None = None
    fault: str = ""
    cure: str = ""


def _never(_path: Path, _content: bytes) -> bool:
    return False


class Target(Struct, frozen=True, kw_only=True):
    """How one agent is set up: `name` is its own in the store, `then` what a person does next.

    `trust` asks an agent that leaves out hooks a person has not trusted, in a working directory.
    `is_unsafe` tells an entry that an earlier version wrote and that a repository could use.
    """

    name: str
    changes: Callable[..., tuple[Change, ...]]
    taken_out: Callable[[Path, bytes], bytes | None]
    then: str = ""
    trust: Callable[[str], Awaitable[Trust]] | None = None
    is_unsafe: Callable[[Path, bytes], bool] = _never
