"""How people have the real agents: which of them, asking or not, and with what rules of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.live import claude_code, codex, opencode
from tests.live.shell import Shell

from upthread.testing.rehearsal_model import RehearsalModel

OWN_RULES = '[permissions]\nexecute = "allow"\nother = "allow"\n'
"""What the person allows whoever asks: else the permission would stop what is to be stopped."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How people have one agent: whether it asks, and the step that runs a line of shell."""

    agent: str
    binary: str
    environment: Callable[..., dict[str, str]]
    step: Callable[[str], str]
    settings: Callable[[Path], None] = lambda _home: None

    @property
    def fixture(self) -> str:
        """What the fixture of its binary is called by."""
        return self.agent.partition("-")[0]


def _claude_allows(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))


def _claude_bypasses(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(git:*)", "Bash(sh:*)"]}}))


def _opencode_command(line: str) -> str:
    return f"[[CALL bash {json.dumps({'command': line, 'description': 'run it'})}]]"


def _opencode_asks(home: Path, model: object) -> dict[str, str]:
    return opencode.opencode_environment(home, model, permission={"bash": "ask"})


WAYS = {
    "claude-code": Way(
        agent="claude-code",
        binary="claude",
        environment=claude_code.claude_environment,
        step=claude_code.command,
        settings=_claude_allows,
    ),
    "claude-code, some rules": Way(
        agent="claude-code",
        binary="claude",
        environment=claude_code.claude_environment,
        step=claude_code.command,
        settings=_claude_bypasses,
    ),
    "claude-code, asking": Way(
        agent="claude-code",
        binary="claude",
        environment=claude_code.claude_environment,
        step=claude_code.command,
    ),
    "opencode": Way(
        agent="opencode",
        binary="opencode",
        environment=opencode.opencode_environment,
        step=_opencode_command,
    ),
    "opencode, asking": Way(
        agent="opencode", binary="opencode", environment=_opencode_asks, step=_opencode_command
    ),
    "codex, asking": Way(
        agent="codex",
        binary="codex",
        environment=lambda home, model: codex.codex_environment(home, model, settings=codex.ASKS),
        step=codex.permission,
    ),
    "codex": Way(
        agent="codex",
        binary="codex",
        environment=codex.codex_environment,
        step=codex.command,
    ),
}


def desk_of(way: Way, binary: Path, model: RehearsalModel, directory: Path) -> Shell:
    """Make a repository, a home and a PATH with one agent on it, and return upthread there."""
    binaries, home, project = (directory / name for name in ("bin", "home", "project"))
    binaries.mkdir(parents=True)
    (binaries / way.binary).symlink_to(binary)
    environment = {
        **way.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(directory / "upthread"),
    }
    way.settings(home)
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    Path(environment["UPTHREAD_HOME"]).mkdir(mode=0o700)
    own = Path(environment["UPTHREAD_HOME"]) / "config.toml"
    own.write_text(OWN_RULES)
    own.chmod(0o600)
    return Shell(project, environment)
