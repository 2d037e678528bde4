"""`forget`, `keep`, and what `doctor` and `audit` say of what there is."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.core.redaction.secrets_of import planted

SECRET = planted(8)[6][1]


@pytest.fixture
def up(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    return up


def holding(up, word: str) -> list[str]:
    home = up.home / "upthread"
    found = [path for path in home.rglob("*") if path.is_file()]
    return [path.name for path in found if word.encode() in path.read_bytes()]


@pytest.mark.extended
def test_forget_shows_asks_and_leaves_the_outline(up):
    up("tell", "w/planner", "Quixotic zebra")
    up("tell", "other/planner", "Someone else")
    told = up("forget", "w", "--dry-run")
    assert told.out.startswith("w: 1 conversation, 0 runs, ")
    assert "rehearsal may still hold ses_" in told.err
    assert "agents' stderr: 1 log" in told.out
    assert holding(up, "Quixotic")

    nobody = up("forget", "w", code=2)
    assert "nobody is there to confirm it (say --yes" in nobody.err
    assert holding(up, "Quixotic")

    done = up("forget", "w", "--yes")
    assert "FORGOTTEN: what was said is in no file of upthread's" in done.out
    assert holding(up, "Quixotic") == []
    assert "upthread.db" in holding(up, "Someone else")
    assert list((up.home / "upthread" / "agent-stderr").iterdir()) == []
    audited = up("audit", "w").out
    assert "Quixotic" not in audited
    assert "erased" in audited
    assert up("forget", "w", "--yes", "--json").json["workstreams"][0]["parts"] == 0


def test_a_damaged_message_is_counted_and_can_be_forgotten(up):
    up("tell", "w/planner", "Quixotic zebra")
    parts = up("forget", "w", "--dry-run", "--json").json["workstreams"][0]["parts"]
    with closing(sqlite3.connect(up.home / "upthread" / "upthread.db")) as database, database:
        database.execute("UPDATE entry SET kept = '{}' WHERE kind = 'said' AND kept ->> 'seq' = 1")
    assert up("forget", "w", "--yes", "--json").json["workstreams"][0]["parts"] == parts > 0
    assert holding(up, "Quixotic") == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "forget what? (name a workstream"),
        (("nowhere",), 3, "there is no workstream 'nowhere'"),
        (("--before", "yesterday"), 2, "'yesterday' is no date (like 2026-01-31"),
        (("w", "--role", "No Role"), 2, "role"),
        (("w", "--role", "plannr"), 3, "'w' has no role 'plannr'. Did you mean 'planner'?"),
    ],
)
def test_a_wrong_forget_says_what_is_wrong(up, arguments, code, says):
    up("tell", "w/planner", "hello")
    assert says in up("forget", *arguments, "--yes", code=code).err


@pytest.mark.extended
def test_a_session_that_begins_without_what_was_forgotten_says_so(up):
    session = up("tell", "w/planner", "Quixotic zebra", "--json").stream[-1]["upstream_session_id"]
    up("forget", "w", "--yes")
    for path in up.home.rglob(f"*{session}*"):
        path.unlink()
    lines = up("tell", "w/planner", "[[rehearse: say hi]]", "--json").stream
    assert lines[-1]["decision"] == "resume_with_replay"
    assert "nothing_to_replay" in [each.get("kind") for each in lines if each["type"] == "notice"]


def test_only_what_is_older_is_forgotten(up):
    up("tell", "w/planner", "Quixotic zebra")
    nothing = up("forget", "--before", "2020-01-31", "--yes", "--json").json
    assert (nothing["is_done"], nothing["workstreams"]) == (False, [])
    assert "upthread.db" in holding(up, "Quixotic")
    assert list((up.home / "upthread" / "agent-stderr").iterdir())
    up("forget", "--before", "2999-01-31", "--yes")
    assert holding(up, "Quixotic") == []
    assert list((up.home / "upthread" / "agent-stderr").iterdir()) == []


def test_keep_does_what_the_configuration_says_and_nothing_without(up):
    up("tell", "w/planner", "Quixotic zebra")
    logs = up.home / "upthread" / "agent-stderr"
    (log,) = logs.iterdir()
    old = log.rename(logs / "rehearsal-2020-01-31.log")
    silent = up("keep")
    assert "nothing is configured: all is kept for ever" in silent.err
    assert "there is nothing to forget" in silent.out

    up.configure('agent = "rehearsal"\n[keep]\ncontent_days = 1\nstderr_days = 1\n')
    young = up("keep", "--yes", "--json").json
    assert (young["workstreams"], len(young["logs"])) == ([], 1)
    assert not old.exists()
    assert "upthread.db" in holding(up, "Quixotic")

    up.configure('agent = "rehearsal"\n[keep]\ncontent_days = 0\n')
    assert "w: 1 conversation" in up("keep", "--dry-run").out
    time.sleep(0.01)
    assert up("keep", "--yes", "--json").json["is_done"] is True
    assert holding(up, "Quixotic") == []
    assert up("keep", "--yes", "--json").json["is_done"] is False


def test_doctor_says_what_there_is_and_who_can_read_it(up):
    up("tell", "w/planner", "Quixotic zebra")
    told = up("doctor", "upthread").out
    assert told.startswith("recorded (redacted): 1 workstream, 1 conversation, ")
    assert "bytes of text, the oldest of 20" in told
    assert "kept for ever" in told.splitlines()[0]
    assert told.count("0600, read by you") >= 3
    shape = up("doctor", "upthread", "--json").json["holdings"]
    names = {Path(file["path"]).name for file in shape["files"]}
    assert {"upthread.db", "upthread.db.key"} <= names
    repairs = up.home / "upthread" / "repairs"
    repairs.mkdir(mode=0o755)
    (repairs / "copy.jsonl").write_text("{}")
    (repairs / "copy.jsonl").chmod(0o644)
    up.home.joinpath("upthread").chmod(0o755)
    told = up("doctor", "upthread")
    assert "could be entered by others (mode 0755); now 0700" in told.err
    assert "copy.jsonl: 2 bytes, 0644, read by everybody" in told.out


def test_a_lost_key_of_redaction_is_told_when_a_new_one_is_made(up):
    up("tell", "w/planner", "x")
    (key,) = up.home.rglob("upthread.db.key")
    key.unlink()
    assert f"the key of redaction {key} was gone" in " ".join(up("ls").err.split())
    assert up("ls").err == ""


@pytest.mark.extended
def test_an_audit_of_a_record_in_full_is_redacted(up):
    up.configure('agent = "rehearsal"\nrecord = "full"\n')
    up("tell", "w/planner", f"use {SECRET}")
    assert "upthread.db" in holding(up, SECRET)
    for form in ("md", "json"):
        exported = up("audit", "w", "--format", form).out
        assert SECRET not in exported
        assert "[redacted:github-token:" in exported


def test_no_error_shows_a_secret(up):
    told = up("tell", f"{SECRET}/{SECRET}", "hello", code=None)
    assert told.code != 0
    assert SECRET not in told.err
    assert SECRET not in up("show", SECRET, "--json", code=3).out


@pytest.mark.extended
def test_files_behind_a_link_in_the_place_of_logs_are_nobodys_to_remove(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    logs, elsewhere = up.home / "upthread" / "agent-stderr", tmp_path / "elsewhere"
    logs.rename(elsewhere)
    (elsewhere / "of-a-person.log").write_text("mine")
    logs.symlink_to(elsewhere)
    up("forget", "w", "--yes")
    assert (elsewhere / "of-a-person.log").read_text() == "mine"
    assert len(list(elsewhere.iterdir())) == 2
