"""What is left of a database is never taken for a new one: files.py, before it is opened."""

import os
import subprocess
import sys

import apsw
import pytest

from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.backup import check_file
from upthread.store.sqlite.files import header_of, is_cut_short
from upthread.testing.store_conformance import samples

KEY = bytes(range(32))


@pytest.fixture
def path(tmp_path):
    """A database that has been used, with its key beside it."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.commit([*samples.home(), samples.said(1)])
    store.close()
    (tmp_path / "store.db.key").write_bytes(KEY)
    return path


def refused(path, match):
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(StoreError, match=match) as caught:
        SqliteStore(path)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    assert str(path) in caught.value.message
    assert "upthread restore" in caught.value.hint
    assert not check_file(path).is_open
    return caught.value


@pytest.mark.parametrize("beside", ["store.db.key", "store.db-wal"])
@pytest.mark.parametrize("left", ["is not there", r"is empty \(0 bytes\)"])
def test_an_empty_or_missing_file_beside_its_key_or_log_is_not_taken_for_new(path, left, beside):
    path.with_name("store.db.key").unlink()
    path.unlink()
    if "empty" in left:
        path.touch(0o600)
    path.with_name(beside).write_bytes(b"\x37\x7f\x06\x82" + bytes(4000))
    assert f"{beside} beside it" in refused(path, left).message


def test_a_database_that_holds_nothing_beside_a_key_is_not_taken_for_new(path):
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("VACUUM")
    connection.close()
    refused(path, "holds nothing" if path.stat().st_size else "is empty")


@pytest.mark.extended
@pytest.mark.parametrize("left", [1, 99, 100, 511, 4096, 8192])
def test_a_file_that_was_cut_short_is_refused(path, left):
    os.truncate(path, left)
    refused(path, "is cut short|not a database|malformed|holds nothing")


def test_a_file_cut_short_is_noticed_while_its_log_is_there(path, tmp_path):
    store = SqliteStore(path)
    store.commit([samples.said(2)])
    kept = (tmp_path / "store.db-wal").read_bytes()
    store.close()
    os.truncate(path, path.stat().st_size - 8192)
    (tmp_path / "store.db-wal").write_bytes(kept)
    refused(path, "is cut short")


@pytest.mark.parametrize(
    "content", [b"not a database\n" * 400, bytes(8192), b"SQLite format 3\0" * 300]
)
def test_a_file_of_something_else_is_refused(path, content):
    path.write_bytes(content)
    refused(path, "not a database|holds nothing|is cut short|malformed")


def test_the_database_of_another_program_is_refused_with_what_to_do_next(path):
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    refused(path, "database of another program")


def test_looking_at_a_file_keeps_the_locks_that_this_process_has_on_it(path):
    store = SqliteStore(path)
    store.commit([samples.said(2)])
    assert header_of(path).startswith(b"SQLite format 3")
    assert not is_cut_short(path)
    script = (
        "import apsw, sys; c = apsw.Connection(sys.argv[1])\n"
        "c.pragma('locking_mode', 'exclusive')\n"
        "try: print(c.pragma('journal_mode', 'delete'))\nexcept apsw.BusyError: print('busy')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in {"busy", "wal"}
    store.close()


def test_a_new_database_is_made_where_nothing_lies(tmp_path):
    SqliteStore(tmp_path / "new" / "store.db").close()
    assert (tmp_path / "new" / "store.db").stat().st_size > 0
