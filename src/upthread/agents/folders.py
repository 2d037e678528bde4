"""The parts of an agent's own folder, by the agent's name.

A part is loaded when it is first asked for: whoever only lists, or looks at what is stored, must
not pay for a protocol. It is loaded by the folder that the row names, so that one more agent is a
folder and a row, and no module outside knows it.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from upthread.core.agents import AGENTS


def part_of(agent: str, part: str) -> ModuleType | None:
    """Return a part of an agent's folder, such as `adapter`; None for an agent without a folder."""
    row = AGENTS.get(agent)
    if row is None or not row.folder:
        return None
    return import_module(f"upthread.agents.{row.folder}.{part}")
