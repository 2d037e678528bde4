"""Where upthread keeps its files: where it is told to, else where the platform has such things."""

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from upthread.agent_stores.homes import home_of
from upthread.boundary import own_files
from upthread.boundary.own_files import agents_home, configuration_path, home_directory, home_path
from upthread.core.agents import WITH_A_STORE
from upthread.errors import ConfigError


def test_it_is_where_the_variable_says_and_else_a_place_of_its_own(monkeypatch, tmp_path):
    assert home_directory({"UPTHREAD_HOME": "/somewhere/else"}) == Path("/somewhere/else")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for environment in ({}, {"UPTHREAD_HOME": ""}):
        home = home_directory(environment)
        assert home.name == "upthread"
        assert home.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/home/somebody"},
        {"HOME": "/home/somebody", "XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "/config"},
        {"HOME": "/home/somebody", "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": " "},
        {"HOME": "/home/somebody", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "./config"},
        {"HOME": "", "XDG_DATA_HOME": "~/data"},
        {"HOME": "not/absolute"},
    ],
)
def test_it_is_where_platformdirs_says(monkeypatch, environment):
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    theirs = platformdirs.user_data_dir("upthread", appauthor=False)
    assert home_path(environment) == theirs
    assert configuration_path(environment) == platformdirs.user_config_dir(
        "upthread", appauthor=False
    )


def test_on_macos_it_is_where_applications_have_their_files_unless_xdg_is_set(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    usual = "/Users/somebody/Library/Application Support/upthread"
    assert home_path({"HOME": "/Users/somebody"}) == usual
    assert configuration_path({"HOME": "/Users/somebody"}) == usual
    assert home_path({"HOME": "/Users/somebody", "XDG_DATA_HOME": "/data"}) == "/data/upthread"


def test_who_has_no_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(ConfigError, match="HOME is not set") as told:
        home_path({})
    assert "UPTHREAD_HOME" in (told.value.hint or "")


@pytest.mark.parametrize("name", ["UPTHREAD_HOME", "HOME", "XDG_DATA_HOME"])
@pytest.mark.parametrize("home", ["/a b\nc", "/h\udcff"])
def test_a_home_that_no_database_can_be_in_is_named_with_a_cure(name, home):
    with pytest.raises(ConfigError, match="no line of UTF-8") as told:
        home_path({name: home})
    assert "UPTHREAD_HOME" in told.value.hint


def test_who_has_no_home_has_no_agents_stores(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    assert agents_home({"HOME": "/home/ada"}) == Path("/home/ada")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert not agents_home({}).exists()
    assert [home_of(agent, {}).exists() for agent in WITH_A_STORE] == [False] * len(WITH_A_STORE)


# --- private files of ours are for nobody else to read --------------------------------------------


@pytest.mark.parametrize("has_leftover", [False, True])
def test_a_private_file_is_made_for_its_owner_alone(tmp_path, has_leftover):
    """A killed process with our pid may have left its unfinished file."""
    path = tmp_path / "own" / "file"
    if has_leftover:
        path.parent.mkdir(mode=0o700)
        path.with_name(f"file.{os.getpid()}").write_text("half")
    before = os.umask(0)
    try:
        own_files.replace(str(path), {"a": 1})
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (path.parent, path)] == [0o700, 0o600]
    assert own_files.read(str(path)) == {"schema": 1, "a": 1}
