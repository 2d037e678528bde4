"""What upthread relies on in the real OpenCode over ACP (docs/agents/opencode-acp.md).

How its sessions survive is measured by the continuity suite, in test_measured.py.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.acp_process import AcpProcess
from tests.live.agents import make_repository
from tests.live.opencode import call, command, delegation, opencode_environment
from tests.live.shell import is_alive, kill_all, tree_of, wait_until
from tests.support.sets import EXTENDED, SOAK

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(400)]

LONG = command("echo started; sleep 300")


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


def attach(agent: AcpProcess, verb: str, session: str, project: Path) -> dict:
    return agent.call(f"session/{verb}", sessionId=session, cwd=str(project), mcpServers=[])


def wait_for_output(agent: AcpProcess, text: str) -> None:
    agent.wait_for(
        lambda: any(
            text in json.dumps(each.get("content", ""))
            for each in agent.updates("tool_call_update")
        )
    )


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


@pytest.mark.parametrize("protocol", [pytest.param("chat_completions", marks=SOAK)])
def test_a_kill_leaves_the_prompt_and_an_open_call_and_takes_the_unfinished_reply(
    opencode_binary, project, model, tmp_path, protocol
):
    """Over Chat Completions, to have OpenCode's other protocol too."""
    environment = opencode_environment(tmp_path, model, protocol=protocol)

    def started() -> AcpProcess:
        acp = [str(opencode_binary), "acp"]
        return AcpProcess(acp, environment=environment, cwd=project)

    with started() as agent:
        session, paced = new_session(agent, project), new_session(agent, project)
        agent.start_prompt(session, f"[[THINK I ponder]] {LONG}")
        agent.start_prompt(paced, f"[[PACE 0.2]] [[SAY {'word ' * 400}]]")
        wait_for_output(agent, "started")
        agent.wait_for(lambda: "word word word" in agent.text())
        agent.kill()
    with started() as agent:
        listed = agent.call("session/list", cwd=str(project))["result"]["sessions"]
        assert {each["sessionId"] for each in listed} >= {session, paced}
        attach(agent, "load", session, project)
        (open_call,) = agent.updates("tool_call")
        assert (open_call["status"], open_call["kind"]) == ("pending", "execute")
        seen = len(agent.frames)
        attach(agent, "load", paced, project)
        assert agent.text("user_message_chunk", since=seen).startswith("[[PACE")
        assert agent.text(since=seen) == ""
        agent.prompt(session, "What was that?")
        assert "[Tool execution was interrupted]" in json.dumps(model.model_requests[-1].body)


@pytest.mark.parametrize(
    "ending", [pytest.param(each, marks=SOAK) for each in ("end of stdin", "SIGTERM")]
)
def test_the_end_of_stdin_ends_its_commands_and_sigterm_leaves_them(
    start_opencode, project, ending
):
    """This is why the adapter closes stdin first, and ends the descendants itself."""
    agent = start_opencode()
    agent.start_prompt(new_session(agent, project), LONG)
    wait_for_output(agent, "started")
    below = tree_of(agent.process.pid) - {agent.process.pid}
    assert below
    try:
        if ending == "SIGTERM":
            agent.process.terminate()
            assert agent.release() == -signal.SIGTERM
            assert any(map(is_alive, below))
        else:
            agent.process.stdin.close()
            assert agent.release() == 0
            wait_until(lambda: not any(map(is_alive, below)), "end of the command")
    finally:
        kill_all(below)
