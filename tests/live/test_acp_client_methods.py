"""What agents ask of a client that says it has files and terminals: nothing they need (ADR 50)."""

from __future__ import annotations

import pytest
from tests.live import codex, opencode
from tests.live.acp_process import AcpProcess
from tests.live.agents import AGENTS
from tests.support.sets import spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

EVERYTHING = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
ASKED = {
    "claude-code": {},
    "codex": {},
    # OpenCode asks for an edit, is refused, and has written the file by itself.
    "opencode": {"fs/write_text_file": 1, "session/request_permission": 1},
}


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_an_agent_reads_writes_and_runs_by_itself(name, model, project, tmp_path, request):
    agent = AGENTS[name]
    binary = str(request.getfixturevalue(agent.fixture))
    environment = agent.environment(tmp_path / "home", model)
    command, more = [binary, "acp"], {}
    if name == "claude-code":
        command = request.getfixturevalue("claude_acp")
        more = {"CLAUDE_CODE_EXECUTABLE": binary}
    elif name == "codex":
        command = request.getfixturevalue("codex_acp")
        more = {"CODEX_PATH": binary, **codex.FULL_ACCESS}
    else:
        asks = {"edit": "ask", "bash": "allow"}
        environment = opencode.opencode_environment(tmp_path / "home", model, permission=asks)
    agent.settings(tmp_path / "home")
    written = project / "written.txt"
    steps = (agent.read(project / "a.txt"), agent.write(written), agent.command("touch ran"))
    with AcpProcess(
        list(command), environment={**environment, **more}, cwd=project, announced=EVERYTHING
    ) as process:
        made = process.call("session/new", cwd=str(project), mcpServers=[])
        answer = process.prompt(made["result"]["sessionId"], " ".join(steps))
        assert answer["result"]["stopReason"] == "end_turn"
        asked = [each["method"] for each in process.frames if "method" in each and "id" in each]
    assert {method: asked.count(method) for method in asked} == ASKED[name]
    assert written.read_text().strip() == "x"
    assert (project / "ran").exists()
