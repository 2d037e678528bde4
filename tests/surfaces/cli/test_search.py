"""`search`: what was said anywhere, with the command that opens it, and no secret among it."""

import json
import os
import time

import pytest
from tests.support.agent_homes import Months, make_home, write_file

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FEW = Months(claude_code=6, codex=6, opencode=6, sub_agents=6, session_bytes=9_000, projects=2)


@pytest.fixture
def up(make_upthread, tmp_path):
    made = make_upthread(tmp_path)
    make_home(made.home, FEW)
    return made


def said(up, name: str, text: str, *, age_s: int = 0) -> None:
    """A prompt in a session of Claude Code's."""
    entry = {"type": "user", "cwd": "/work", "sessionId": name,
             "message": {"role": "user", "content": text}}  # fmt: skip
    at_ms = (time.time_ns() // 1_000_000) - age_s * 1000
    path = up.home / ".claude" / "projects" / "-work" / f"{name}.jsonl"
    write_file(path, json.dumps(entry) + "\n", at_ms)


def test_a_hit_says_where_it_is_who_said_it_and_what_opens_it(up):
    said(up, "s1", "Paint the zebra crossing before noon")
    told = up("search", "zebra", "NOON").out
    assert told.startswith("claude-code  ")
    assert "/work" in told
    assert "user: Paint the zebra crossing before noon" in told
    assert "claude --resume s1" in told


def test_the_newest_session_comes_first_and_there_is_a_limit(up):
    for number in range(30):
        said(up, f"s{number}", f"zebra {number}", age_s=60 * (number + 1))
    told = up("search", "zebra")
    assert told.out.count("--resume") == 20
    assert told.out.index("zebra 0") < told.out.index("zebra 1")
    assert "--all" in told.err
    assert up("search", "zebra", "--all").out.count("--resume") == 30


def test_as_json_each_hit_is_a_line_and_the_result_the_last(up):
    said(up, "s1", "zebra")
    hit, result = up("search", "zebra", "--json").stream
    assert (hit["type"], hit["session_id"], hit["text"]) == ("hit", "s1", "zebra")
    assert hit["resume_command"] == ["claude", "--resume", "s1"]
    assert (result["type"], result["hits"]) == ("result", 1)


def test_an_agent_is_known_by_its_program_and_a_mistyped_one_is_answered(up):
    said(up, "s1", "zebra")
    assert "s1" in up("search", "zebra", "--agent", "claude").out
    for words in (("search", "zebra"), ("adopt", "--pick"), ("keep", "--soon")):
        told = up(*words, "--agent", "claud", code=2).err
        assert "Did you mean 'claude-code'?" in told or "Did you mean 'claude'?" in told
        assert "opencode, codex" in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_a_file_that_may_not_be_read_hides_no_other_one(up):
    said(up, "s1", "zebra", age_s=60)
    said(up, "s2", "zebra")
    (up.home / ".claude" / "projects" / "-work" / "s2.jsonl").chmod(0)
    assert "s1" in up("search", "zebra").out


def test_a_file_that_is_another_thing_by_now_hides_no_other_one(up, tmp_path):
    said(up, "s1", "zebra", age_s=60)
    said(up, "s2", "zebra")
    packed = up.home / ".codex" / "sessions" / "2026" / "11" / "20" / "rollout-x-y.jsonl.zst"
    packed.parent.mkdir(parents=True, exist_ok=True)
    packed.write_bytes(b"no zstandard")
    told = up("search", "zebra")
    assert "s1" in told.out
    assert "s2" in told.out
    assert "1 file could not be read" in told.err


def test_it_can_be_narrowed(up):
    said(up, "s1", "zebra")
    assert "s1" in up("search", "zebra", "--in", "/work", "--agent", "claude-code").out
    for narrower in (("--in", "/other"), ("--agent", "codex"), ("--role", "x"), ("--since", "2999-01-01")):  # fmt: skip
        assert up("search", "zebra", *narrower).out == ""
    assert up("search", "zebra", "--since", "soon", code=2).err


@pytest.mark.extended
def test_what_was_forgotten_is_found_nowhere(up):
    up("tell", "spec-1/planner", "[[rehearse: say the zebra is planned]]", "--agent", "rehearsal")
    session = up("id", "spec-1/planner").out.strip()
    said(up, session, "the zebra is planned")
    assert up("search", "zebra", "planned").out
    up("forget", "spec-1", "--yes")
    told = up("search", "zebra", "planned")
    assert told.out == ""


def test_a_secret_is_shown_nowhere_and_not_found_by_itself(up):
    said(up, "s1", f"Deploy the zebra with {SECRET} at noon")
    for words in (("zebra",), ("zebra", "--json"), (SECRET,), (SECRET[:12],)):
        told = up("search", *words)
        assert SECRET not in told.out + told.err
    assert "[redacted:" in up("search", "zebra").out
    assert up("search", SECRET).out == ""


def test_what_was_said_acts_on_no_terminal(up):
    said(up, "s1", "zebra \x1b[2J\u202e\nclaude --resume forged")
    told = up("search", "zebra").out
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert not any(line.strip() == "claude --resume forged" for line in told.splitlines())


@pytest.mark.extended
def test_a_conversation_is_one_hit_its_newest_one_and_with_all_each_is_told(up):
    for number in range(3):
        say = f"[[rehearse: say zebra {number}]]"
        up("tell", "spec-1/planner", say, "--agent", "rehearsal")
    up("tell", "spec-2/planner", "[[rehearse: say zebra 9]]", "--agent", "rehearsal")

    def told(*more: str):
        found = [
            line for line in up("search", "zebra", "--json", *more).stream if "speaker" in line
        ]
        texts = [hit["text"][-7:] for hit in found if hit["speaker"] == "assistant"]
        return len(found), texts, found[-1]["message"]

    assert told() == (2, ["zebra 9", "zebra 2"], 6)
    assert told("--all") == (8, ["zebra 9", "zebra 2", "zebra 1", "zebra 0"], 1)
    people = up("search", "zebra")
    assert "assistant, message 6: " in people.out
    assert "there may be more: --all" in people.err


@pytest.mark.extended
def test_what_a_call_was_given_and_what_it_gave_is_found_in_our_own_record(up):
    (up.directory / "notes.txt").write_text("a giraffe\n")
    up("tell", "spec-1/planner", "[[rehearse: read notes.txt]]", "--agent", "rehearsal")
    for word in ("notes.txt", "giraffe"):
        assert "upthread show spec-1/planner" in up("search", word).out
