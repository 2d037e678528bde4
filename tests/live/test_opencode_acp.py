"""What upthread relies on in the real OpenCode over ACP (docs/agents/opencode-acp.md).

How its sessions survive is measured by the continuity suite, in test_measured.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.acp_process import AcpProcess
from tests.live.agents import make_repository
from tests.live.opencode import call, command, delegation, opencode_environment
from tests.support.sets import EXTENDED

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def model() -> Iterator[RehearsalModel]:
    with RehearsalModel() as model:
        yield model
    assert model.violations == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("project")
    make_repository(project)
    return project


@pytest.fixture(scope="module")
def agent(opencode_binary, model, project, tmp_path_factory) -> Iterator[AcpProcess]:
    """One OpenCode that asks before it edits; the tests' client says yes."""
    home = tmp_path_factory.mktemp("home")
    asking = {"edit": "ask", "bash": "allow"}
    environment = opencode_environment(home, model, permission=asking)
    acp = [str(opencode_binary), "acp"]
    with AcpProcess(acp, environment=environment, cwd=project) as agent:
        yield agent


def new_session(agent: AcpProcess, project: Path) -> str:
    made = agent.call("session/new", cwd=str(project), mcpServers=[])
    return made["result"]["sessionId"]


def test_tool_calls_report_kind_places_and_arguments(agent, project):
    session, seen = new_session(agent, project), len(agent.frames)
    path = str(project / "new.txt")
    steps = [
        call("write", filePath=path, content="x"),
        command("echo out; exit 3"),
        call("read", filePath=str(project / "a.txt")),
        delegation(f"{command('pwd')} [[SAY child says]]"),
        "[[SAY done]]",
    ]
    agent.prompt(session, " ".join(steps))
    assert (project / "new.txt").read_text() == "x"
    calls = agent.updates("tool_call", since=seen)
    assert [(each["title"], each["kind"], each["status"]) for each in calls] == [
        ("write", "edit", "pending"),
        ("bash", "execute", "pending"),
        ("read", "read", "pending"),
        ("task", "think", "pending"),
    ]
    updates = agent.updates("tool_call_update", since=seen)
    write, bash, read, task = (
        [each for each in updates if each["toolCallId"] == of_call["toolCallId"]]
        for of_call in calls
    )
    for of_call in (write, bash, read, task):
        assert (of_call[0]["status"], of_call[-1]["status"]) == ("in_progress", "completed")
    assert write[0]["rawInput"] == {"filePath": path, "content": "x"}
    assert write[0]["locations"] == [{"path": path}]
    assert "rawInput" not in write[-1]
    assert bash[0]["rawInput"]["command"] == "echo out; exit 3"
    assert bash[-1]["rawOutput"]["metadata"]["exit"] == 3
    assert read[0]["locations"] == [{"path": str(project / "a.txt")}]
    assert task[-1]["rawOutput"]["metadata"]["parentSessionId"] == session
    assert "child says" in task[-1]["content"][0]["content"]["text"]
    assert agent.text(since=seen) == "done", "the child's own stream is not sent"
