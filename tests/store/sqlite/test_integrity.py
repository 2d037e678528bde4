"""integrity.py says what is damaged in a file, whether it opens or not, and changes nothing."""

from __future__ import annotations

import os

import pytest

from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.integrity import check_file
from upthread.testing.store_conformance import samples

KEY = bytes(range(32))


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request):
    return request.param


@pytest.fixture
def path(tmp_path, key):
    path = tmp_path / "store.db"
    store = SqliteStore(path, key=key)
    store.commit([*samples.home(), *(samples.said(seq) for seq in range(1, 200))])
    store.close()
    return path


def test_a_file_that_is_not_there_yet_is_sound_and_not_made(tmp_path):
    assert check_file(tmp_path / "none.db").is_sound
    assert not (tmp_path / "none.db").exists()


@pytest.mark.extended
def test_damaged_pages_are_named(path, key):
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        file.seek((pages - 3) * 4096)
        file.write(os.urandom(4096))
    before = path.read_bytes()
    found = check_file(path, key=key)
    assert found.is_open
    assert not found.is_sound
    assert found.faults
    assert path.read_bytes() == before
