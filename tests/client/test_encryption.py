"""The key in the operating system's keyring, through the library's own backends."""

from pathlib import Path

import keyring
import keyring.backend
import pytest
from msgspec import structs

from upthread.client.stores import SERVICE, key_of, made_key
from upthread.config import load_settings
from upthread.errors import ConfigError


class Kept(keyring.backend.KeyringBackend):
    """A keyring that lasts as long as the test: this machine may have none."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password


@pytest.fixture
def kept():
    before, kept = keyring.get_keyring(), Kept()
    keyring.set_keyring(kept)
    yield kept
    keyring.set_keyring(before)


@pytest.fixture
def settings(tmp_path: Path):
    loaded = load_settings(tmp_path, environment={"UPTHREAD_HOME": str(tmp_path)})
    return structs.replace(loaded, encryption_key="keyring:mine")


def test_a_key_is_made_once_and_read_again(kept, settings):
    made = made_key(settings)
    assert len(made) == 32
    assert made_key(settings) == key_of(settings) == made
    assert list(kept.passwords) == [(SERVICE, "mine")]


def test_a_key_that_is_lost_or_is_none_is_told_and_never_made_anew_by_a_reader(kept, settings):
    with pytest.raises(ConfigError, match="the keyring has no key 'mine'"):
        key_of(settings)
    assert kept.passwords == {}
    for told in ("", "abc", "00" * 31, "no hex"):
        kept.passwords[SERVICE, "mine"] = told
        with pytest.raises(ConfigError, match="is no key"):
            key_of(settings)


def test_a_shared_database_needs_none(settings):
    assert key_of(structs.replace(settings, database="postgres://host/work")) is None
