"""Erasing in the file: what the conformance suite cannot see from outside."""

import pytest

from upthread.core.codec import encode_json
from upthread.core.commands import EraseConversation
from upthread.core.types import ErasedPart, TextPart
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

ERASE = EraseConversation(conversation_id=samples.CONVERSATION)


def filled(path):
    store = SqliteStore(path)
    store.commit([*samples.home(), samples.said(1, TextPart(text="Quixotic zebra"))])
    return store


def test_size_and_digest_stay_when_content_goes(tmp_path):
    store = filled(tmp_path / "up.db")
    size_bytes = len(encode_json(TextPart(text="Quixotic zebra")))
    store.commit([ERASE])
    store.commit([samples.said(2, ErasedPart(kind="text", digest=b"d" * 32, size_bytes=7))])
    rows = store.read(
        "SELECT said, kept ->> '$.outline[0][1]', length(digest) FROM entry"
        " WHERE kind IN ('said', 'done') ORDER BY id"
    )
    assert rows == [(None, size_bytes, 32), (None, 7, None)]
    assert store.verify(samples.CONVERSATION) is None
    store.close()


def test_a_log_that_somebody_reads_cannot_be_emptied_and_that_is_said(tmp_path):
    path = tmp_path / "up.db"
    store, reader = filled(path), SqliteStore(path)
    reader.database.connection.execute("BEGIN; SELECT count(*) FROM entry").fetchall()
    store.database.connection.set_busy_timeout(50)
    store.commit([ERASE])
    with pytest.raises(StoreError, match="another process reads it"):
        store.scrub()
    reader.database.connection.execute("ROLLBACK")
    store.scrub()
    files = [*tmp_path.glob("up.db*")]
    assert not [name for name in files if b"Quixotic" in name.read_bytes()]
    reader.close()
    store.close()


@pytest.mark.extended
def test_pages_that_were_freed_before_hold_nothing_either(tmp_path):
    path = tmp_path / "up.db"
    store = filled(path)
    for seq in range(2, 400):
        store.commit([samples.said(seq, TextPart(text=f"Quixotic {seq} " * (seq * 7 % 300)))])
    size = path.stat().st_size
    store.commit([ERASE])
    store.scrub()
    assert b"Quixotic" not in path.read_bytes()
    assert path.stat().st_size < size
    assert store.database.connection.pragma("integrity_check") == "ok"
    store.close()
