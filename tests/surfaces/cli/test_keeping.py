"""`keep SESSION…`: what was said in an agent's session stays when its agent deletes it."""

import json
import time

import pytest
from tests.support.agent_homes import DAY_MS, write_file
from tests.support.sets import EXTENDED

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


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


@EXTENDED
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


@EXTENDED
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


@EXTENDED
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


def test_kept_again_a_session_is_kept_as_far_as_it_has_gone_on(up):
    path = transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted")
    up("keep", "s1")
    more = [
        entry(up, "s1", 3, "user", "And the giraffe"),
        entry(up, "s1", 4, "assistant", [{"type": "text", "text": "It is tall"}]),
    ]
    with path.open("a") as file:
        file.write("\n".join(more) + "\n")
    assert "fix-the-export/planner: KEPT s1 of claude-code" in up("keep", "s1").out
    again = up("keep", "s1", "--json").json
    assert (again["on_record_already"], again["sessions"]) == (1, [])
    path.unlink()
    shown = up("audit", "fix-the-export").out
    assert shown.count("Paint the zebra crossing") == 1
    assert shown.index("It is painted") < shown.index("And the giraffe") < shown.index("It is tall")
    assert "upthread show fix-the-export/planner" in up("search", "giraffe").out


def test_what_was_forgotten_of_a_session_is_not_said_to_be_kept(up):
    transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted")
    up("keep", "s1")
    up("forget", "fix-the-export", "--yes")
    told = up("keep", "s1")
    assert "KEPT" not in told.out
    assert "what was forgotten of them stays so" in told.out + told.err


def test_who_has_kept_what_is_deleted_soon_is_not_asked_to_again(up):
    transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted")
    assert "1 of them here and not kept" in up().out
    up("keep", "--soon")
    told = up().out
    assert "deletes 1 session within 7 days" in told
    assert "keep --soon" not in told


@pytest.mark.soak
def test_several_who_keep_at_once_keep_each_session_once(up):
    for number in range(6):
        transcript(up, f"s{number}", asked=f"Paint zebra {number}", said="Yes")
    children = [up.start("keep", "--soon", "--json") for _ in range(3)]
    told = [child.communicate(timeout=60) for child in children]
    assert all(child.returncode in {0, 1} for child in children), told
    again = up("keep", "--soon", "--json").json
    assert (again["on_record_already"], again["sessions"]) == (6, [])
    assert len(up("search", "zebra", "--all", "--json").stream) == 7


def test_a_kept_session_was_used_when_its_last_entry_was_written(up):
    """Its file is new, as a restored or copied store has it."""
    transcript(up, "s1", asked="Paint the zebra crossing", said="It is painted", age_days=0)
    up("keep", "s1")
    assert up("why", "fix-the-export/planner", "--json").json["now"]["cache"] == "cold"
