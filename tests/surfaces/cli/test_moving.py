"""A record that is moved: shown first, proved, and taken back."""

import os
import signal
from pathlib import Path

import psycopg
import pytest
from tests.support.decisions_told import decisions_told
from tests.support.dumps import dump
from tests.support.postgres_server import database_at, drop_database_at
from tests.support.sets import EXTENDED

from upthread.core.decision.words import RESUME

pytestmark = pytest.mark.timeout(300)  # many processes, one after the other

PASSWORD = "quixotic"


def own_file(up) -> Path:
    return up.home / "upthread" / "upthread.db"


@pytest.fixture
def rich(up):
    """A project where most that can happen has happened, by the rehearsal agent."""
    up("tell", "w/planner", "[[rehearse: read README.md]]", "--agent", "rehearsal")
    up("fork", "w/planner", "--as", "other/planner", "--yes")
    up("reset", "other/planner", "--yes")
    up("tell", "gone/validator", "To be forgotten.", "--agent", "rehearsal")
    up("forget", "gone", "--yes")
    up("run", "spec-42", "--spec", "spec.md", "--agent", "rehearsal", code=4)
    up("answer", "spec-42", "opening", "Good day", code=4)
    return up


def views(up, *options: str) -> list[object]:
    """What a person sees of it, but for which database it is in."""
    shown = [up("show", name, "--json", *options).json for name in ("w", "other", "spec-42")]
    return [*shown, up("audit", "w", "--json", *options).json]


def test_a_project_goes_to_postgresql_and_back_and_is_the_same(rich, address, tmp_path):
    before, seen = dump(own_file(rich)), views(rich)
    there = rich("migrate", "--from", "sqlite", "--to", address, "--yes", "--json").json
    assert there["is_moved"]
    assert there["redaction_key"] == "copied"
    (project,) = there["projects"]
    assert project["entries_there_before"] == 0
    assert project["entries"]["conversation"] == len(before["conversation"]) > 4
    assert project["entries"]["said"] == len(before["said"])
    assert views(rich, "--db", address) == seen

    back = tmp_path / "back.db"
    done = rich("migrate", "--from", address, "--to", str(back), "--yes").out
    assert "moved and proved" in done
    assert f"export UPTHREAD_DB={back}" in done
    assert dump(back) == before == dump(own_file(rich))

    rich.environment["UPTHREAD_DB"] = address
    assert decisions_told(rich("tell", "w/planner", "Go on there.").err) == [RESUME]
    assert "answered" in rich("answer", "spec-42", "stranger", "friend").out


def messages_in(address: str) -> int:
    with psycopg.connect(address) as connection:
        ((messages,),) = connection.execute(
            "SELECT count(*) FROM upthread.entry WHERE kind = 'said'"
        ).fetchall()
    return int(messages)


@EXTENDED
def test_what_would_be_moved_is_shown_and_nobody_is_there_to_confirm_it(up, address, tmp_path):
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    shown = up("migrate", "--from", "sqlite", "--to", address, "--dry-run").out
    assert f"from {own_file(up)}" in shown
    assert (
        f"{up.directory}: 1 workstream, 1 conversation, 1 turn, 3 message records, 0 runs" in shown
    )
    assert not up("migrate", "--from", "sqlite", "--to", address, "--dry-run", "--json").json[
        "is_moved"
    ]
    assert (
        "nobody is there to confirm"
        in up("migrate", "--from", "sqlite", "--to", address, code=2).err
    )
    assert messages_in(address) == 0
    up("migrate", "--from", "sqlite", "--to", str(tmp_path / "no.db"), "--dry-run")
    assert not (tmp_path / "no.db").exists()


@EXTENDED
def test_only_this_project_is_moved_unless_all_are_asked_for(up, address, tmp_path):
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    other = tmp_path / "other"
    other.mkdir()
    up("-C", str(other), "tell", "w/planner", "[[rehearse: say ho]]", "--agent", "rehearsal")
    one = up("migrate", "--from", "sqlite", "--to", address, "--yes")
    assert "1 other project: not moved without --all" in one.out
    assert up("ls", "--db", address, "--json").json["workstreams"] != []
    assert up("-C", str(other), "ls", "--db", address, "--json").json["workstreams"] == []
    every = up("migrate", "--from", "sqlite", "--to", address, "--all", "--yes", "--json").json
    assert [each["entries_there_before"] > 2 for each in every["projects"]] == [True, False]
    assert up("-C", str(other), "ls", "--db", address, "--json").json["workstreams"] != []


@EXTENDED
def test_a_source_that_is_in_use_is_refused_until_it_is_not(up, address):
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    busy = up.start("tell", "w/planner", "[[rehearse: hang]]", "--agent", "rehearsal")
    words = ("migrate", "--from", "sqlite", "--to", address, "--yes")
    while up("show", "w", "--json").json["roles"][0]["state"] != "running":
        assert busy.poll() is None, busy.communicate()
    refused = up(*words, code=6).err
    assert "busy — pid" in refused
    assert "let it end, or end it, then move" in refused
    os.kill(busy.pid, signal.SIGKILL)
    busy.communicate()
    assert "moved and proved" in up(*words).out


def test_a_run_that_workers_may_take_stays_where_it_is(up, address):
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    words = ("run", "spec-42", "--spec", "spec.md", "--detach", "--db", address)
    up(*words)
    refused = up("migrate", "--from", address, "--to", str(up.home / "a.db"), "--yes", code=1).err
    assert "a run on 'spec-42' is due: a worker of the source may take it" in refused


def test_every_wrong_end_says_what_to_do(up, tmp_path):
    def refused(*words: str, code: int) -> str:
        return str(up("migrate", *words, "--yes", code=code).err)

    assert "--from sqlite --to postgres://" in refused("--from", "sqlite", code=2)
    assert "there is no database" in refused("--from", "no.db", "--to", "a.db", code=3)
    up("ls")
    assert "to itself" in refused("--from", "sqlite", "--to", str(own_file(up)), code=2)
    assert "such a mysql address" in refused("--from", "sqlite", "--to", "mysql://x/y", code=2)
    nowhere = f"postgres://ada:{PASSWORD}@127.0.0.1:1/work"
    unreachable = refused("--from", "sqlite", "--to", nowhere, code=1)
    assert "check that the server runs" in unreachable
    assert PASSWORD not in unreachable
    bare = database_at(tmp_path / "bare")
    assert "run `upthread migrate` with the same address" in refused(
        "--from", "sqlite", "--to", bare, code=1
    )
    drop_database_at(tmp_path / "bare")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    unknown = up(
        *("-C", str(elsewhere), "migrate", "--from", "sqlite", "--to", "a.db", "--yes"), code=3
    )
    assert "move every project with --all" in unknown.err
    text = tmp_path / "text.db"
    text.write_text("no database, but long enough to be looked at as one " * 20)
    assert "is no database" in refused("--from", str(text), "--to", "a.db", code=1)


@EXTENDED
def test_an_encrypted_record_is_moved_and_the_copy_is_encrypted_as_well(up, tmp_path):
    up("tell", "w/planner", "Quixotic zebra", "--agent", "rehearsal")
    config = up.home / "upthread" / "config.toml"
    config.write_text(f'encryption_key = "file:{tmp_path / "key"}"\n{config.read_text()}')
    up("encrypt", "--yes")
    copy = up.home / "upthread" / "copy.db"
    up("migrate", "--from", "sqlite", "--to", str(copy), "--yes")
    assert b"Quixotic" not in copy.read_bytes()
    assert decisions_told(up("tell", "w/planner", "Go on.", "--db", str(copy)).err) == [RESUME]
    assert (copy.stat().st_mode & 0o777, copy.with_name("copy.db.key").stat().st_mode & 0o777) == (
        0o600,
        0o600,
    )
