"""`upthread id` from what was remembered: the same answer, or none, and then the verb gives it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from upthread.client.remembered_opening import OPENINGS_MAX
from upthread.surfaces.cli import quick_id

LONG_AGO_S = 1_700_000_000
ADDRESS = "w/planner"


@pytest.fixture(scope="module")
def seed(make_upthread, tmp_path_factory):
    """A project with a session, opened once, all of it written long ago."""
    up = make_upthread(tmp_path_factory.mktemp("seed"))
    up("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    return up


@pytest.fixture
def up(seed, tmp_path, monkeypatch):
    """A copy of it in which the id was asked for once, and which this process is in now."""
    for name in ("project", "home"):
        shutil.copytree(seed.directory.parent / name, tmp_path / name, symlinks=True)
    own = type(seed)(tmp_path / "project", tmp_path / "home")
    age(own.directory)
    age(own.home)
    monkeypatch.chdir(own.directory)
    for name, value in own.environment.items():
        monkeypatch.setenv(name, value)
    own.session = own("id", ADDRESS).out
    return own


def age(top: Path) -> None:
    for folder, _, names in os.walk(top):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def home(up) -> Path:
    return up.home / "upthread"


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def openings(up) -> list[Path]:
    return sorted((up.home / "upthread" / "openings").glob("*.json"))


def forget_openings(up) -> None:
    ours = up.home / "upthread" / "openings"
    shutil.rmtree(ours.resolve())
    if ours.is_symlink():
        ours.unlink()


def git(up, *words: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *identity, *words], cwd=up.directory, check=True, capture_output=True)


@pytest.mark.extended
def test_an_id_is_told_without_opening_the_project(up, capfd):
    assert quick_id.told(["id", ADDRESS])
    assert capfd.readouterr().out == up.session
    (kept,) = openings(up)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_program_is_told_the_same_by_a_glance_as_by_the_verb(up, capfd):
    assert quick_id.told(["id", ADDRESS, "--json"])
    assert capfd.readouterr().out == up("--json", "id", ADDRESS).out


@pytest.mark.parametrize(
    "words",
    [
        ("id",),
        ("id", "--json"),
        ("id", "--json", ADDRESS),
        ("id", ADDRESS, "--db", "x"),
        ("ls", ADDRESS),
        ("id", "w/planner~2"),
        ("id", "Hanne-planner"),
        ("id", "w/nobody"),
        ("id", "nowhere/planner"),
        ("id", "w/plan\u0301ner"),
    ],
)
def test_what_needs_reading_is_left_to_the_verb(up, capfd, words):
    assert not quick_id.told(words)
    assert capfd.readouterr().out == ""


def role_added(up):
    (up.directory / ".claude" / "agents").mkdir(parents=True, exist_ok=True)
    (up.directory / ".claude" / "agents" / "planner.md").write_text("---\nname: planner\n---\n")


def rewritten_with_its_time_put_back(up):
    config = up.directory / ".git" / "config"
    status = config.stat()
    config.write_text(config.read_text().replace("bare = false", "bare = False"))
    os.utime(config, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = config.stat()
    assert (now.st_size, now.st_ino, now.st_mtime_ns) == (
        *(status.st_size, status.st_ino, status.st_mtime_ns),
    )


def database_is_a_link(up):
    path = up.home / "upthread" / "upthread.db"
    path.rename(path.with_name("elsewhere.db"))
    path.symlink_to("elsewhere.db")


def projects_damaged(up):
    path = up.home / "upthread" / "upthread.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((size,),) = database.execute("PRAGMA page_size").fetchall()
        asked = "SELECT rootpage FROM sqlite_schema WHERE name = 'project_identity'"
        ((page,),) = database.execute(asked).fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def seen_by_hooks(up):
    (kept,) = openings(up)
    project = json.loads(kept.read_text())["project_id"]
    spool = up.home / "upthread" / "hooks" / "projects" / project / "spool"
    spool.mkdir(parents=True)
    (spool / "1-1-asked.json").write_text("{}")


def known_elsewhere(up):
    clone = up.directory.with_name("clone")
    subprocess.run(["git", "clone", "-q", up.directory, clone], check=True)
    type(up)(clone, up.home)("ls")


def forged(up):
    (kept,) = openings(up)
    fields = json.loads(kept.read_text())
    kept.write_text(json.dumps({**fields, "project_id": "../../elsewhere"}))


def half_written(up):
    (kept,) = openings(up)
    kept.write_text(kept.read_text()[:-40])


def replaced_by_a_link(up):
    (kept,) = openings(up)
    kept.rename(kept.with_suffix(".moved"))
    kept.symlink_to(kept.with_suffix(".moved"))


def kept_behind_a_link(up):
    ours = up.home / "upthread" / "openings"
    ours.rename(ours.with_name("elsewhere"))
    ours.symlink_to(ours.with_name("elsewhere"))


def changed_in_the_record(statement: str):
    def change(up):
        with contextlib.closing(sqlite3.connect(home(up) / "upthread.db")) as database:
            database.execute(statement)
            database.commit()

    return change


LINK_TAMPERED_WITH = "UPDATE link SET upstream_session_id = 'ses_another'"
CHANGES = {
    "home open": lambda up: home(up).chmod(0o755),
    "configured": lambda up: (up.directory / "upthread.toml").write_text("agent = 7\n"),
    "configured by the person": lambda up: (home(up) / "config.toml").write_text("no toml\n"),
    "role added": role_added,
    "committed": lambda up: git(up, "commit", "--allow-empty", "-m", "more"),
    "another history": lambda up: (
        git(up, "checkout", "-q", "--orphan", "other")
        or git(up, "commit", "--allow-empty", "-m", "another root")
    ),
    "remote added": lambda up: git(up, "remote", "add", "origin", "https://example.org/one.git"),
    "git rewritten with its time put back": rewritten_with_its_time_put_back,
    "git damaged": lambda up: shutil.rmtree(up.directory / ".git" / "refs"),
    "git gone": lambda up: shutil.rmtree(up.directory / ".git"),
    "database gone": lambda up: (home(up) / "upthread.db").unlink(),
    "database cut short": lambda up: cut_short(home(up) / "upthread.db"),
    "database is a link": database_is_a_link,
    "project tampered with": changed_in_the_record(
        "UPDATE project_identity SET root_commit = 'c0ffee'"
    ),
    "link tampered with": changed_in_the_record(LINK_TAMPERED_WITH),
    "projects damaged": projects_damaged,
    "key gone": lambda up: (home(up) / "upthread.db.key").unlink(),
    "key readable by others": lambda up: (home(up) / "upthread.db.key").chmod(0o644),
    "seen by hooks": seen_by_hooks,
    "known elsewhere": known_elsewhere,
    "begun anew": lambda up: up("reset", ADDRESS, "--yes"),
    "forged": forged,
    "half written": half_written,
    "replaced by a link": replaced_by_a_link,
    "kept behind a link": kept_behind_a_link,
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_believed_once_something_has_changed(up, capfd, change):
    CHANGES[change](up)
    assert not quick_id.told(["id", ADDRESS])
    assert capfd.readouterr().out == ""
    # And the verb says what it says where nothing was ever remembered.
    answered = up("id", ADDRESS, code=None)
    forget_openings(up)
    told_once = {"home open", "database gone", "key gone"}
    assert up("id", ADDRESS, code=None) == answered or change in told_once


def test_a_session_whose_row_was_changed_is_refused_and_not_told(up):
    changed_in_the_record(LINK_TAMPERED_WITH)(up)
    told = up("id", ADDRESS, code=None)
    assert told.code != 0
    assert "is damaged" in told.err
    assert "ses_another" not in told.out


def test_a_git_directory_that_is_nearer_is_another_project(up, monkeypatch):
    below = up.directory / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    up.directory = below
    up("id", ADDRESS)
    assert not (below / ".git").exists()
    # Also where it is one that is refused, as nothing in it is what git writes.
    (below / ".git").write_text("gitdir: nowhere\n")
    assert not quick_id.told(["id", ADDRESS])


def test_what_was_written_just_now_is_not_remembered(up):
    shutil.rmtree(up.home / "upthread" / "openings")
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    up("id", ADDRESS)
    assert openings(up) == [], "its stamp would stay were it written again within this instant"
    ago_s = time.time_ns() // 1_000_000_000 - 10
    os.utime(up.directory / "upthread.toml", (ago_s, ago_s))
    up("id", ADDRESS)
    assert len(openings(up)) == 1


def test_what_lies_behind_a_link_is_never_taken_for_what_is_remembered(up):
    forget_openings(up)
    elsewhere = up.home / "elsewhere"
    elsewhere.mkdir()
    for number in range(OPENINGS_MAX):
        (elsewhere / f"{number}.json").write_text("{}")
    (up.home / "upthread" / "openings").symlink_to(elsewhere)
    up("ls")
    assert len(list(elsewhere.iterdir())) == OPENINGS_MAX, (
        "nothing was taken away, and nothing written"
    )


def test_only_so_many_directories_are_remembered(up):
    ours = up.home / "upthread" / "openings"
    for number in range(OPENINGS_MAX):
        (ours / f"{number}.json").write_text("{}")
    (ours / "notes").write_text("a person's")
    (up.directory / "below").mkdir()
    type(up)(up.directory / "below", up.home)("id", ADDRESS)
    assert [each.name for each in ours.iterdir() if each.suffix != ".json"] == ["notes"]
    assert len(openings(up)) == 1


def test_a_reader_that_has_gone_is_left_to_the_verb(up, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(quick_id, "STANDARD_OUTPUT", write)
    assert not quick_id.told(["id", ADDRESS])
    os.close(write)
