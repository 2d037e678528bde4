"""Real agents as child processes, and the proof after each test that none of them is left."""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from upthread.agents._guard import MARK_VARIABLE, marked_processes
from upthread.agents.acp import AcpAdapter
from upthread.agents.base import OpenRequest, PermissionAnswer, PermissionRequest
from upthread.core.events import AgentEvent, TextReceived
from upthread.testing.agent_conformance import matrix

SCRIPTED = Path(__file__).parent / "scripted_agent.py"
NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every process a test starts, however deep, carries this mark; afterwards none may."""
    mark = secrets.token_hex(8)
    monkeypatch.setenv(MARK_VARIABLE, mark)
    yield mark
    until = time.monotonic() + 30
    while (left := marked_processes(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == ()


@pytest.fixture
def scripted() -> Callable[..., AcpAdapter]:
    """Make an adapter of the scripted agent that misbehaves as the given word says."""

    def make(word: str = "well") -> AcpAdapter:
        command = (sys.executable, "-I", str(SCRIPTED), word)
        adapter = AcpAdapter(agent="scripted", command=command)
        adapter.now_ms = lambda: NOW_MS
        return adapter

    return make


async def allow(request: PermissionRequest) -> PermissionAnswer:
    option = next(name for name, kind in request.options if kind == "allow_once")
    return PermissionAnswer(option_id=option, answered_by="test")


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., OpenRequest]:
    """Make an open request with short deadlines; anything may be given."""
    request = OpenRequest(
        working_directory=str(tmp_path),
        stderr_path=str(tmp_path / "log" / "stderr"),
        answer_permission=allow,
        start_timeout_s=10,
        prompt_timeout_s=20,
        cancel_timeout_s=5,
    )
    return lambda **changes: structs.replace(request, **changes)


class Recorded(list[AgentEvent]):
    """An `on_event` that keeps what it is given."""

    async def __call__(self, event: AgentEvent) -> None:
        self.append(event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self if isinstance(event, TextReceived))


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which agent keeps which promise of the port, the ones it cannot show included."""
    verdicts: dict[tuple[str, str], str] = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):
                if name == "agent promise":
                    verdicts[value[0], value[1]] = value[2]
    if verdicts:
        terminalreporter.section("promises of the agent port")
        terminalreporter.write_line(matrix(verdicts))
