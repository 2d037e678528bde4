"""The real Gemini CLI for tests: where it is, and an environment of its own to run it in.

The rehearsal model does not speak its protocol, so that nothing here prompts it: what it does about
sessions can be seen without. Nothing of the user's is read or written.
"""

import json
import os
import shutil
from pathlib import Path

from tests.live import opencode
from tests.live.opencode import AGENTS

PACKAGE = "@google/gemini-cli"
NOBODY = "http://127.0.0.1:9"


def find_gemini() -> tuple[str, ...] | None:
    """Return the command of the installed Gemini CLI, None without it."""
    script = AGENTS / "node_modules" / PACKAGE / "bundle" / "gemini.js"
    node = shutil.which("node")
    return (node, str(script), "--acp") if node and script.is_file() else None


def pinned_version() -> str:
    """Return the version that `agents.json` asks for."""
    return opencode.pinned_version(PACKAGE)


def gemini_environment(home: Path) -> dict[str, str]:
    """Return the whole environment. The same `home` is the same Gemini CLI, sessions and all."""
    temporary, settings = home / "tmp", home / ".gemini" / "settings.json"
    for directory in (temporary, settings.parent):
        directory.mkdir(parents=True, exist_ok=True)
    switched_off = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    settings.write_text(json.dumps(switched_off))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "TERM": "dumb",
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": NOBODY,
    }
