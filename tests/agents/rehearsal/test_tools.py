from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

Agent = Any


def _result(agent: Agent, directive: str) -> dict[str, Any]:
    agent.prompt(agent.new(), f"[[rehearse: {directive}]]")
    return agent.of_kind("tool_call_update")[-1]


def _said(update: dict[str, Any]) -> str:
    return update["content"][0]["content"]["text"]


def test_reading_shows_the_file_and_asks_nobody(agent: Agent, project: Path) -> None:
    (project / "a.txt").write_text("héllo")
    result = _result(agent, "read a.txt")
    assert (result["status"], _said(result)) == ("completed", "héllo")
    (call,) = agent.of_kind("tool_call")
    assert (call["kind"], call["locations"]) == ("read", [{"path": str(project / "a.txt")}])
    assert agent.permissions == []


def test_reading_what_is_not_there_fails_with_the_reason(agent: Agent) -> None:
    result = _result(agent, "read none.txt")
    assert result["status"] == "failed"
    assert "No such file" in _said(result)


def test_writing_makes_directories_and_tells_the_difference(agent: Agent, project: Path) -> None:
    (project / "a.txt").write_text("old")
    assert _result(agent, "write a.txt new text")["content"] == [
        {"type": "diff", "path": str(project / "a.txt"), "oldText": "old", "newText": "new text"}
    ]
    assert _result(agent, "write deep/er/b.txt x")["status"] == "completed"
    assert (project / "deep/er/b.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/rehearsal-out.txt", "link/out.txt"])
def test_nothing_is_written_outside_the_working_directory(
    agent: Agent, project: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / "link").symlink_to(tmp_path / "elsewhere")
    result = _result(agent, f"write {path} x")
    assert result["status"] == "failed"
    assert "outside the working directory" in _said(result)
    assert not (project / path).resolve().exists()


def test_a_command_really_runs_and_tells_its_exit_code(agent: Agent, project: Path) -> None:
    (project / "tool.py").write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    result = _result(agent, "execute python tool.py 'a b' $HOME")
    assert result["status"] == "failed"
    assert result["rawOutput"] == {"exitCode": 7, "output": "['a b', '$HOME']\n"}


def test_a_program_that_is_not_there_fails_with_the_reason(agent: Agent) -> None:
    result = _result(agent, "execute no-such-program --now")
    assert (result["status"], result["rawOutput"]["exitCode"]) == ("failed", None)
    assert "no-such-program" in _said(result)


def test_a_flood_of_output_is_cut_to_its_end(agent: Agent, project: Path) -> None:
    (project / "flood.py").write_text("print('x' * 3_000_000); print('the end')")
    output = _result(agent, "execute python flood.py")["rawOutput"]["output"]
    assert len(output) == 256 * 1024
    assert output.endswith("the end\n")


def test_a_command_gets_no_input_and_cannot_reach_the_wire(agent: Agent, project: Path) -> None:
    (project / "ask.py").write_text("import sys; print(repr(sys.stdin.read()))")
    assert _result(agent, "execute python ask.py")["rawOutput"]["output"] == "''\n"
    assert agent.garbage == []


def test_a_running_command_ends_with_the_agent(agent: Agent, project: Path) -> None:
    script = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
    (project / "forever.py").write_text(f"{script}time.sleep(600)\n")
    agent.send_prompt(agent.new(), "[[rehearse: execute python forever.py]]")
    agent.wait_for(lambda update: update.get("status") == "in_progress")
    while not (project / "pid").exists() or not (project / "pid").read_text():
        time.sleep(0.01)
    agent.process.stdin.close()
    agent.wait_until_gone()
    status = Path("/proc", (project / "pid").read_text(), "status")
    deadline = time.monotonic() + 5  # it was killed; the kernel may take a moment
    while is_running(status) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(status)


def is_running(status: Path) -> bool:
    try:
        return "Z (zombie)" not in status.read_text()
    except FileNotFoundError:
        return False
