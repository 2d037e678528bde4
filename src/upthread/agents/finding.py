"""Where an agent is on this machine when PATH alone does not tell."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from upthread.boundary import programs

CLAUDE: Final = "claude"
_SDK: Final = "claude_agent_sdk"


def find_program(name: str, search_path: str | None = None) -> str | None:
    """Return where a program is on PATH, or on `search_path`; None where only in a working tree."""
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    home = os.environ.get("HOME", "")
    return programs.absolute_program(name, {"PATH": path, "HOME": home}, outside=(os.curdir,))


def find_claude(search_path: str | None = None) -> str | None:
    """Return `claude` where it is on PATH, else the path of the one the SDK brings, else None.

    The wheels of `claude-agent-sdk` hold a whole CLI, so that package alone is enough.
    """
    if find_program(CLAUDE, search_path):
        return CLAUDE
    sdk = find_spec(_SDK)
    if sdk is None or sdk.origin is None:
        return None
    bundled = Path(sdk.origin).parent / "_bundled" / CLAUDE
    return str(bundled) if os.access(bundled, os.X_OK) else None
