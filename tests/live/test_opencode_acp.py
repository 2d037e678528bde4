"""What upthread relies on in the real OpenCode over ACP (docs/agents/opencode-acp.md)."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.live.acp_process import descendants_of, is_alive
from tests.live.opencode import pinned_version

pytestmark = pytest.mark.live

REFUSED = {
    "code": -32603,
    "message": "Internal error: OpenCode service failure",
    "data": {"service": "session"},
}


def new_session(agent, project):
    made = agent.call("session/new", cwd=str(project), mcpServers=[])
    return made["result"]["sessionId"]


def attach(agent, verb, session_id, project):
    return agent.call(f"session/{verb}", sessionId=session_id, cwd=str(project), mcpServers=[])


def step(tool, **arguments):
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def sleeper(seconds=300):
    return step("bash", command=f"echo started; sleep {seconds}", description="wait")


def users_of(request):
    return [m["content"] for m in request.body["messages"] if m["role"] == "user"]


def wait_for_output(agent, text):
    agent.wait_for(
        lambda: [
            update
            for update in agent.updates("tool_call_update")
            if text in json.dumps(update.get("content", ""))
        ]
    )


def test_it_says_what_it_can_do_and_answers(start_opencode, project, model):
    agent = start_opencode()
    result = agent.initialized["result"]
    assert result["agentInfo"] == {"name": "OpenCode", "version": pinned_version()}
    assert result["agentCapabilities"]["loadSession"] is True
    can = set(result["agentCapabilities"]["sessionCapabilities"])
    assert can == {"close", "fork", "list", "resume"}
    session_id = new_session(agent, project)
    assert session_id.startswith("ses_")

    answer = agent.prompt(session_id, "[[THINK I ponder]] [[SAY hello there]]")

    assert answer["result"]["stopReason"] == "end_turn"
    assert agent.text() == "hello there"
    assert agent.text("agent_thought_chunk") == "I ponder"
    assert agent.updates("user_message_chunk") == []
    (usage,) = agent.updates("usage_update")
    assert 0 < usage["used"] < usage["size"] == 100_000
    (request,) = model.model_requests
    assert request.session_id == session_id
    assert [request.is_side_request for request in model.requests].count(True) == 1


@pytest.mark.parametrize("verb", ["load", "resume"])
def test_a_session_outlives_a_kill_with_its_whole_history(start_opencode, project, model, verb):
    agent = start_opencode()
    session_id = new_session(agent, project)
    agent.prompt(session_id, "The word is KIWI42. [[SAY noted]]")
    agent.kill()

    agent = start_opencode()
    listed = agent.call("session/list", cwd=str(project))["result"]["sessions"]
    assert [(entry["sessionId"], entry["cwd"]) for entry in listed] == [(session_id, str(project))]
    before = len(agent.frames)
    assert "error" not in attach(agent, verb, session_id, project)
    replayed = [
        (update["sessionUpdate"], update["content"]["text"])
        for update in agent.updates(since=before)
        if "content" in update
    ]
    assert replayed == (
        [
            ("user_message_chunk", "The word is KIWI42. [[SAY noted]]"),
            ("agent_message_chunk", "noted"),
        ]
        if verb == "load"
        else []
    )

    before = len(agent.frames)
    agent.prompt(session_id, "Which word?")

    assert agent.text(since=before).startswith("HIST n_user=2")
    request = model.model_requests[-1]
    assert users_of(request) == ["The word is KIWI42. [[SAY noted]]", "Which word?"]
    assert request.session_id == session_id


def test_an_unknown_session_is_refused_in_opaque_words_and_not_listed(start_opencode, project):
    agent = start_opencode()
    for unknown in ("ses_0000000000000000000000abcd", "no-such-session"):
        assert attach(agent, "load", unknown, project)["error"] == REFUSED
        assert attach(agent, "resume", unknown, project)["error"] == REFUSED
        prompted = agent.prompt(unknown, "hello?")["error"]
        assert prompted["code"] == -32602
        assert prompted["message"] == f"Invalid params: session not found: {unknown}"
    assert agent.call("session/list", cwd=str(project))["result"]["sessions"] == []


def test_tool_calls_tell_kind_places_and_arguments(start_opencode, project):
    agent = start_opencode()
    session_id = new_session(agent, project)
    path = str(project / "new.txt")
    steps = [
        step("write", filePath=path, content="x"),
        step("bash", command="echo out; exit 3", description="try"),
        step("read", filePath=str(project / "a.txt")),
        step(
            "task",
            description="sub",
            prompt=f"{step('bash', command='pwd', description='where')} [[SAY child says]]",
            subagent_type="general",
        ),
        "[[SAY done]]",
    ]
    agent.prompt(session_id, " ".join(steps))

    assert (project / "new.txt").read_text() == "x"
    calls = agent.updates("tool_call")
    assert [(call["title"], call["kind"], call["status"]) for call in calls] == [
        ("write", "edit", "pending"),
        ("bash", "execute", "pending"),
        ("read", "read", "pending"),
        ("task", "think", "pending"),
    ]
    updates = {
        call["toolCallId"]: [
            update
            for update in agent.updates("tool_call_update")
            if update["toolCallId"] == call["toolCallId"]
        ]
        for call in calls
    }
    assert all(
        [update["status"] for update in of_call][:: len(of_call) - 1]
        == ["in_progress", "completed"]
        for of_call in updates.values()
    )
    write, bash, read, task = updates.values()
    assert write[0]["rawInput"] == {"filePath": path, "content": "x"}
    assert write[0]["locations"] == [{"path": path}]
    assert "rawInput" not in write[-1]
    assert bash[0]["rawInput"]["command"] == "echo out; exit 3"
    assert bash[-1]["rawOutput"]["metadata"]["exit"] == 3
    assert read[0]["locations"] == [{"path": str(project / "a.txt")}]
    assert task[-1]["rawOutput"]["metadata"]["parentSessionId"] == session_id
    assert "child says" in task[-1]["content"][0]["content"]["text"]
    assert agent.text() == "done", "nothing of the child's own stream is sent"


def test_a_command_cut_off_by_a_kill_stays_open_in_the_replay(start_opencode, project, model):
    agent = start_opencode()
    session_id = new_session(agent, project)
    agent.start_prompt(session_id, sleeper())
    wait_for_output(agent, "started")
    agent.kill()

    agent = start_opencode()
    before = len(agent.frames)
    attach(agent, "load", session_id, project)
    (call,) = agent.updates("tool_call", since=before)
    assert (call["status"], call["kind"]) == ("pending", "execute")
    states = [update["status"] for update in agent.updates("tool_call_update", since=before)]
    assert states == ["in_progress"]

    agent.prompt(session_id, "What happened?")
    results = [m for m in model.model_requests[-1].body["messages"] if m["role"] == "tool"]
    assert [result["content"] for result in results] == ["[Tool execution was interrupted]"]


def test_a_reply_cut_off_by_a_kill_is_lost(start_opencode, project, model):
    agent = start_opencode()
    session_id = new_session(agent, project)
    agent.start_prompt(session_id, f"[[PACE 0.2]] [[SAY {'word ' * 400}]]")
    agent.wait_for(lambda: len(agent.text()) > 100)
    agent.kill()

    agent = start_opencode()
    before = len(agent.frames)
    attach(agent, "load", session_id, project)
    assert agent.text("user_message_chunk", since=before).startswith("[[PACE")
    assert agent.text(since=before) == ""
    agent.prompt(session_id, "Go on.")
    assert len(users_of(model.model_requests[-1])) == 2


def test_the_end_of_stdin_ends_it_with_its_commands(start_opencode, project):
    agent = start_opencode()
    session_id = new_session(agent, project)
    agent.start_prompt(session_id, sleeper())
    wait_for_output(agent, "started")
    children = descendants_of(agent.process.pid)
    assert children

    agent.process.stdin.close()

    assert agent.release() == 0
    assert [pid for pid in children if is_alive(pid)] == []


def test_sigterm_leaves_a_running_command_behind(start_opencode, project):
    """Why the adapter closes stdin first, and ends the descendants itself."""
    agent = start_opencode()
    session_id = new_session(agent, project)
    agent.start_prompt(session_id, sleeper())
    wait_for_output(agent, "started")
    children = descendants_of(agent.process.pid)
    try:
        agent.process.terminate()
        assert agent.release() == -signal.SIGTERM
        assert [pid for pid in children if is_alive(pid)] != []
    finally:
        for pid in filter(is_alive, children):
            os.kill(pid, signal.SIGKILL)


def test_cancel_ends_a_command_and_says_so(start_opencode, project):
    agent = start_opencode()
    session_id = new_session(agent, project)
    prompt = agent.start_prompt(session_id, f"{sleeper()} [[SAY never]]")
    wait_for_output(agent, "started")
    children = descendants_of(agent.process.pid)
    agent.notify("session/cancel", sessionId=session_id)
    assert agent.answer_to(prompt)["result"]["stopReason"] == "cancelled"
    assert [pid for pid in children if is_alive(pid)] == []
    assert agent.prompt(session_id, "[[SAY still here]]")["result"]["stopReason"] == "end_turn"


def test_a_permission_is_asked_for_and_a_no_ends_the_turn(start_opencode, project):
    agent = start_opencode(permission={"edit": "ask", "bash": "ask"})
    session_id = new_session(agent, project)
    path = project / "asked.txt"
    agent.prompt(session_id, f"{step('write', filePath=str(path), content='x')} [[SAY ok]]")
    (asked,) = agent.requests("session/request_permission")
    tool_call = asked["params"]["toolCall"]
    assert [(o["optionId"], o["kind"]) for o in asked["params"]["options"]] == [
        ("once", "allow_once"),
        ("always", "allow_always"),
        ("reject", "reject_once"),
    ]
    assert (tool_call["kind"], tool_call["locations"]) == ("edit", [{"path": str(path)}])
    assert path.read_text() == "x"

    agent.permission_option = "reject"
    before = len(agent.frames)
    command = step("bash", command="touch no.txt", description="try")
    answer = agent.prompt(session_id, f"{command} [[SAY never]]")
    assert answer["result"]["stopReason"] == "end_turn"
    assert agent.updates("tool_call_update", since=before)[-1]["status"] == "failed"
    assert agent.text(since=before) == ""
    assert not (project / "no.txt").exists()


def test_a_rate_limit_is_retried_in_silence_and_then_told(start_opencode, project, model):
    agent = start_opencode()
    session_id = new_session(agent, project)
    started = time.monotonic()
    error = agent.prompt(session_id, "[[FAIL 429 retry-after=0.1 slow down]]")["error"]
    assert error == {
        "code": -32603,
        "message": "Internal error: slow down",
        "data": {"service": "session", "errorName": "APIError"},
    }
    assert len(model.model_requests) > 1
    assert time.monotonic() - started < 30
    assert agent.prompt(session_id, "[[SAY back]]")["result"]["stopReason"] == "end_turn"
    assert agent.text() == "back"


def test_histories_survive_a_kill_over_anthropic_messages_too(start_opencode, project, model):
    agent = start_opencode(protocol="messages")
    session_id = new_session(agent, project)
    write = step("write", filePath=str(project / "b.txt"), content="x")
    agent.prompt(session_id, f"[[THINK I ponder]] {write} [[SAY written]]")
    assert (project / "b.txt").read_text() == "x"
    assert agent.text("agent_thought_chunk") == "I ponder"
    agent.start_prompt(session_id, sleeper())
    wait_for_output(agent, "started")
    agent.kill()

    agent = start_opencode(protocol="messages")
    attach(agent, "resume", session_id, project)
    before = len(agent.frames)
    agent.prompt(session_id, "What was that?")

    assert agent.text(since=before).startswith("HIST n_user=3")
    assert {request.protocol for request in model.model_requests} == {"messages"}
    assert "[Tool execution was interrupted]" in json.dumps(model.model_requests[-1].body)


def test_the_model_plays_a_constructor_with_opencodes_own_tool(start_opencode, project):
    agent = start_opencode()
    session_id = new_session(agent, project)
    role = '<role name="constructor">\nYou build.\n</role>'
    agent.prompt(session_id, f"{role}\n\nBuild it.")
    assert "user messages seen: 1" in (project / "built-by-rehearsal-1.md").read_text()
    assert '"status": "done"' in agent.text()

    fresh = new_session(agent, project)
    before = len(agent.frames)
    agent.prompt(fresh, f"{role}\n\nBuild it again.")
    assert '"status": "done"' in agent.text(since=before)
