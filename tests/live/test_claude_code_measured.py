"""Claude Code, driven in both ways, through every case of the continuity suite.

What is seen must be what docs/agents/measured/ holds; `UPTHREAD_WRITE_MEASURED=1` measures anew.
"""

from __future__ import annotations

import json

import pytest
from tests.live.claude_code import claude_environment, command, delegation
from tests.live.measuring import CASES_OVER_ACP, MEASURED
from tests.support.continuity import CASES, MeasuredAgent, hold_to_measured

from upthread.agents.acp import AcpAdapter
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter

pytestmark = [
    pytest.mark.live,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("measured-claude-code"),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


def delete_session(place, session):
    (transcript,) = (place / "home" / ".claude" / "projects").glob(f"*/{session}.jsonl")
    transcript.unlink()


def measured_agent(name, *, driven_by, adapter, more):
    return MeasuredAgent(
        name=name,
        driven_by=driven_by,
        adapter=adapter,
        environment=lambda place, model: {**claude_environment(place / "home", model), **more},
        command=command,
        delegation=delegation,
        delete_session=delete_session,
        unknown_session="00000000-0000-4000-8000-000000000000",
    )


@pytest.fixture
def natively(claude_binary):
    return measured_agent(
        "claude-code",
        driven_by="`claude -p` with JSON lines both ways",
        adapter=ClaudeCodeAdapter(command=[str(claude_binary)]),
        more={},
    )


@pytest.fixture
def over_acp(claude_binary, claude_acp, tmp_path):
    """Claude Code over ACP, in its mode `default`.

    With a current model claude-agent-acp begins in the mode `auto`, whose safety check asks
    Anthropic. The check does not run against another model server, and then every call is refused.
    """
    settings = tmp_path / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"defaultMode": "default"}}))
    return measured_agent(
        "claude-code-acp",
        driven_by="`claude-agent-acp`, with the same Claude Code below",
        adapter=AcpAdapter(agent="claude-code", command=claude_acp),
        more={"CLAUDE_CODE_EXECUTABLE": str(claude_binary)},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_claude_code_is_as_measured(case, natively, model, tmp_path):
    await hold_to_measured(case, natively, place=tmp_path, model=model, directory=MEASURED)


@pytest.mark.parametrize("case", CASES_OVER_ACP)
async def test_claude_code_over_acp_is_as_measured(case, over_acp, model, tmp_path):
    await hold_to_measured(case, over_acp, place=tmp_path, model=model, directory=MEASURED)
