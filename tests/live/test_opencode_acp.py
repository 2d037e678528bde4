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
from tests.live.opencode import call, command, delegation, opencode_environment, pinned_version
from tests.live.shell import is_alive, kill_all, tree_of, wait_until
from tests.support.sets import EXTENDED, SOAK

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(400)]

REFUSED = {
    "code": -32603,
    "message": "Internal error: OpenCode service failure",
    "data": {"service": "session"},
}
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


@SOAK
def test_it_says_what_it_can_do_and_answers(agent, project, model):
    result = agent.initialized["result"]
    assert result["agentInfo"] == {"name": "OpenCode", "version": pinned_version()}
    assert result["agentCapabilities"]["loadSession"] is True
    can = set(result["agentCapabilities"]["sessionCapabilities"])
    assert can == {"close", "fork", "list", "resume"}
    session = new_session(agent, project)
    seen, asked = len(agent.frames), len(model.model_requests)
    answer = agent.prompt(session, "[[THINK I ponder]] [[SAY hello there]]")
    assert answer["result"]["stopReason"] == "end_turn"
    assert agent.text(since=seen) == "hello there"
    assert agent.text("agent_thought_chunk", since=seen) == "I ponder"
    assert agent.updates("user_message_chunk", since=seen) == []
    (usage,) = agent.updates("usage_update", since=seen)
    assert 0 < usage["used"] < usage["size"] == 100_000
    (request,) = model.model_requests[asked:]
    assert request.session_id == session


def test_an_unknown_session_is_refused_in_opaque_words_and_not_listed(agent, project):
    for unknown in ("ses_0000000000000000000000abcd", "no-such-session"):
        assert attach(agent, "load", unknown, project)["error"] == REFUSED
        assert attach(agent, "resume", unknown, project)["error"] == REFUSED
        prompted = agent.prompt(unknown, "hello?")["error"]
        assert prompted["code"] == -32602
        assert prompted["message"] == f"Invalid params: session not found: {unknown}"
        listed = agent.call("session/list", cwd=str(project))["result"]["sessions"]
        assert unknown not in [each["sessionId"] for each in listed]


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


def test_a_permission_is_asked_for_and_a_no_ends_the_turn(agent, project):
    session, seen = new_session(agent, project), len(agent.frames)
    path = project / "asked.txt"
    agent.prompt(session, f"{call('write', filePath=str(path), content='x')} [[SAY ok]]")
    asked = agent.requests("session/request_permission")[-1]["params"]
    assert [(each["optionId"], each["kind"]) for each in asked["options"]] == [
        ("once", "allow_once"),
        ("always", "allow_always"),
        ("reject", "reject_once"),
    ]
    assert asked["toolCall"]["kind"] == "edit"
    assert asked["toolCall"]["locations"] == [{"path": str(path)}]
    assert path.read_text() == "x"

    agent.permission_option, seen = "reject", len(agent.frames)
    refused = call("write", filePath=str(project / "no.txt"), content="x")
    answer = agent.prompt(session, f"{refused} [[SAY never]]")
    agent.permission_option = "once"
    assert answer["result"]["stopReason"] == "end_turn"
    assert agent.updates("tool_call_update", since=seen)[-1]["status"] == "failed"
    assert agent.text(since=seen) == ""
    assert not (project / "no.txt").exists()


def test_cancel_ends_a_command_and_says_so(agent, project):
    session = new_session(agent, project)
    prompt = agent.start_prompt(session, f"{LONG} [[SAY never]]")
    wait_for_output(agent, "started")
    below = tree_of(agent.process.pid) - {agent.process.pid}
    agent.notify("session/cancel", sessionId=session)
    assert agent.answer_to(prompt)["result"]["stopReason"] == "cancelled"
    wait_until(lambda: not any(map(is_alive, below)), "end of the command")
    assert agent.prompt(session, "[[SAY still here]]")["result"]["stopReason"] == "end_turn"


def test_a_rate_limit_is_retried_in_silence_and_then_reported(agent, project, model):
    session, asked = new_session(agent, project), len(model.model_requests)
    error = agent.prompt(session, "[[FAIL 429 retry-after=0.1 slow down]]")["error"]
    assert error == {
        "code": -32603,
        "message": "Internal error: slow down",
        "data": {"service": "session", "errorName": "APIError"},
    }
    assert len(model.model_requests) - asked > 1
    assert agent.prompt(session, "[[SAY back]]")["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("protocol", [pytest.param("messages", marks=SOAK)])
def test_a_kill_leaves_the_prompt_and_an_open_call_and_takes_the_unfinished_reply(
    opencode_binary, project, model, tmp_path, protocol
):
    """Over Anthropic Messages, to have OpenCode's other protocol too."""
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
