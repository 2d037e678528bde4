"""What the model of the real OpenCode is told when files it had read have changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.live.shell import Shell, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
ADDRESS = "spec-42/planner"
FILES = tuple(f"f{number}.txt" for number in range(1, 8))


@pytest.fixture
def shell(opencode_shell: Shell) -> Shell:
    return opencode_shell


def read(project: Path, name: str) -> str:
    (project / name).write_text(f"{name}\n")
    return f"[[CALL read {json.dumps({'filePath': str(project / name)})}]]"


def change(project: Path, *names: str) -> None:
    for name in names:
        (project / name).write_text("somebody else's\n")


def test_a_stale_planner_is_told_which_files_changed_and_a_staler_one_starts_from_a_briefing(
    shell, model, project
):
    agreed = "We agreed on KIWI-42.\n\n" + "\n".join(read(project, name) for name in FILES)
    first = only(shell.lines("tell", ADDRESS, agreed), "turn_ended")
    assert first["outcome"] == "ok"

    change(project, "f1.txt", "f2.txt")
    now = shell.lines("why", ADDRESS)[0]["now"]
    assert now["stale_files"] == ["f1.txt", "f2.txt"]
    assert now["tokens_to_resume"] > now["tokens_to_brief"] > 0
    assert not now["tokens_are_estimated"]
    started = only(shell.lines("tell", ADDRESS, "Go on."), "turn_started")
    assert (started["decision"], started["reasons"]) == ("resume_with_update", ["files_changed"])
    assert started["upstream_session_id"] == first["upstream_session_id"]
    told = json.dumps(model.model_requests[-1].body["messages"][-1])
    assert "`f1.txt`: changed" in told
    assert "`f2.txt`: changed" in told
    assert "f3.txt" not in told

    change(project, *FILES[:6])
    started = only(shell.lines("tell", ADDRESS, "And now?"), "turn_started")
    assert started["decision"] == "start_fresh_with_briefing"
    assert started["reasons"] == ["many_changed"]
    assert started["upstream_session_id"] != first["upstream_session_id"]
    request = model.model_requests[-1]
    assert request.session_id == started["upstream_session_id"]
    told = json.dumps(request.body["messages"])
    assert "# Briefing" in told
    assert "KIWI-42" in told
    assert "`f6.txt`: changed" in told
