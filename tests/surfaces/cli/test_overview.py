"""`upthread` alone: what somebody sees first, of what is there already."""

import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from tests.agents.test_stored import digest, strew
from tests.support.agent_homes import DAY_MS, Months, make_home, write_file
from tests.support.golden import assert_golden, seen_at
from tests.support.sets import spread

GOLDEN = Path(__file__).parent / "golden"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def short():
    """A place whose path is always as long: where a line is broken depends on it."""
    place = Path(tempfile.mkdtemp(prefix="ut-", dir="/tmp"))
    yield place
    shutil.rmtree(place)


def months(place: Path) -> Months:
    return Months(
        claude_code=40, codex=16, opencode=20, sub_agents=24, session_bytes=9_000, projects=3,
        directory=str(place),
    )  # fmt: skip


def now_ms() -> int:
    return time.time_ns() // 1_000_000 - 30_000  # half a minute more, for whoever is slow


@pytest.fixture
def up(make_upthread, short):
    """Somebody in one of three projects, with a month of three agents in their home."""
    made = make_upthread(short / "made")
    shutil.move(made.directory, short / "project-1")
    made.directory = short / "project-1"
    make_home(made.home, months(short), now_ms=now_ms())
    return made


def tidied(text: str, place: Path) -> str:
    text = text.replace(str(place), "/tmp/ut-PLACE..."[: len(str(place))])
    return re.sub(r"\d{4}-\d\d-\d\d", "2026-11-27", text)


@pytest.mark.soak
@pytest.mark.parametrize("columns", spread([40, 80, 200], first=[80]))
def test_it_is_as_it_was_at_each_width(up, short, columns):
    seen = seen_at(columns, up.words(), directory=up.directory, environment=up.environment)
    assert_golden(GOLDEN / f"overview-{columns}.txt", tidied(seen, short))
    if columns >= 80:
        assert len(seen.splitlines()) <= 25


def test_all_tells_every_session_here_and_every_directory(up):
    told = up("--all").out
    assert told.count("claude --resume") >= 13
    for number in (0, 2):
        assert f"project-{number}" in told
    assert "only" not in up("--all", "ls", code=2).out


def test_as_json_it_says_the_same_for_programs(up):
    told = up("--json").json
    by_agent = {each["agent"]: each for each in told["agents"]}
    assert by_agent["claude-code"]["everywhere"]["sessions"] == 40
    assert by_agent["claude-code"]["here"]["sessions"] == 13
    assert by_agent["codex"]["everywhere"]["sub_agents"] == 8
    assert all(each["directory"] == str(up.directory) for each in told["sessions"])
    assert told["sessions"][0]["resume_command"][-1] == told["sessions"][0]["session_id"]
    assert {each["role"] for each in told["sub_agents"]} <= {"planner", "reviewer", "constructor", "explorer"}  # fmt: skip


def test_without_any_agent_it_says_what_to_do_in_three_lines(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    told = up().out.splitlines()
    assert len(told) == 4
    assert "upthread agents" in told[-1]
    assert list(Path(up.environment["UPTHREAD_HOME"]).iterdir()) == [
        Path(up.environment["UPTHREAD_HOME"]) / "config.toml"
    ], "nothing is made by looking"


@pytest.mark.extended
def test_nothing_in_the_agents_homes_is_changed(up):
    up()
    stores = [up.home / each for each in (".claude", ".codex", ".local")]
    before = [digest(each) for each in stores]
    for words in ((), ("--all",), ("--json",)):
        up(*words)
    assert [digest(each) for each in stores] == before


def test_what_waits_in_our_own_record_comes_first_with_its_command(up):
    up("tell", "spec-1/planner", "[[rehearse: rate_limit 9999]]", "--agent", "rehearsal", code=None)
    lines = up().out.splitlines()
    assert lines[1].startswith("In upthread's own record")
    assert "spec-1" in lines[2]
    assert "upthread" in lines[3]
    told = up("--json").json["workstreams"]
    assert [each["workstream"] for each in told] == ["spec-1"]


def transcript(up, name: str, title: str, *, at_ms: int) -> None:
    """A session of Claude Code in this project that somebody called so."""
    entry = {"type": "user", "cwd": str(up.directory), "sessionId": name, "version": "2.1.330",
             "message": {"role": "user", "content": title}, "timestamp": "2026-11-20T10:00:00Z"}  # fmt: skip
    line = json.dumps(entry) + "\n"
    write_file(up.home / ".claude" / "projects" / "-p" / f"{name}.jsonl", line, at_ms)


KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBN2gddL0q3oQXb0p1x9m0Zc7Yk2s8aVh4tq6mJmE5w1QAAAJgq3nQeKt50
HgAAAAtzc2gtZWQyNTUxOQAAACBN2gddL0q3oQXb0p1x9m0Zc7Yk2s8aVh4tq6mJmE5w1Q
-----END OPENSSH PRIVATE KEY-----"""


@pytest.mark.parametrize("before", spread(range(155, 201, 5), first=[195, 200]))
def test_a_secret_across_the_end_of_a_title_is_shown_nowhere(up, before):
    transcript(up, "s1", f"{'w ' * (before // 2)}{SECRET} and on", at_ms=now_ms())
    for words in (("--all", "--json"), ("search", "w", "--json"), ("adopt", "--pick", "--json")):
        assert SECRET[:12] not in up(*words).out
    assert SECRET[:12] not in up("keep", "s1", "--dry-run", "--json").out


@pytest.mark.extended
@pytest.mark.parametrize("joint", ["\n", " "])
def test_no_line_of_a_private_key_is_part_of_a_title(up, joint):
    transcript(up, "s1", KEY.replace("\n", joint), at_ms=now_ms())
    for words in (("--all", "--json"), ("--all",), ("search", "redacted", "--json")):
        told = up(*words).out
        assert not any(line[:20] in told for line in KEY.splitlines()[1:-1])


def test_what_a_title_holds_acts_on_no_terminal_and_forges_no_line(up):
    title = "go\x1b[2J on\nNext: rm -rf / \u202e\x07"
    transcript(up, "s1", title, at_ms=now_ms())
    told = up().out
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert not any(line.startswith("Next: rm") for line in told.splitlines())


def test_where_claude_code_keeps_its_settings_is_said_as_it_is(up, monkeypatch):
    transcript(up, "old", "Make the export", at_ms=now_ms() - 40 * DAY_MS)
    told = up().out
    assert "in ~/.claude/settings.json" in told
    assert "the first at any time now" in told


@pytest.mark.extended
def test_what_will_be_deleted_is_told_with_what_keeps_it(up):
    transcript(up, "old", "Make the export", at_ms=now_ms() - 25 * DAY_MS)
    told = up().out
    assert re.search(r"claude-code deletes \d+ sessions? within 7 days", told)
    assert "cleanupPeriodDays" in told
    (up.home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 3650}')
    assert "cleanupPeriodDays" not in up().out


def test_whatever_lies_there_is_counted_in_one_line_for_each_agent_and_left_as_it_is(up):
    strew(up.home / ".claude" / "projects" / "-strewn", 100)
    strew(up.home / ".codex" / "sessions" / "2026" / "11" / "20", 100)
    stores = [up.home / ".claude", up.home / ".codex"]
    huge = up.home / ".claude" / "projects" / "-strewn" / "huge.jsonl"
    huge.touch()
    os.truncate(huge, 10 * 1024**3)
    before = [digest(each) for each in stores]
    told = up().out
    searched = up("search", "zebra")
    up("keep", "--soon", "--dry-run")
    lines = [line for line in told.splitlines() if "not read (" in line]
    assert [line.split(":")[0] for line in lines] == ["claude-code", "codex"]
    assert "upthread doctor claude-code" in lines[0]
    assert re.search(r"\d+ files could not be read", searched.err)
    assert [digest(each) for each in stores] == before


def test_where_the_only_database_is_damaged_it_does_not_say_that_there_is_nothing(
    make_upthread, tmp_path
):
    up = make_upthread(tmp_path)
    path = up.home / ".local" / "share" / "opencode" / "opencode.db"
    write_file(path, "no database", 1)
    told = up().out
    assert "No sessions" not in told
    assert "What agents have stored here could not be read" in told
    assert "upthread doctor opencode" in told


def test_a_record_that_cannot_be_opened_costs_nothing_of_what_the_agents_have(up):
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    database = up.home / "upthread" / "upthread.db"
    database.write_bytes(b"no database, whatever it was" * 400)
    told = up()
    assert "upthread's own record is not told" in told.out + told.err
    assert "claude-code" in told.out
    shape = up("--json").json
    assert "upthread.db" in shape["record_fault"]
    assert shape["sessions"]


def test_a_sub_agent_that_is_on_record_is_told_by_its_address(up):
    sub_agents = up("--all", "--json").json["sub_agents"]
    child = next(each for each in sub_agents if each["agent"] == "opencode")
    session, role = child["session_id"], child["role"]
    assert f"upthread adopt WORKSTREAM/{role} {session}" in up("--all").out
    up.configure(f'[roles.{role}]\ncontinuity = "resume"\n')
    up("keep", session, "--as", f"zoo/{role}")
    told = up("--all").out
    assert f"upthread tell zoo/{role}" in told
    assert f"WORKSTREAM/{role} {session}" not in told


def told_of_all(up):
    """Every session here, and every session in the order of a search."""
    listed = up("--all", "--json").json
    sessions = [*listed["sessions"], *listed["sub_agents"]]
    for each in sessions:
        del each["deleted_at_ms"]  # Claude Code itself goes by the time of the file
    hits = up("search", "Make", "--all", "--json").stream[:-1]
    return sessions, list(dict.fromkeys(each["session_id"] for each in hits))


def test_in_a_copied_store_a_session_is_as_old_as_its_last_entry(up):
    before = told_of_all(up)
    for file in sorted(up.home.rglob("*.jsonl*")):
        os.utime(file)
    assert told_of_all(up) == before


def test_a_session_with_an_older_copy_elsewhere_is_one_session_as_its_newest_copy_is(up):
    transcript(up, "s1", "zebra", at_ms=now_ms())
    (copy,) = (up.home / ".claude").rglob("s1.jsonl")
    newer = json.loads(copy.read_text()) | {"timestamp": "2026-11-21T10:00:00Z", "uuid": "u2"}
    older = up.home / ".claude" / "projects" / "-another" / "s1.jsonl"
    write_file(older, copy.read_text() + "\n" * 9_000, now_ms() + 9_000)
    copy.write_text(copy.read_text() + json.dumps(newer) + "\n")
    (found,) = [
        each for each in up("--all", "--json").json["sessions"] if each["session_id"] == "s1"
    ]
    assert found["used_at_ms"] == 1_795_255_200_000
    assert len(up("search", "zebra", "--all", "--json").stream) == 3, "two hits and the result"
    assert [
        each["session_id"] for each in up("keep", "s1", "--dry-run", "--json").json["sessions"]
    ] == ["s1"]
