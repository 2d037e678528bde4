"""`doctor` and `repair`: each damaged history one line with its cure, repaired only in a copy."""

from pathlib import Path

import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase, damaged_database, text, tool
from tests.agents.test_repair import damaged_rollout, damaged_transcript
from tests.support.agent_homes import compressed


def diagnosed(out: str) -> list[str]:
    """The lines after what there is and how hooks are: test_forgetting.py, test_launcher.py."""
    recorded, *lines = out.splitlines()
    assert recorded.startswith("recorded (")
    return [line for line in lines if not line.startswith(("  /", "hooks "))]


def database_of(up) -> Path:
    return up.home / ".local" / "share" / "opencode" / "opencode.db"


@pytest.mark.parametrize("is_named", [False, True])
def test_one_session_is_repaired_alone_and_shown_as_a_diff(up, is_named):
    path = up.home / "named.db" if is_named else database_of(up)
    up.environment |= {"OPENCODE_DB": str(path)} if is_named else {}
    damaged_database(path).close()
    assert "No sessions of" not in up().out
    session = up("doctor", "opencode", "--json").json["findings"][0]["history"]
    shown = up("repair", "opencode", session, "--into", str(up.home / "mine"), code=1)
    assert "- read call_0_ok" not in shown.out
    assert "running\n+ " in shown.out
    assert "error: interrupted; outcome unknown" in shown.out
    assert f"opencode does not open {session}" in shown.out, "what is on PATH is no OpenCode"
    assert f"put the copy in the place of {path}" in shown.out
    again = up("repair", "opencode", session, "--into", str(up.home / "mine"), code=2)
    assert "has a repaired copy already" in again.err


def test_a_name_that_opencode_cannot_have_is_listed_with_its_cure(up):
    file = up.home / ".config" / "opencode" / "agents" / "toString.md"
    file.parent.mkdir(parents=True)
    file.write_text("Convert.")
    for words in (("doctor",), ("doctor", "opencode")):
        (finding,) = up(*words, "--json").json["findings"]
        assert (finding["history"], finding["cure"]) == (str(file), "rename it")
    assert up("doctor", "codex", "--json").json["findings"] == []


def test_a_dry_run_shows_the_faults_and_writes_nothing(up):
    damaged_database(database_of(up)).close()
    dry = up("repair", "opencode", "--dry-run")
    assert "has no result; it is closed with an unknown outcome" in dry.out
    assert not (up.home / "upthread" / "repairs").exists()
    assert up("repair", "opencode", "--dry-run", "--json").json["copies"] == []


@pytest.mark.extended
def test_transcripts_are_diagnosed_with_their_bad_lines_and_repaired(up):
    damaged_transcript(up.home / ".claude" / "projects" / "-work" / "s1.jsonl")
    damaged_rollout(up.home / ".codex" / "sessions" / "2026" / "11" / "20" / "rollout-1.jsonl")
    lines = diagnosed(up("doctor").out)
    assert lines[0].startswith("claude-code s1: 2 calls without a result; ")
    assert "1 place unreadable, first line 4" in lines[0]
    assert lines[1] == "  upthread repair claude-code s1"
    assert lines[2].startswith("codex thr_1: 1 call without a result; ")
    assert lines[3] == "  upthread repair codex thr_1"
    for agent in ("claude-code", "codex"):
        (copy,) = up("repair", agent, "--json").json["copies"]
        assert (copy["left"], copy["opens"], copy["refusals"]) == ([], [], {})


def test_a_version_nobody_has_seen_is_diagnosed_and_never_repaired(up):
    database = OpenCodeDatabase(database_of(up), version="3.0.0")
    database.message(database.session(), "assistant", tool("bash", "c", "running"))
    database.close()
    (line, *_) = up("doctor", "opencode").out.splitlines()
    assert "written by version 3.0.0, which this upthread does not know" in line
    refused = up("repair", "opencode")
    assert "left alone" in refused.err
    assert not (up.home / "upthread" / "repairs").exists()


def test_sound_histories_of_other_versions_are_one_line_for_each_agent(up):
    database = OpenCodeDatabase(database_of(up), version="0.9.0")
    for _ in range(5):
        database.message(database.session(), "user", {"type": "text", "text": "hi"})
    database.close()
    told = up("doctor", "opencode")
    assert told.out.splitlines() == [
        "opencode: 5 histories of versions nobody has looked at, read as they are",
        "5 histories sound, 0 not",
    ]
    assert up("doctor", "opencode", "--json").json["other_versions"] == {"opencode": 5}


def test_compressed_and_archived_threads_of_codex_are_diagnosed_as_plain_ones(up):
    plain = up.home / ".codex" / "archived_sessions" / "rollout-1.jsonl"
    damaged_rollout(plain)
    packed = up.home / ".codex" / "sessions" / "2026" / "11" / "20" / "rollout-2.jsonl.zst"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(compressed(plain.read_bytes()))
    packed.with_name("rollout-3.jsonl.zst").write_bytes(b"no zstandard")
    lines = up("doctor", "codex").out.splitlines()
    assert sum("1 call without a result" in line for line in lines) == 2
    assert any("rollout-3.jsonl.zst cannot be read" in line for line in lines)
    packed.with_name("rollout-3.jsonl.zst").unlink()
    copies = up("repair", "codex", "--json").json["copies"]
    assert [Path(each["after"]).name for each in copies] == ["rollout-2.jsonl", "rollout-1.jsonl"]
    assert all(each["left"] == [] for each in copies), "a compressed one is repaired as a plain one"


def test_a_role_that_no_session_takes_a_prompt_of_is_named_with_its_words_and_command(up):
    up.configure("[agents.other]\ncommand = ['sh', '-c', 'echo no key >&2; exit 3']\n")
    up("tell", "d2/planner", "hi", "--agent", "other", code=1)
    what, cure, _ = diagnosed(up("doctor").out)
    assert "the agent died: other exited with code 3" in what
    assert cure == '  upthread tell d2/planner "…"'


def test_a_store_that_cannot_be_read_is_a_line_of_its_own(up):
    database_of(up).parent.mkdir(parents=True)
    database_of(up).write_bytes(b"no database" * 100)
    (line, *_) = diagnosed(up("doctor").out)
    assert "cannot be read as a database of OpenCode" in line


def test_our_own_histories_are_sound_and_say_what_is_repaired_when_sent(up):
    up("tell", "d1/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    assert diagnosed(up("doctor", "upthread").out) == ["1 history sound, 0 not"]
    shown = up("repair", "d1/planner", "--json").json
    assert shown == {
        "schema": 1,
        "address": "d1/planner",
        "changes": [],
    }
    assert "0 changes would make it valid" in up("repair", "d1/planner").out


def test_a_sound_store_has_nothing_to_repair(up):
    database = OpenCodeDatabase(database_of(up))
    database.message(database.session(), "user", text("hi"))
    database.close()
    assert up("repair", "opencode").out == "nothing to repair\n"


def test_what_does_not_exist_is_said_not_to(up):
    assert "there is no store 'cursor'" in up("doctor", "cursor", code=2).err
    assert "opencode has no session 'ses_x'" in up("repair", "opencode", "ses_x", code=3).err
