"""What agents ask of a client that says it has files and terminals: nothing they need (ADR 50)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.live import claude_code, codex
from tests.live.acp_process import AcpProcess
from tests.live.opencode import opencode_environment

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

EVERYTHING = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def worked(command, prompt: str, environment, project: Path) -> dict[str, int]:
    """Have an agent do the prompt; returns how often it asked its client for what.

    Everything but permissions is refused.
    """
    with AcpProcess(
        list(command), environment=environment, cwd=project, announced=EVERYTHING
    ) as agent:
        made = agent.call("session/new", cwd=str(project), mcpServers=[])
        session = made["result"]["sessionId"]
        assert agent.prompt(session, prompt)["result"]["stopReason"] == "end_turn"
        asked = [frame["method"] for frame in agent.frames if "method" in frame and "id" in frame]
    return {method: asked.count(method) for method in sorted(set(asked))}


def test_claude_code_reads_writes_and_runs_by_itself(
    claude_binary, claude_acp, model, project, tmp_path
):
    home, written = tmp_path / "home", str(project / "written.txt")
    environment = {
        **claude_code.claude_environment(home, model),
        "CLAUDE_CODE_EXECUTABLE": str(claude_binary),
    }
    (home / ".claude").mkdir()
    allowed = {"permissions": {"allow": ["Bash", "Write", "Read"]}}
    (home / ".claude" / "settings.json").write_text(json.dumps(allowed))
    steps = (
        claude_code.call("Read", file_path=str(project / "a.txt")),
        claude_code.call("Write", file_path=written, content="x"),
        claude_code.command("touch ran"),
    )
    assert worked(claude_acp, " ".join(steps), environment, project) == {}
    assert Path(written).read_text() == "x"
    assert (project / "ran").exists()


def test_codex_runs_by_itself(codex_binary, codex_acp, model, project, tmp_path):
    environment = {
        **codex.codex_environment(tmp_path / "home", model),
        "CODEX_PATH": str(codex_binary),
        **codex.FULL_ACCESS,
    }
    prompt = codex.command("touch ran")
    assert worked(("node", str(codex_acp)), prompt, environment, project) == {}
    assert (project / "ran").exists()


def test_opencode_tells_of_an_edit_it_may_make_and_makes_it_by_itself(
    opencode_binary, model, project, tmp_path
):
    """What it asks is refused here, and what it would have had written stands there anyway."""
    asks = {"edit": "ask", "bash": "allow"}
    environment = opencode_environment(tmp_path / "home", model, permission=asks)
    written = str(project / "written.txt")
    steps = (
        claude_code.call("read", filePath=str(project / "a.txt")),
        claude_code.call("write", filePath=written, content="x"),
        claude_code.call("bash", command="touch ran", description="run it"),
    )
    command = (str(opencode_binary), "acp")
    asked = worked(command, " ".join(steps), environment, project)
    assert asked == {"fs/write_text_file": 1, "session/request_permission": 1}
    assert Path(written).read_text() == "x"
    assert (project / "ran").exists()
