"""The agent's tools: they read, write and run for real, inside the working directory."""

from __future__ import annotations

import pytest


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
