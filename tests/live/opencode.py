"""The real OpenCode for tests: where its binary is, and an environment of its own to run it in.

Nothing of the user's is read or written: a fresh HOME, four fresh XDG directories, no network, one
provider, which is the rehearsal model.
"""

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Literal

from tests.live.installed import printed_version

from upthread.testing.rehearsal_model import MODEL_ID, RehearsalModel

REPOSITORY = Path(__file__).resolve().parents[2]
OTHER_AGENTS = os.environ.get("UPTHREAD_TEST_AGENTS")
"""A folder of agents that are not the pinned ones, for example those of `make new-agents`."""
AGENTS = Path(OTHER_AGENTS or REPOSITORY / ".agents")
PINS = AGENTS / "package.json" if OTHER_AGENTS else REPOSITORY / "agents.json"
Protocol = Literal["chat_completions", "messages"]
PROVIDER = "rehearsal"
SWITCHED_OFF = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
XDG = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
NO_PACKAGES = {
    "npm_config_offline": "true",
    "npm_config_registry": "http://127.0.0.1:9",
    "npm_config_fetch_retries": "0",
}
"""With a plug-in it fetches a package, and does not start before it has it or gives up."""
VARIANTS = ("", "-baseline", "-musl", "-baseline-musl")
"""Builds for one platform; `-baseline` runs on processors without AVX2, `-musl` on Alpine."""
PACKAGES: dict[Protocol, str] = {
    "chat_completions": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
}
"""Both are inside OpenCode: nothing is downloaded."""
ALLOW = {"edit": "allow", "bash": "allow", "external_directory": "allow"}

WINDOW_TOKENS = 100_000


def installed_binary(
    package: str, at: str, version: str, variants: Sequence[str] = ("",)
) -> Path | None:
    """Return the first installed binary that runs on this machine, None without one.

    `agents.json` is installed without install scripts, so the binary is the platform package's own.
    """
    machine = MACHINES.get(platform.machine().lower(), platform.machine().lower())
    for variant in variants:
        place = (
            AGENTS / "node_modules" / f"{package}-{platform.system().lower()}-{machine}{variant}"
        )
        for binary in place.glob(at):
            if binary.is_file() and version in printed_version(binary).split():
                return binary
    return None


@cache
def find_opencode() -> Path | None:
    return installed_binary("opencode", "bin/opencode", pinned_version(), VARIANTS)


def pinned_version(package: str = "opencode-ai") -> str:
    """Return the version that `agents.json` asks for."""
    return json.loads(PINS.read_text())["dependencies"][package]


def opencode_environment(
    home: Path,
    model: RehearsalModel,
    *,
    protocol: Protocol = "messages",
    permission: Mapping[str, str] | None = None,
    more_config: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Return the whole environment: OpenCode sees this and nothing of ours.

    The same `home` is the same OpenCode, sessions and all; `permission` is OpenCode's own setting
    and allows edits and commands unless told otherwise.
    """
    config = {
        **_config(model, protocol),
        "permission": dict(permission or ALLOW),
        **(more_config or {}),
    }
    return {**isolated_environment(home), "OPENCODE_CONFIG_CONTENT": json.dumps(config)}


def isolated_environment(home: Path) -> dict[str, str]:
    """Return an environment in which OpenCode finds nothing but `home`, and no provider."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb"}
    environment["TMPDIR"] = str(temporary)
    environment |= NO_PACKAGES
    for name, below in XDG.items():
        directory = home / below
        directory.mkdir(parents=True, exist_ok=True)
        environment[f"XDG_{name}_HOME"] = str(directory)
    for name in SWITCHED_OFF:
        environment[f"OPENCODE_DISABLE_{name}"] = "1"
    return environment


def call(tool: str, **arguments: object) -> str:
    """Return the step of a prompt that calls a tool."""
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def command(line: str) -> str:
    """Return the step that runs a shell line."""
    return call("bash", command=line, description="run it")


def delegation(prompt: str, **more: object) -> str:
    """Return the step that gives a prompt to a sub-agent."""
    task = {"description": "sub", "prompt": prompt, "subagent_type": "general", **more}
    return call("task", **task)


def database_of(home: Path) -> Path:
    """Return the path of OpenCode's own database."""
    return home / ".local" / "share" / "opencode" / "opencode.db"


def delete_session(home: Path, session: str) -> None:
    """Delete a session from OpenCode's store while no OpenCode runs."""
    with closing(sqlite3.connect(database_of(home))) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        gone = connection.execute("DELETE FROM session WHERE id = ?", (session,))
        assert gone.rowcount == 1


def _config(model: RehearsalModel, protocol: Protocol) -> dict[str, object]:
    provider = {
        "npm": PACKAGES[protocol],
        "name": "Rehearsal",
        "options": {"baseURL": model.openai_base_url, "apiKey": "none"},
        "models": {
            MODEL_ID: {
                "name": "Rehearsal",
                "reasoning": True,
                "limit": {"context": WINDOW_TOKENS, "output": 4_000},
            }
        },
    }
    return {
        "provider": {PROVIDER: provider},
        "enabled_providers": [PROVIDER],
        "model": f"{PROVIDER}/{MODEL_ID}",
        "small_model": f"{PROVIDER}/{MODEL_ID}",
        "autoupdate": False,
        "share": "disabled",
    }
