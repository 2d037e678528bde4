"""Where an agent is on this machine when PATH alone does not tell."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CLAUDE: Final = "claude"
_SDK: Final = "claude_agent_sdk"


def find_claude(search_path: str | None = None) -> str | None:
    """Return `claude` where it is on PATH, else the path of the one the SDK brings, else None.

    The wheels of `claude-agent-sdk` hold a whole CLI, so that package alone is enough.
    """
    if shutil.which(CLAUDE, path=search_path):
        return CLAUDE
    sdk = find_spec(_SDK)
    if sdk is None or sdk.origin is None:
        return None
    bundled = Path(sdk.origin).parent / "_bundled" / CLAUDE
    return str(bundled) if os.access(bundled, os.X_OK) else None
