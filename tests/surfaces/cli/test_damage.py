"""A database that is damaged, emptied, foreign or cut short: said before anything is sent, cured."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.commands import RecordOnce
from upthread.core.decision.words import RESUME
from upthread.store.sqlite import SqliteStore


@pytest.fixture
def up(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    up("tell", "w/planner", "Count the sheep.")
    return up


def database(up):
    return up.home / "upthread" / "upthread.db"


def sessions(up):
    return sorted(path.name for path in (up.home / "sessions").rglob("*") if path.is_file())


def emptied(up):
    os.truncate(database(up), 0)
    for suffix in ("-wal", "-shm"):
        database(up).with_name(f"upthread.db{suffix}").unlink(missing_ok=True)


def foreign(up):
    database(up).write_bytes(b"# a shopping list\n" * 1000)


def cut_short(up):
    os.truncate(database(up), database(up).stat().st_size // 2)


def removed(up):
    database(up).unlink()


DAMAGE = {
    emptied: "is empty",
    foreign: "not a database",
    cut_short: "is cut short",
    removed: "is not there",
}


@pytest.mark.soak
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_database_is_said_before_anything_is_sent_and_doctor_has_the_cure(up, damage):
    before = sessions(up)
    damage(up)
    said = up("tell", "w/planner", "And now?", code=1)
    assert DAMAGE[damage] in said.err
    assert str(database(up)) in said.err
    assert "upthread restore" in said.err
    assert sessions(up) == before
    (told,) = up("tell", "w/planner", "And now?", "--json", code=1).stream
    assert told["error"]["kind"] == "store"
    said = up("doctor", code=1)
    assert DAMAGE[damage] in said.out
    assert "upthread restore" in said.out
    found = up("doctor", "--json", code=1).json
    assert found["findings"][0]["path"] == str(database(up))
    assert found["holdings"] is None


def another_programs(up):
    database(up).unlink()
    with closing(sqlite3.connect(database(up))) as connection:
        connection.execute("CREATE TABLE note (words TEXT)")
    database(up).chmod(0o600)


def a_newer_versions(up):
    with closing(sqlite3.connect(database(up))) as connection:
        connection.execute("PRAGMA user_version = 999")


def under_another_key(up):
    settings = up.home / "upthread" / "config.toml"
    key = up.home / "record-key"
    settings.write_text(f'encryption_key = "file:{key}"\n')
    up("encrypt", "--yes")
    key.write_bytes(os.urandom(32))


FOREIGN = {
    another_programs: ("is a database of another program", "name another file"),
    a_newer_versions: ("was written by a newer upthread", "upgrade upthread"),
    under_another_key: ("is under another key than your encryption_key", "upthread restore"),
}


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda foreign: foreign.__name__)
def test_a_foreign_database_is_said_before_anything_is_written_or_sent(up, foreign):
    foreign(up)
    before = sessions(up), database(up).read_bytes()
    what, cure = FOREIGN[foreign]
    said = up("tell", "w/planner", "And now?", code=1)
    assert what in said.err
    assert str(database(up)) in said.err
    assert cure in said.err
    doctors = up("doctor", code=1).out
    assert what in doctors
    assert cure in doctors
    assert up("ls", "--json", code=1).json["error"]["kind"] == "store"
    assert (sessions(up), database(up).read_bytes()) == before


def test_doctor_goes_on_after_a_damaged_page_and_names_what_it_holds(up):
    for number in range(30):
        up_store(up, number)
    path = database(up)
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        file.seek((pages - 2) * 4096)
        file.write(os.urandom(4096))
    found = up("doctor", "upthread", "--json", code=1).json
    assert found["findings"]
    assert all("upthread restore" in each["cure"] for each in found["findings"])
    assert re.search(r"page|malformed|index", found["findings"][0]["what"])


EDITS = {
    "DELETE FROM head WHERE kind = 'workstream'": 'the head of workstream ["prj_',
    "DELETE FROM head WHERE kind = 'conversation'": 'the head of conversation ["con_',
    "UPDATE head SET last = last + 1 WHERE kind = 'conversation'": "the head of conversation",
    "DELETE FROM tag WHERE tag LIKE 'in %'": 'in ["prj_',
    "DELETE FROM tag WHERE tag LIKE 'conversation %'": 'conversation ["con_',
    "DELETE FROM tag WHERE tag LIKE 'run %'": 'run ["run_',
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_stream_that_nothing_leads_to_is_named_and_never_passed_over(up, edit):
    (up.directory / "spec.md").write_text("Count.")
    up("run", "w", "--spec", "spec.md", code=None)
    with closing(sqlite3.connect(database(up))) as connection, connection:
        assert connection.execute(edit).rowcount > 0
    said = up("doctor", "upthread", code=1).out
    assert EDITS[edit] in said
    assert "upthread restore" in said
    assert "`upthread doctor`" not in said
    for verb in (["audit", "w"], ["forget", "w", "--yes"]):
        done = up(*verb, code=1)
        assert re.search("damaged", done.err), verb
        assert "FORGOTTEN" not in done.out
    if "'run %'" in edit:
        assert "the name of run run_" in up("ls", code=1).err


def up_store(up, number):
    """Grow the record by an action."""
    store = SqliteStore(database(up))
    intent = {"project_id": "prj_x", "key": f"key {number}", "attempt_id": "att_x"}
    receipt = {"text": "x" * 3000}
    store.commit([RecordOnce(**intent, state="intent", receipt=receipt, recorded_at_ms=1)])
    store.close()


def lines_of(up):
    return up("audit", "w").out.partition("### Turn 1")[2]


def test_a_backup_is_restored_and_what_was_there_is_kept(up):
    made = up("backup", "--json").json
    assert made["backup"].startswith(str(up.home / "upthread" / "backups"))
    for name in ("backup", "key"):
        assert Path(made[name]).stat().st_mode & 0o777 == 0o600
    before = lines_of(up)
    up("tell", "w/planner", "And the goats.")
    asked = up("restore", made["backup"], code=2)
    assert "w/planner (" in asked.out
    assert "1 turn more than the backup" in asked.out
    assert "nobody is there to confirm it" in asked.err
    dry = up("restore", made["backup"], "--dry-run", "--json").json
    assert (dry["is_restored"], dry["lacking"][0]["turns"]) == (False, 1)
    assert "goats" in lines_of(up)
    done = up("restore", made["backup"], "--yes", "--json").json
    assert lines_of(up) == before
    assert "goats" in up("audit", "w", "--db", done["kept"]).out
    (doubt,) = up("effects", "w", "--json").json["in_doubt"]
    assert doubt["title"] == "anything done between the backup and its restore"
    up("effects", "w", "not-done")
    assert up("effects", "w", "--json").json["in_doubt"] == []
    up("backup", str(up.home / "second.db"))
    up("restore", str(up.home / "second.db"), "--yes")  # it lacks nothing
    assert up("effects", "w", "--json").json["in_doubt"] == []


@pytest.mark.extended
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_database_is_cured_by_its_backup(up, damage):
    backup = up("backup", str(up.home / "mine.db")).out
    assert "copied and checked" in backup
    before = lines_of(up)
    damage(up)
    assert "is now the backup" in up("restore", str(up.home / "mine.db"), "--yes").out
    assert lines_of(up) == before
    up("effects", "w", "not-done")
    assert "no backup named" in up("restore", code=2).err
    assert up("restore", "--settle", "--json").json["is_settled"]
    assert "nothing to settle" in up("restore", "--settle", code=2).err
    assert decisions_told(up("tell", "w/planner", "And now?").err) == [RESUME]
    up("doctor", "upthread")


def test_a_backup_of_an_encrypted_record_is_encrypted_and_says_where_its_key_is(up):
    key = up.home / "keys" / "upthread"
    key.parent.mkdir()
    (up.home / "upthread" / "config.toml").write_text(f'encryption_key = "file:{key}"\n')
    up("encrypt", "--yes")
    said = up("backup", str(up.home / "mine.db"))
    assert f"the key in file:{key}, which is not copied" in said.err
    assert b"sheep" not in (up.home / "mine.db").read_bytes()
    before = lines_of(up)
    emptied(up)
    up("restore", str(up.home / "mine.db"), "--yes")
    assert lines_of(up) == before


@pytest.mark.extended
def test_a_damaged_backup_is_not_put_in_place(up):
    up("backup", str(up.home / "mine.db"))
    cut = up.home / "mine.db"
    os.truncate(cut, cut.stat().st_size // 2)
    before = lines_of(up)
    said = up("restore", str(cut), "--yes", code=1)
    assert "could not be copied" in said.err
    assert lines_of(up) == before
    assert "there is no backup" in up("restore", str(up.home / "none.db"), "--yes", code=3).err


@pytest.mark.parametrize("verb", [["backup"], ["restore", "mine.db"]])
def test_a_servers_database_is_backed_up_by_the_server(up, verb):
    said = up(*verb, "--db", "postgres://nobody@localhost/none", code=2)
    assert "pg_dump" in said.err
