"""Real agents for tests: found or said to be missing, isolated, ended whatever happens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.live import claude_code, codex
from tests.live.acp_process import AcpProcess
from tests.live.opencode import AGENTS, find_opencode, opencode_environment, pinned_version
from tests.live.shell import Shell, agents_left

from upthread.testing.rehearsal_model import RehearsalModel

StartOpenCode = Callable[..., AcpProcess]


def missing(agent: str) -> None:
    """Skip, saying so; where CI runs, an agent that is missing is a failure."""
    message = f"{agent} IS NOT INSTALLED in {AGENTS}: run `make agents` (needs npm)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def opencode_binary() -> Path:
    binary = find_opencode()
    if binary is None:
        missing(f"OpenCode {pinned_version()}")
    assert binary is not None
    return binary


@pytest.fixture(scope="session")
def claude_binary() -> Path:
    binary = claude_code.find_claude()
    if binary is None:
        missing(f"Claude Code {claude_code.pinned_version()}")
    assert binary is not None
    return binary


@pytest.fixture(scope="session")
def claude_acp() -> tuple[str, ...]:
    command = claude_code.find_claude_acp()
    if command is None:
        missing("claude-agent-acp, or the Node it needs,")
    assert command is not None
    return command


@pytest.fixture(scope="session")
def codex_binary() -> Path:
    binary = codex.find_codex()
    if binary is None:
        missing(f"Codex {codex.pinned_version()}")
    assert binary is not None
    return binary


@pytest.fixture(scope="session")
def codex_acp() -> Path:
    script = codex.find_codex_acp()
    if script is None:
        missing("codex-acp")
    assert script is not None
    return script


@pytest.fixture
def model() -> Iterator[RehearsalModel]:
    """A strict model; at the end, no history that reached it may have broken a rule."""
    with RehearsalModel() as model:
        yield model
    assert model.violations == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository to work in."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a.txt").write_text("hello\n")
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    return directory


@pytest.fixture
def start_opencode(
    opencode_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[StartOpenCode]:
    """Start `opencode acp`; every start has the same home, so sessions are found again."""
    with ExitStack() as stack:

        def start(**settings: Any) -> AcpProcess:
            environment = opencode_environment(tmp_path / "home", model, **settings)
            return stack.enter_context(
                AcpProcess([str(opencode_binary), "acp"], environment=environment, cwd=project)
            )

        yield start


@pytest.fixture
def opencode_shell(
    opencode_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[Shell]:
    """OpenCode is the only agent on PATH, so upthread chooses it without being told."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "opencode").symlink_to(opencode_binary)
    environment = {
        **opencode_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []
