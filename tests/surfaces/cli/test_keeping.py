"""`keep SESSION…`: what was said in an agent's session stays when its agent deletes it."""

from __future__ import annotations

import json
import time

import pytest
from tests.support.agent_homes import DAY_MS, write_file

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def up(make_upthread, tmp_path):
    return make_upthread(tmp_path)


def entry(up, name: str, number: int, speaker: str, content: object) -> str:
    uuid = f"00000000-0000-4000-8000-{number:012}"
    above = f"00000000-0000-4000-8000-{number - 1:012}" if number > 1 else None
    message: dict[str, object] = {"role": speaker, "content": content}
    if speaker == "assistant":
        message |= {
            "id": f"msg_{number}",
            "type": "message",
            "model": "m",
            "stop_reason": "end_turn",
        }
    return json.dumps({
        "type": speaker, "uuid": uuid, "parentUuid": above, "cwd": str(up.directory),
        "sessionId": name, "gitBranch": "fix/the-export", "version": "2.1.330",
        "isSidechain": False, "timestamp": "2026-11-01T10:00:00.000Z", "message": message,
    })  # fmt: skip


def transcript(up, name: str, *, asked: str, said: str, age_days: int = 25):
    """A session of Claude Code's in the project's directory, one turn long."""
    lines = [
        entry(up, name, 1, "user", asked),
        entry(up, name, 2, "assistant", [{"type": "text", "text": said}]),
    ]
    path = up.home / ".claude" / "projects" / "-p" / f"{name}.jsonl"
    write_file(path, "\n".join(lines) + "\n", time.time_ns() // 1_000_000 - age_days * DAY_MS)
    return path


def test_a_kept_session_is_read_searched_and_briefed_from_when_its_file_is_gone(up):
    path = transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted")
    told = up("keep", "s1").out
    assert "fix-the-export/planner: KEPT s1 of claude-code" in told
    assert "upthread forget fix-the-export" in told
    path.unlink()
    shown = up("audit", "fix-the-export").out
    assert "Paint the zebra crossing" in shown
    assert "It is painted" in shown
    assert "upthread show fix-the-export/planner" in up("search", "zebra").out
    assert "Paint the zebra crossing" in up("brief", "fix-the-export/planner").out


def test_all_that_is_deleted_soon_is_kept_by_one_command_and_no_session_twice(up):
    transcript(up, "old", asked="The zebra", said="Yes")
    transcript(up, "older", asked="The giraffe", said="Yes", age_days=28)
    transcript(up, "new", asked="The lion", said="Yes", age_days=1)
    assert "upthread keep --soon" in up().out
    planned = up("keep", "--soon", "--dry-run", "--json").json
    assert [each["session_id"] for each in planned["sessions"]] == ["old", "older"]
    assert planned["is_done"] is False
    kept = up("keep", "--soon", "--json").json
    assert [each["address"] for each in kept["sessions"]] == [
        "fix-the-export/planner", "fix-the-export-2/planner",
    ]  # fmt: skip
    again = up("keep", "--soon", "--json").json
    assert (again["on_record_already"], again["sessions"]) == (2, [])


def test_no_secret_is_kept_and_the_agents_own_file_is_as_it_was(up):
    path = transcript(up, "s1", asked=f"Deploy with {SECRET}", said=f"Done with {SECRET}")
    before = path.read_bytes()
    up("keep", "s1", "--as", "deploy/planner")
    assert path.read_bytes() == before
    shown = up("audit", "deploy").out
    assert "[redacted:" in shown
    assert SECRET not in shown
    record = up.home / "upthread"
    for each in record.rglob("*"):
        if each.is_file():
            assert SECRET.encode() not in each.read_bytes()
            assert each.stat().st_mode & 0o077 == 0 or each.name == "config.toml"


def test_what_was_kept_is_forgotten_as_all_else_is(up):
    transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted")
    up("keep", "s1", "--as", "paint/planner")
    up("forget", "paint", "--yes")
    assert up("search", "zebra").out == ""
    assert "zebra" not in up("audit", "paint").out


def test_what_cannot_be_kept_is_said_with_what_helps(up):
    transcript(up, "s1", asked="The zebra", said="Yes")
    assert "upthread search" in up("keep", "nope", code=3).err
    assert "WORKSTREAM/ROLE" in up("keep", "s1", "--as", "nothing", code=2).err
    assert up("keep", "s1", "--soon", code=2).err
    assert up("keep", "--as", "a/planner", code=2).err
    up("tell", "a/planner", "hello", "--agent", "rehearsal")
    assert "has a past" in up("keep", "s1", "--as", "a/planner", code=2).err
