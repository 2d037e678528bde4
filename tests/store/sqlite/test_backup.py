"""backup.py: what a check finds, what a copy holds, and how a copy takes a database's place."""

import os
import stat
import threading
from contextlib import closing

import pytest

from upthread.core.commands import OpenConversation
from upthread.core.types import ConversationId, TextPart, TurnId
from upthread.errors import StoreError, UsageError
from upthread.store.sqlite import SqliteStore, backup
from upthread.store.sqlite.backup import check_file, copied, copy_to, put_in_place
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

KEY = bytes(range(32))
WRITERS = 4
COPIES = 3


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request):
    return request.param


@pytest.fixture
def path(tmp_path, key):
    path = tmp_path / "home" / "store.db"
    store = SqliteStore(path, key=key)
    store.commit([*samples.home(), samples.said(1)])
    store.close()
    return path


def count(path, key, conversation_id=CONVERSATION):
    with closing(SqliteStore(path, key=key)) as store:
        assert store.verify(conversation_id) is None
        return store.message_count(conversation_id)


def writers_own(number):
    return ConversationId(f"con_{number}"), TurnId(f"trn_{number}")


def write_until(written, done, path, key, number):
    """Commit messages to a conversation of its own, each with the next number, until told."""
    owner, turn = writers_own(number)
    conversation = samples.conversation(owner, key=samples.sibling_key(role=f"role-{number}"))
    store = SqliteStore(path, key=key)
    store.commit([OpenConversation(conversation=conversation), samples.turn(turn, owner=owner)])
    seq = 0
    while not done.is_set():
        seq += 1
        text = TextPart(text=f"{number}: {seq} " * 200)
        store.commit([samples.said(seq, text, owner=owner, turn_id=turn)])
        written.release()
    store.close()


@pytest.mark.extended
def test_a_copy_made_while_others_write_is_whole_and_verifies(path, tmp_path, key):
    written, done = threading.Semaphore(0), threading.Event()
    writers = [
        threading.Thread(target=write_until, args=(written, done, path, key, number))
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        for number in range(COPIES):
            for _ in range(WRITERS):  # a copy is of something
                assert written.acquire(timeout=60)
            copy_to(path, tmp_path / f"copy-{number}.db", key=key)
    finally:
        done.set()
        for writer in writers:
            writer.join()
    counts = [
        [count(tmp_path / f"copy-{copy}.db", key, writers_own(writer)[0]) for copy in range(COPIES)]
        for writer in range(WRITERS)
    ]
    assert all(each == sorted(each) for each in counts)
    assert all(sum(copy) > 0 for copy in zip(*counts, strict=True))


@pytest.mark.extended
def test_a_copy_is_private_and_alone(path, tmp_path, key):
    before = os.umask(0)
    try:
        copy_to(path, tmp_path / "copies" / "copy.db", key=key)
    finally:
        os.umask(before)
    assert [each.name for each in (tmp_path / "copies").iterdir()] == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copies" / "copy.db").stat().st_mode) == 0o600
    is_readable = b"SQLite format 3" in (tmp_path / "copies" / "copy.db").read_bytes()[:16]
    assert is_readable is (key is None)


def test_a_copy_holds_what_is_only_in_the_log(path, tmp_path, key):
    store = SqliteStore(path, key=key)
    store.commit([samples.said(2)])
    copy_to(path, tmp_path / "copy.db", key=key)
    store.close()
    assert count(tmp_path / "copy.db", key) == 2


def test_a_file_that_is_there_is_not_overwritten(path, tmp_path, key):
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        copy_to(path, tmp_path / "copy.db", key=key)
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_file_that_is_not_there_yet_is_sound_and_not_made(tmp_path):
    assert check_file(tmp_path / "none.db").is_sound
    assert not (tmp_path / "none.db").exists()


def test_damaged_pages_are_named_and_there_is_no_copy(path, tmp_path, key):
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(os.urandom(4096 * 10))
    before = path.read_bytes()
    found = check_file(path, key=key)
    assert found.faults
    assert not found.is_sound
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match=r"damaged|could not be copied"):
        copy_to(path, tmp_path / "copies" / "copy.db", key=key)
    assert list((tmp_path / "copies").iterdir()) == []


def test_it_is_refused_while_somebody_has_the_database_open(path, tmp_path, key, monkeypatch):
    monkeypatch.setattr(backup, "_BUSY_TIMEOUT_MS", 50)
    copy_to(path, tmp_path / "copy.db", key=key)
    store = SqliteStore(path, key=key)
    store.commit([samples.said(2)])
    with (
        pytest.raises(StoreError, match=r"another process has .* open"),
        copied(tmp_path / "copy.db", beside=path, key=key) as copy,
    ):
        put_in_place(path, copy, path.with_name("kept.db"), key=key)
    store.close()
    assert count(path, key) == 2


@pytest.mark.extended
@pytest.mark.parametrize("damage", ["emptied", "foreign", "gone"])
def test_what_is_damaged_is_kept_with_its_log(path, tmp_path, key, damage):
    copy_to(path, tmp_path / "copy.db", key=key)
    log = path.with_name("store.db-wal")
    log.write_bytes(b"what is left of a log")
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "emptied" else b"no database" * 1000)
    with copied(tmp_path / "copy.db", beside=path, key=key) as copy:
        put_in_place(path, copy, path.with_name("kept.db"), key=key)
    assert count(path, key) == 1
    assert path.with_name("kept.db-wal").read_bytes() == b"what is left of a log"
