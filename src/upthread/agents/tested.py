"""What this release was tested with: each way of driving an agent, its version, what it can do.

A version is the one the live suite ran against, or the one it was seen in. Another one need not be
worse; nobody has looked yet, and a person should know.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from msgspec import Struct

from upthread.core.agents import AGENTS

WHAT_AGENTS_CAN: Final = {
    "resume": "attach a session by its id",
    "load": "attach one and tell its history",
    "list": "tell which sessions there are",
    "fork": "branch a session off",
    "sub_agents": "tell what sub-agents say and do",
    "open_sub_agents": "go on with a sub-agent's session by its id, as the role it has",
    "inject": "take what was said before without a turn of the model",
    "title": "call a new session by its address, where a person lists them",
}
"""The words of `can`, and what each means."""

_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


class SeenWay(Struct, frozen=True, kw_only=True):
    """One way of driving one agent. `can` has words of WHAT_AGENTS_CAN, in their order."""

    agent: str
    kind: str
    version: str
    can: tuple[str, ...]

    def difference(self, version: str) -> str:
        """Return `newer`, `older`, or empty for the same and for one that cannot be read."""
        ours, theirs = _numbers(self.version), _numbers(version)
        if not ours or not theirs or ours == theirs:
            return ""
        # By numbers: as texts 2.10 would be older than 2.9.
        return "newer" if theirs > ours else "older"

    def warning(self, version: str, *, called: str = "") -> str:
        """Return the line that names both versions, empty where they do not differ.

        `called` is the agent's name here where that is another one.
        """
        difference = self.difference(version)
        if not difference:
            return ""
        agent = called or self.agent
        return (
            f"{agent} {version_in(version)} is {difference} than {self.version}, which this "
            "upthread was tested with; "
            f"try what it does: upthread doctor --probe {shlex.quote(agent)}"
        )


TESTED: Final = tuple(
    SeenWay(agent=row.name, kind=way.kind, version=way.version, can=way.can)
    for row in AGENTS.values()
    for way in row.ways
)

_BY_WAY: Final = {(row.agent, row.kind): row for row in TESTED}


def seen_way(agent: str, kind: str) -> SeenWay | None:
    """Return the row of a way of driving an agent, None where this release was tested with none."""
    return _BY_WAY.get((agent, kind))


def version_in(said: str) -> str:
    """Return the number in what an agent says its version is; empty where there is none."""
    found = _VERSION.search(said)
    return found[0] if found else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in version_in(version).split(".") if piece)
