"""The real Codex for tests: where its binary is, and an environment of its own to run it in.

Nothing of the user's is read or written: a fresh HOME and CODEX_HOME, a key that is none, telemetry
and updates off, one provider, which is the rehearsal model.
"""

import os
import shutil
from functools import cache
from pathlib import Path

from tests.live import opencode
from tests.live.opencode import AGENTS, call

from upthread.testing.rehearsal_model import MODEL_ID, RehearsalModel

PACKAGE = "@openai/codex"
ACP_PACKAGE = "@agentclientprotocol/codex-acp"
PROVIDER = "rehearsal"
NO_SANDBOX = {"sandbox_mode": "danger-full-access", "approval_policy": "never"}
"""A container without user namespaces cannot sandbox; what is asked has a test of its own."""
FULL_ACCESS = {"INITIAL_AGENT_MODE": "agent-full-access"}
"""The same for codex-acp, whose modes have settings of their own in the place of Codex's."""
ASKS = {"sandbox_mode": "read-only", "approval_policy": "on-request"}
"""What Codex does in a directory that nobody has called trusted."""


@cache
def find_codex() -> Path | None:
    return opencode.installed_binary(PACKAGE, "vendor/*/bin/codex", pinned_version())


def pinned_version() -> str:
    """Return the version that `agents.json` asks for."""
    return opencode.pinned_version(PACKAGE)


def find_codex_acp() -> tuple[str, ...] | None:
    """Return the command of the installed `codex-acp`, None without it.

    CODEX_PATH names the Codex that it drives.
    """
    script = AGENTS / "node_modules" / ACP_PACKAGE / "dist" / "index.js"
    node = shutil.which("node")
    return (node, str(script)) if node and script.is_file() else None


def codex_environment(
    home: Path,
    model: RehearsalModel,
    *,
    settings: dict[str, str] | None = None,
    tries_again: bool = False,
) -> dict[str, str]:
    """Return the whole environment: Codex sees this and nothing of ours.

    The same `home` is the same Codex, sessions and all. `settings` are Codex's own, about what it
    may do; without `tries_again` it tells of a failure of the provider at once.
    """
    place, temporary = home / ".codex", home / "tmp"
    for directory in (place, temporary):
        directory.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(_config(model, settings or NO_SANDBOX, tries_again))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "CODEX_HOME": str(place),
        "TERM": "dumb",
        "REHEARSAL_API_KEY": "none",
    }


def _config(model: RehearsalModel, settings: dict[str, str], tries_again: bool) -> str:
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    tries = [] if tries_again else ["request_max_retries = 0", "stream_max_retries = 0"]
    return "\n".join(
        [
            f'model = "{MODEL_ID}"',
            f'model_provider = "{PROVIDER}"',
            "check_for_update_on_startup = false",
            *lines,
            f"[model_providers.{PROVIDER}]",
            'name = "Rehearsal"',
            f'base_url = "{model.openai_base_url}"',
            'wire_api = "responses"',
            'env_key = "REHEARSAL_API_KEY"',
            *tries,
            "[sandbox_workspace_write]",
            "exclude_slash_tmp = true",  # else its sandbox leaves an empty .git there
            "exclude_tmpdir_env_var = true",
            "[analytics]",
            "enabled = false",
            "",
        ]
    )


def command(line: str) -> str:
    """Return the step that runs a shell line, and waits for it as long as Codex ever does."""
    return call("exec_command", cmd=line, yield_time_ms=30_000)


def permission(line: str) -> str:
    """Return the step that asks to run a shell line outside of the sandbox."""
    asked = {"sandbox_permissions": "require_escalated", "justification": "May it run?"}
    return call("exec_command", cmd=line, **asked)


def delegation(prompt: str) -> str:
    """Return the step that gives a prompt to a sub-agent."""
    return call("spawn_agent", message=prompt, agent_type="explorer")


def rollouts(home: Path, session: str = "") -> list[Path]:
    """Return the files that hold the threads, or one thread."""
    return sorted((home / ".codex" / "sessions").glob(f"*/*/*/rollout-*{session}.jsonl"))


def delete_session(home: Path, session: str) -> None:
    """Delete a thread's file from Codex's store."""
    (rollout,) = rollouts(home, session)
    rollout.unlink()
