"""`encrypt`: a person puts their record under a key, works on, and takes it out again."""

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import RESUME


@pytest.fixture
def up(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    return up


def name_key(up, source: str = "") -> None:
    place = up.home / "keys" / "upthread"
    place.parent.mkdir(exist_ok=True)
    (up.home / "upthread").mkdir(mode=0o700, exist_ok=True)
    line = f'encryption_key = "{source or f"file:{place}"}"\n'
    (up.home / "upthread" / "config.toml").write_text(line)


def holding(up, word: str) -> list[str]:
    found = [path for path in (up.home / "upthread").rglob("*.db*") if path.is_file()]
    return [path.name for path in found if word.encode() in path.read_bytes()]


def test_a_record_goes_under_a_key_and_on_and_out_again(up):
    up("tell", "w/planner", "Quixotic zebra")
    # The backup of the day holds it, too, and goes when the database is encrypted.
    assert len(holding(up, "Quixotic")) == 2
    name_key(up)
    early = up("show", "w", code=None)
    assert early.code != 0
    assert "upthread encrypt" in early.err

    assert "nobody is there to confirm it (say --yes)" in up("encrypt", code=2).err
    assert up("encrypt", "--yes").out.endswith("upthread.db: encrypted\n")
    assert up("encrypt").out.endswith("encrypted already\n")
    assert holding(up, "Quixotic") == []
    key = up.home / "keys" / "upthread"
    assert (len(key.read_bytes()), key.stat().st_mode & 0o777) == (32, 0o600)

    assert decisions_told(up("tell", "w/planner", "And now?").err) == [RESUME]
    assert holding(up, "And now") == []

    assert "config.toml" in up("encrypt", "--remove", "--yes").out
    (up.home / "upthread" / "config.toml").unlink()
    assert decisions_told(up("tell", "w/planner", "Once more").err) == [RESUME]


def test_a_new_record_is_encrypted_from_its_first_word(up):
    name_key(up)
    assert "not there yet; it will be encrypted" in up("encrypt").out
    up("tell", "w/planner", "Quixotic zebra")
    assert holding(up, "Quixotic") == []
    (up.home / "keys" / "upthread").rename(up.home / "keys" / "lost")
    lost = up("show", "w", code=1)
    assert "cannot be opened: No such file" in lost.err
    assert "put it back from a copy" in lost.err


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("elsewhere", "encryption_key = 'elsewhere' says no place (say \"file:PATH\""),
        ("file:", "says no place"),
    ],
)
def test_a_place_that_is_none_is_told(up, source, says):
    name_key(up, source)
    assert says in up("encrypt", code=1).err


def test_without_a_named_key_it_says_where_to_name_one(up):
    assert "write encryption_key" in up("encrypt", "--yes", code=2).err
    assert "has no key to be taken out of" in up("encrypt", "--remove", "--yes", code=2).err


def test_a_repository_cannot_name_the_key(up):
    (up.directory / "upthread.toml").write_text('encryption_key = "file:/etc/hostname"\n')
    told = up("tell", "w/planner", "hi", code=1)
    assert "encryption_key is not a repository's to say" in told.err


def test_a_shared_database_is_its_servers_to_encrypt(up):
    name_key(up)
    told = up("encrypt", "--yes", "--db", "postgres://nowhere/none", code=2)
    assert "a PostgreSQL database is encrypted by its server" in told.err


@pytest.mark.extended
def test_a_key_that_was_lost_is_not_replaced_by_a_new_one(up):
    name_key(up)
    up("encrypt")
    up("tell", "w/planner", "Quixotic zebra")
    key = up.home / "keys" / "upthread"
    key.rename(key.with_name("moved"))
    lost = up("encrypt", "--yes", code=1)
    assert "put it back" in lost.err
    assert not key.exists(), "another key there would hide that this one is missing"
    key.with_name("moved").rename(key)
    assert up("encrypt").out.endswith("encrypted already\n")
