"""Real agents for tests: found or reported as missing, isolated, and ended in any case."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.live import claude_code, codex
from tests.live.acp_process import AcpProcess
from tests.live.agents import WAYS, make_repository, shell_of
from tests.live.opencode import AGENTS, find_opencode, opencode_environment, pinned_version
from tests.live.shell import Shell, agents_left
from tests.support import repeating

from upthread.testing.rehearsal_model import RehearsalModel

StartOpenCode = Callable[..., AcpProcess]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    return repeating.run_and_repeat(item, nextitem)


def found(agent: str, place: Any) -> Any:
    """Return where an agent is. Without it skip; in CI an agent that is missing is a failure."""
    if place is None:
        message = f"{agent} IS NOT INSTALLED in {AGENTS}: run `make agents` (needs npm)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return place


@pytest.fixture(scope="session")
def opencode_binary() -> Path:
    return found(f"OpenCode {pinned_version()}", find_opencode())


@pytest.fixture(scope="session")
def claude_binary() -> Path:
    return found(f"Claude Code {claude_code.pinned_version()}", claude_code.find_claude())


@pytest.fixture(scope="session")
def claude_acp() -> tuple[str, ...]:
    return found("claude-agent-acp, or the Node it needs,", claude_code.find_claude_acp())


@pytest.fixture(scope="session")
def codex_binary() -> Path:
    return found(f"Codex {codex.pinned_version()}", codex.find_codex())


@pytest.fixture(scope="session")
def codex_acp() -> tuple[str, ...]:
    return found("codex-acp", codex.find_codex_acp())


@pytest.fixture
def model() -> Iterator[RehearsalModel]:
    """A strict model; at the end, no history that reached it may have broken a rule."""
    with RehearsalModel() as model:
        yield model
    assert model.violations == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository to work in."""
    make_repository(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def start_opencode(
    opencode_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[StartOpenCode]:
    """Start `opencode acp`; every start has the same home, so that sessions persist."""
    with ExitStack() as stack:

        def start(**settings: Any) -> AcpProcess:
            environment = opencode_environment(tmp_path / "home", model, **settings)
            return stack.enter_context(
                AcpProcess([str(opencode_binary), "acp"], environment=environment, cwd=project)
            )

        yield start


@pytest.fixture
def name() -> str:
    """The agent, or the way to have it, by its key in `agents.WAYS`: a test's parameter."""
    raise AssertionError("the test must be parametrised with `name`")


@pytest.fixture
def shell(
    name: str, request: pytest.FixtureRequest, model: RehearsalModel, tmp_path: Path
) -> Iterator[Shell]:
    """upthread in a repository, with one agent on PATH that it chooses by itself."""
    agent = WAYS[name]
    yield shell_of(agent, request.getfixturevalue(agent.fixture), model, tmp_path)
    assert agents_left(tmp_path) == []
