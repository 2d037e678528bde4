"""Claude Code through every case of the continuity suite.

What is seen must be what docs/agents/measured/ holds; `UPTHREAD_WRITE_MEASURED=1` measures anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.claude_code import claude_environment, command, delegation

from upthread.agents.claude_code import ClaudeCodeAdapter
from upthread.testing.continuity import CASES, MeasuredAgent, hold_to_measured

pytestmark = [
    pytest.mark.live,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("measured-claude-code"),
]

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "agents" / "measured"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def delete_session(place, session):
    (transcript,) = (place / "home" / ".claude" / "projects").glob(f"*/{session}.jsonl")
    transcript.unlink()


@pytest.fixture
def agent(claude_binary):
    return MeasuredAgent(
        name="claude-code",
        driven_by="`claude -p` with JSON lines both ways",
        adapter=ClaudeCodeAdapter(command=[str(claude_binary)]),
        environment=lambda place, model: claude_environment(place / "home", model),
        command=command,
        delegation=delegation,
        delete_session=delete_session,
        unknown_session="00000000-0000-4000-8000-000000000000",
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_claude_code_is_as_measured(case, agent, model, tmp_path):
    await hold_to_measured(case, agent, place=tmp_path, model=model, directory=MEASURED)
