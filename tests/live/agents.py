"""The real agents in one table: what a test needs to run any of them, as people have them."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.shell import Shell

from upthread.testing.rehearsal_model import RehearsalModel

ADDRESS = "spec-42/planner"
RULES = '[permissions]\nexecute = "allow"\nother = "allow"\n'
"""A person's own rules, so that upthread's permissions do not stop a step before the test does."""


@dataclass(frozen=True, kw_only=True)
class RealAgent:
    """One agent as people have it.

    `program` is its name on PATH. `command` makes the step that runs a shell line, `write` the step
    that writes "x" to a file, `read` the step that reads a file, `delegation` the step that gives a
    prompt to a sub-agent, whose role is then `sub_agent`. `settings` writes the agent's settings
    into its home, `delete_session` removes a session from its store.
    """

    name: str
    program: str
    version: str
    environment: Callable[..., dict[str, str]]
    command: Callable[[str], str]
    write: Callable[[Path], str]
    read: Callable[[Path], str]
    delegation: Callable[[str], str]
    sub_agent: str
    delete_session: Callable[[Path, str], None]
    settings: Callable[[Path], None] = lambda _home: None

    @property
    def fixture(self) -> str:
        """The name of the fixture that has the path of its binary."""
        return f"{self.name.partition('-')[0]}_binary"


def reporting(**fields: object) -> str:
    """Return the step in which a role ends with its report."""
    report = {"status": "done", "summary": "It is done.", **fields}
    return f"[[SAY ```upthread\n{json.dumps(report)}\n```]]"


def judging(result: str, why: str) -> str:
    """Return the step in which a role approves or rejects."""
    return reporting(verdict={"result": result, "evidence": [why]})


_PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


def _allow_all(home: Path) -> None:
    claude_code.allow(home, "Bash", "Edit", "Write", "Read", "Grep")


CLAUDE_CODE = RealAgent(
    name="claude-code",
    program="claude",
    version=claude_code.pinned_version(),
    environment=claude_code.claude_environment,
    command=claude_code.command,
    write=lambda path: claude_code.call("Write", file_path=str(path), content="x"),
    read=lambda path: claude_code.call("Read", file_path=str(path)),
    delegation=claude_code.delegation,
    sub_agent="general-purpose",
    delete_session=claude_code.delete_session,
    settings=_allow_all,
)
OPENCODE = RealAgent(
    name="opencode",
    program="opencode",
    version=opencode.pinned_version(),
    environment=opencode.opencode_environment,
    command=opencode.command,
    write=lambda path: opencode.call("write", filePath=str(path), content="x"),
    read=lambda path: opencode.call("read", filePath=str(path)),
    delegation=opencode.delegation,
    sub_agent="general",
    delete_session=opencode.delete_session,
)
CODEX = RealAgent(
    name="codex",
    program="codex",
    version=codex.pinned_version(),
    environment=codex.codex_environment,
    command=codex.command,
    write=lambda path: codex.command(f"apply_patch <<'EOF'\n{_PATCH.format(path.name)}EOF"),
    read=lambda path: codex.command(f"cat {path.name}"),
    delegation=codex.delegation,
    sub_agent="explorer",
    delete_session=codex.delete_session,
)
AGENTS = {each.name: each for each in (CLAUDE_CODE, OPENCODE, CODEX)}

_ASKING = {"bash": "ask", "edit": "ask"}
WAYS = {
    **AGENTS,
    "claude-code, some rules": replace(
        CLAUDE_CODE, settings=lambda home: claude_code.allow(home, "Bash(git:*)", "Bash(sh:*)")
    ),
    "claude-code, asking": replace(CLAUDE_CODE, settings=lambda _home: None),
    "opencode, asking": replace(
        OPENCODE, environment=partial(opencode.opencode_environment, permission=_ASKING)
    ),
    "codex, asking": replace(
        CODEX,
        environment=partial(codex.codex_environment, settings=codex.ASKS),
        command=codex.permission,
    ),
}
"""The agents as they come, and as people have them who want to be asked."""


def shell_of(
    agent: RealAgent,
    binary: Path,
    model: RehearsalModel,
    directory: Path,
    *,
    rules: str = RULES,
    environment: dict[str, str] | None = None,
) -> Shell:
    """Make a repository, a home and a PATH with one agent on it; return upthread there.

    upthread then chooses this agent by itself. `environment` is added to the agent's own.
    """
    binaries, home, project = (directory / name for name in ("bin", "home", "project"))
    own = directory / "upthread"
    for each in (binaries, home, project):
        each.mkdir(parents=True)
    own.mkdir(mode=0o700)
    (binaries / agent.program).symlink_to(binary)
    variables = {
        **agent.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(own),
        **(environment or {}),
    }
    agent.settings(home)
    make_repository(project)
    (own / "config.toml").write_text(rules)
    (own / "config.toml").chmod(0o600)
    return Shell(project, variables, home=home)


def make_repository(project: Path) -> None:
    """Make a repository with one commit and one file."""
    project.mkdir(parents=True, exist_ok=True)
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    commit = (*identity, "commit", "-qm", "seed", "--allow-empty")
    for words in (("init", "-q", "-b", "main"), commit):
        subprocess.run(["git", *words], cwd=project, check=True)
    (project / "a.txt").write_text("hello\n")


def over_acp(shell: Shell, name: str, request: pytest.FixtureRequest) -> Shell:
    """Give the agent a name of its person's own: driven over ACP, its store is not read."""
    binary = str(request.getfixturevalue(AGENTS[name].fixture))
    by_name = {"claude-code": "claude_acp", "codex": "codex_acp"}
    command = request.getfixturevalue(by_name[name]) if name in by_name else (binary, "acp")
    named = {"CLAUDE_CODE_EXECUTABLE": binary, "CODEX_PATH": binary, **codex.FULL_ACCESS}
    environment = ", ".join(f'{name} = "{value}"' for name, value in named.items())
    mine = f"command = {json.dumps(command)}\nenvironment = {{{environment}}}\n"
    config = shell.own / "config.toml"
    config.write_text(f'agent = "mine"\n{config.read_text()}[agents.mine]\n{mine}')
    return shell
