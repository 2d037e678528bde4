"""Roles on different agents, and a conversation that moves between them with its context."""

import pytest
from tests.live.agents import AGENTS, shell_of
from tests.live.asked import last_request
from tests.live.shell import Shell, agents_left
from tests.support.sets import EXTENDED

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(600)]

ROLES = {"planner": "claude-code", "constructor": "opencode", "validator": "codex"}
PROTOCOLS = {"claude-code": "messages", "opencode": "messages", "codex": "responses"}


@pytest.fixture
def shell(request, model, tmp_path):
    """All three agents are on PATH, each with the rehearsal model as its only provider."""
    variables: dict[str, str] = {}
    for agent in AGENTS.values():
        binary = request.getfixturevalue(agent.fixture)
        shell = shell_of(agent, binary, model, tmp_path / agent.name)
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / agent.program).symlink_to(binary)
        agent.settings(tmp_path / "home")
        variables |= agent.environment(tmp_path / "home", model)
    variables |= {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "UPTHREAD_HOME": str(shell.own)}
    yield Shell(shell.project, variables)
    assert agents_left(tmp_path) == []


def test_a_conversation_moves_from_agent_to_agent_and_back_with_its_context(shell, model):
    agents = ["codex", "claude-code", "opencode", "codex"]
    for number, agent in enumerate(agents):
        told = shell.tell(f"Remember KIWI-{number}.", "--agent", agent)
        assert told["outcome"] == "ok"
        assert model.model_requests[-1].protocol == PROTOCOLS[agent]
        for earlier in range(number + 1):
            assert f"KIWI-{earlier}" in last_request(model)
    chain = shell.one("show", "spec-42")["roles"][0]["chain"]
    assert [link["agent"] for link in chain] == agents
    assert len({link["upstream_session_id"] for link in chain}) == len(chain)
