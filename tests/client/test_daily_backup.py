"""A backup each day, the newest three, none of what was forgotten, none on a nearly full disk."""

import os
import stat
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from upthread.client import database_files
from upthread.client.database_files import back_up_daily, daily_backups, remove_daily_backups
from upthread.client.file_permissions import redaction_key
from upthread.client.stores import key_of
from upthread.config import load_settings
from upthread.core.types import TextPart
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.files import MAGIC
from upthread.testing.store_conformance import samples

DAYS = [f"2026112{day}" for day in range(5)]


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def settings(request, tmp_path: Path):
    home = tmp_path / "home"
    found = load_settings(tmp_path, environment={"UPTHREAD_HOME": str(home)})
    if request.param:
        (tmp_path / "secret").write_bytes(bytes(range(32)))
        (tmp_path / "secret").chmod(0o600)
        found = structs.replace(found, encryption_key=f"file:{tmp_path / 'secret'}")
    path = Path(found.database)
    with closing(SqliteStore(path, key=key_of(found))) as store:
        store.commit([*samples.home(), samples.said(1, TextPart(text="Quixotic zebra"))])
    redaction_key(path.with_name(path.name + ".key"))
    return found


def test_it_is_private_encrypted_like_the_database_and_has_the_key_of_redactions(settings):
    made = back_up_daily(settings)
    assert made is not None
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert made.read_bytes().startswith(MAGIC) is (settings.encryption_key is None)
    assert sorted(each.name for each in made.parent.iterdir()) == [made.name, f"{made.name}.key"]


def test_there_is_one_a_day_and_the_newest_three_stay(settings):
    made = [back_up_daily(settings, today=day) for day in DAYS]
    assert None not in made
    assert back_up_daily(settings, today=DAYS[-1]) is None
    assert sorted(daily_backups(settings)) == made[-3:]
    files = {each.name for each in made[0].parent.iterdir()}
    assert files == {f"{each.name}{suffix}" for each in made[-3:] for suffix in ("", ".key")}


def test_a_backup_takes_the_place_of_the_database(settings):
    made = back_up_daily(settings)
    path = Path(settings.database)
    with closing(SqliteStore(path, key=key_of(settings))) as store:
        store.commit([samples.said(2)])
    assert database_files.restore(settings, made).lacking == ()
    with closing(SqliteStore(path, key=key_of(settings))) as store:
        assert store.message_count(samples.CONVERSATION) == 1


def test_none_is_made_on_a_nearly_full_disk(settings, monkeypatch):
    monkeypatch.setattr(database_files, "FREE_BYTES_MIN", 1 << 62)
    assert back_up_daily(settings) is None
    assert daily_backups(settings) == []


def test_a_damaged_database_takes_no_backup_away(settings):
    made = [back_up_daily(settings, today=day) for day in DAYS[:3]]
    with Path(settings.database).open("r+b") as file:
        file.seek(2048 * 5)
        file.write(os.urandom(4096 * 10))
    with pytest.raises(StoreError):
        back_up_daily(settings, today=DAYS[3])
    assert sorted(daily_backups(settings)) == made


def test_what_is_forgotten_is_in_no_backup_and_in_no_copy_that_was_begun(settings):
    made = back_up_daily(settings, today=DAYS[0])
    made.with_name(f"{made.name}.{'0' * 16}").write_bytes(b"Quixotic: a copy that was killed")
    made.with_name(f"other-{made.name}").write_bytes(b"of another database")
    remove_daily_backups(settings)
    assert [each.name for each in made.parent.iterdir()] == [f"other-{made.name}"]


def test_a_copy_that_was_begun_before_forgetting_comes_to_nothing(settings, monkeypatch):
    copied = database_files.copied

    @contextmanager
    def forgotten_meanwhile(path, **named):
        with copied(path, **named) as copy:
            remove_daily_backups(settings)
            yield copy

    monkeypatch.setattr(database_files, "copied", forgotten_meanwhile)
    assert back_up_daily(settings) is None
    assert daily_backups(settings) == []
