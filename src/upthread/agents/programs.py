"""Where an agent is on this machine when PATH alone does not tell."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from upthread.boundary import programs
from upthread.core.agents import Agent


def find_program(name: str, search_path: str | None = None) -> str | None:
    """Return where a program is on PATH, or on `search_path`; None where only in a working tree."""
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    home = os.environ.get("HOME", "")
    return programs.absolute_program(name, {"PATH": path, "HOME": home}, outside=(os.curdir,))


def find_agent(agent: Agent, search_path: str | None = None) -> str | None:
    """Return an agent's program where it is on PATH, else the path of the one a package brings.

    None where there is neither. The wheels of `claude-agent-sdk` hold a whole CLI, so that package
    alone is enough; it is found and never imported, which would cost a second.
    """
    if find_program(agent.program, search_path):
        return agent.program
    package = find_spec(agent.bundled_in) if agent.bundled_in else None
    if package is None or package.origin is None:
        return None
    bundled = Path(package.origin).parent / "_bundled" / agent.program
    return str(bundled) if os.access(bundled, os.X_OK) else None
