"""The real Claude Code for tests: where its binary is, and an environment of its own to run it in.

Nothing of the user's is read or written: a fresh HOME, a key that is none, telemetry and updates
off, one provider, which is the rehearsal model.
"""

import json
import os
import platform
from functools import cache
from pathlib import Path

from tests.live import opencode
from tests.live.opencode import AGENTS, MACHINES, call

from upthread.testing.rehearsal_model import RehearsalModel

PACKAGE = "@anthropic-ai/claude-code"
ACP_PACKAGE = "@agentclientprotocol/claude-agent-acp"
VARIANTS = ("", "-musl")
SWITCHED_OFF = (
    *("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"),
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)
MODEL = "claude-sonnet-5-5"
"""A current model: Claude Code sends its environment as a `system` message after the prompt."""


@cache
def find_claude() -> Path | None:
    return opencode.installed_binary(PACKAGE, "claude", pinned_version(), VARIANTS)


def find_claude_acp() -> tuple[str, ...] | None:
    """Return the command of the installed `claude-agent-acp`, None where it cannot run.

    It takes a newer Node than many machines have, so that one is installed for it, and for it
    alone; what it drives is named by CLAUDE_CODE_EXECUTABLE.
    """
    machine = MACHINES.get(platform.machine().lower(), platform.machine().lower())
    modules = AGENTS / "node_modules"
    node = modules / f"node-{platform.system().lower()}-{machine}" / "bin" / "node"
    script = modules / ACP_PACKAGE / "dist" / "index.js"
    if not node.is_file() or not script.is_file():
        return None
    return (str(node), str(script))


def pinned_version() -> str:
    """Return the version that `agents.json` asks for."""
    return opencode.pinned_version(PACKAGE)


def claude_environment(home: Path, model: RehearsalModel) -> dict[str, str]:
    """Return the whole environment: Claude Code sees this and nothing of ours.

    The same `home` is the same Claude Code, sessions and all. A failure of the provider is told at
    once; left alone it would try again for minutes.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "TERM": "dumb",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": model.base_url,
        "ANTHROPIC_MODEL": MODEL,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        **dict.fromkeys(SWITCHED_OFF, "1"),
    }


def command(line: str) -> str:
    """Return the step that runs a shell line."""
    return call("Bash", command=line, description="run it", timeout=600_000)


def delegation(prompt: str) -> str:
    """Return the step that gives a prompt to a sub-agent."""
    return call("Task", description="sub", prompt=prompt, subagent_type="general-purpose")


def allow(home: Path, *tools: str) -> None:
    """Write the settings of a person who lets Claude Code use these tools without asking."""
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    # In the mode `auto`, a current model's default, every call needs an answer of Anthropic's.
    permissions = {"allow": tools, "defaultMode": "default"}
    settings.write_text(json.dumps({"permissions": permissions}))


def delete_session(home: Path, session: str) -> None:
    """Delete a session's transcript from Claude Code's store."""
    (transcript,) = (home / ".claude" / "projects").glob(f"*/{session}.jsonl")
    transcript.unlink()
