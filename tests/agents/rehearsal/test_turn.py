"""One turn of the rehearsal agent: its reply, its permissions, and how it is cut short."""

import pytest
from tests.agents.rehearsal.conftest import NOTICE, rehearse

FOREVER = "execute python -c 'import time; time.sleep(600)'"


def test_the_first_reply_of_a_session_and_only_that_says_it_is_a_rehearsal(agent):
    session_id = agent.new()
    assert agent.prompt(session_id, rehearse("empty")) == "end_turn"
    assert agent.updates == []
    agent.prompt(session_id, "one")
    assert agent.reply.startswith(NOTICE)
    agent.prompt(session_id, "two")
    assert NOTICE not in agent.reply


def test_a_cancelled_command_is_ended_and_its_call_has_failed(agent):
    """A command that went on would fail the proof that no process is left."""
    session_id = agent.new()
    running = agent.begin(session_id, FOREVER)
    agent.cancel(session_id)
    assert agent.answer(running)["stopReason"] == "cancelled"
    assert agent.of_kind("tool_call_update")[-1]["status"] == "failed"


def test_a_refused_permission_is_honoured_and_the_turn_continues(agent, project, read_log):
    agent.permission_answer = "reject_once"
    assert agent.do("write a.txt x", "execute python -c pass", "say so") == "so"
    assert not (project / "a.txt").exists()
    assert [update["status"] for update in agent.of_kind("tool_call_update")] == ["failed"] * 2
    assert not [line for line in read_log() if line["event"] in {"write", "execute"}]


def test_a_dismissed_permission_cancels_the_turn(agent, project):
    agent.permission_answer = None
    assert agent.prompt(agent.new(), rehearse("write a.txt x")) == "cancelled"
    assert not (project / "a.txt").exists()


def test_a_permission_request_names_the_call_and_its_file(agent, project):
    session_id = agent.new()
    agent.prompt(session_id, rehearse("write a.txt x"))
    (asked,) = agent.permissions
    assert asked["sessionId"] == session_id
    assert asked["toolCall"]["rawInput"] == {"path": "a.txt", "content": "x"}
    assert asked["toolCall"]["locations"] == [{"path": str(project / "a.txt")}]
    assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]


# --- the agent's tools: they read, write and run for real, inside the working directory -----------


def _result(agent, directive):
    agent.do(directive)
    return agent.of_kind("tool_call_update")[-1]


def _said(update):
    return update["content"][0]["content"]["text"]


def test_reading_shows_the_file_and_asks_nobody(agent, project):
    (project / "a.txt").write_text("héllo")
    result = _result(agent, "read a.txt")
    assert (result["status"], _said(result)) == ("completed", "héllo")
    (call,) = agent.of_kind("tool_call")
    assert (call["kind"], call["locations"]) == ("read", [{"path": str(project / "a.txt")}])
    assert agent.permissions == []


@pytest.mark.parametrize(
    ("directive", "reason"),
    [("read none.txt", "No such file"), ("execute no-such-program --now", "no-such-program")],
)
def test_a_file_or_program_that_is_not_there_fails_with_the_reason(agent, directive, reason):
    result = _result(agent, directive)
    assert result["status"] == "failed"
    assert reason in _said(result)
    assert result["rawOutput"].get("exitCode") is None


def test_writing_makes_directories_and_shows_the_difference(agent, project):
    (project / "a.txt").write_text("old")
    assert _result(agent, "write a.txt new text")["content"] == [
        {"type": "diff", "path": str(project / "a.txt"), "oldText": "old", "newText": "new text"}
    ]
    assert _result(agent, "write deep/er/b.txt x")["status"] == "completed"
    assert (project / "deep/er/b.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/rehearsal-out.txt", "link/out.txt"])
def test_nothing_is_written_outside_the_working_directory(agent, project, tmp_path, path):
    (tmp_path / "elsewhere").mkdir()
    (project / "link").symlink_to(tmp_path / "elsewhere")
    result = _result(agent, f"write {path} x")
    assert result["status"] == "failed"
    assert "outside the working directory" in _said(result)
    assert not (project / path).resolve().exists()


@pytest.mark.extended
def test_a_command_really_runs_without_input_and_reports_its_exit_code(agent, project):
    program = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)"
    (project / "tool.py").write_text(program)
    result = _result(agent, "execute python tool.py 'a b' $HOME")
    assert result["status"] == "failed"
    assert result["rawOutput"] == {"exitCode": 7, "output": "['a b', '$HOME'] \n"}
    assert agent.garbage == [], "a command cannot reach the wire"
