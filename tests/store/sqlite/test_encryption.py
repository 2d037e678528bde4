"""A database under a key: nothing of it can be read without, and no crash leaves it in between."""

import multiprocessing
import os
import secrets
import signal
import time
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import apsw
import pytest
from tests.support.sets import spread

from upthread.core.types import TextPart
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.backup import change_key
from upthread.store.sqlite.database import has_key
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

SAID = "the launch code is KIWI-42 "
KEY = bytes(range(32))
CONTEXT = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "u.db"


def fill(path: Path, *, key: bytes | None, times: int = 1) -> None:
    store = SqliteStore(path, key=key)
    store.commit([*samples.home(), samples.said(1, TextPart(text=SAID * times))])
    store.close()


def said(path: Path, *, key: bytes | None) -> str:
    with closing(SqliteStore(path, key=key)) as store:
        assert store.verify(CONVERSATION) is None
        (message,) = store.messages(CONVERSATION)
        return message.text


def found_in_files(directory: Path, text: str) -> list[str]:
    return [each.name for each in directory.iterdir() if text.encode() in each.read_bytes()]


def test_no_file_of_a_database_in_use_holds_a_word(path):
    store = SqliteStore(path, key=KEY)
    store.commit([*samples.home(), samples.said(1, TextPart(text=SAID))])
    names = sorted(each.name for each in path.parent.iterdir())
    assert names == ["u.db", "u.db-queue", "u.db-shm", "u.db-wal"]
    assert found_in_files(path.parent, "KIWI") == []
    assert found_in_files(path.parent, "conversation") == []  # not even the tables' names
    store.scrub()
    assert found_in_files(path.parent, "KIWI") == []
    store.close()
    assert said(path, key=KEY) == SAID


@pytest.mark.extended
@pytest.mark.parametrize("key", [None, secrets.token_bytes(32)], ids=["none", "another"])
def test_without_its_key_it_is_refused_and_left_as_it_is(path, key):
    fill(path, key=KEY)
    content = path.read_bytes()
    with pytest.raises(StoreError, match="encryption_key"):
        SqliteStore(path, key=key)
    assert path.read_bytes() == content
    assert said(path, key=KEY) == SAID


def test_one_that_is_not_encrypted_yet_is_refused_with_the_cure(path):
    fill(path, key=None)
    with pytest.raises(StoreError, match="upthread encrypt"):
        SqliteStore(path, key=KEY)
    assert said(path, key=None) == SAID


def test_there_and_back_keeps_all_of_it(path):
    fill(path, key=None, times=1_000)
    assert has_key(path, None)
    with pytest.raises(StoreError, match="another key"):
        change_key(path, before=secrets.token_bytes(32), after=KEY)
    assert not has_key(path, KEY)
    change_key(path, before=None, after=KEY)
    assert has_key(path, KEY)
    assert not has_key(path, None)
    assert found_in_files(path.parent, "KIWI") == []
    assert said(path, key=KEY) == SAID * 1_000
    change_key(path, before=KEY, after=None)
    assert said(path, key=None) == SAID * 1_000


def test_a_database_that_somebody_has_open_is_left_alone(path):
    fill(path, key=None)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="another process has it open"):
        change_key(path, before=None, after=KEY)
    store.close()
    assert said(path, key=None) == SAID


def test_whoever_waited_for_the_old_file_writes_nothing_into_it(path):
    fill(path, key=None)
    waiting = apsw.Connection(str(path))  # it has the file, and has asked nothing of it yet
    change_key(path, before=None, after=KEY)
    for statement in ("PRAGMA journal_mode=wal", "CREATE TABLE lost (x)"):
        with pytest.raises((apsw.ReadOnlyError, apsw.CantOpenError)):
            waiting.execute(statement)
    waiting.close()
    assert said(path, key=KEY) == SAID


def test_what_a_killed_copy_has_left_goes_with_the_next_one(path):
    fill(path, key=None)
    left, other = path.with_name("u.db.0123456789abcdef"), path.with_name("u.db.key")
    left.write_text(SAID)
    other.write_text("kept")
    change_key(path, before=None, after=KEY)
    assert not left.exists()
    assert other.read_text() == "kept"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_changed_byte_is_found_and_not_read_as_something_else(path):
    fill(path, key=KEY, times=1_000)
    content = bytearray(path.read_bytes())
    content[-2_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError):
        said(path, key=KEY)


MEGABYTES = 8


@pytest.mark.extended
@pytest.mark.parametrize("share", spread(range(5), first=[2], extended=1))
@pytest.mark.parametrize(("before", "after"), [(None, KEY), (KEY, None)], ids=["in", "out"])
def test_a_kill_at_any_moment_leaves_it_under_the_old_key_or_the_new(path, before, after, share):
    """A kill cannot be aimed by an event inside SQLite, so that some moments are tried."""
    text = SAID * (MEGABYTES * 1_000_000 // len(SAID))
    store = SqliteStore(path, key=before)
    store.commit([*samples.home(), samples.said(1, TextPart(text=text))])
    store.close()
    begun = CONTEXT.Event()
    worker = CONTEXT.Process(target=change_and_say_so, args=(path, before, after, begun))
    worker.start()
    assert begun.wait(60)
    time.sleep(share * 0.03)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    if not has_key(path, after):
        change_key(path, before=before, after=after)  # as a person would: once more
    assert said(path, key=after) == text
    assert after is None or found_in_files(path.parent, "KIWI") == []


def change_and_say_so(path: Path, before: bytes | None, after: bytes | None, begun: Event) -> None:
    begun.set()
    change_key(path, before=before, after=after)
    time.sleep(60)
