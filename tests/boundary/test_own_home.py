"""Where upthread keeps its files: where it is told to, else where the platform has such things."""

from __future__ import annotations

from pathlib import Path

from upthread.boundary.own_home import home_directory


def test_it_is_where_the_variable_says_and_else_a_place_of_its_own(monkeypatch, tmp_path):
    assert home_directory({"UPTHREAD_HOME": "/somewhere/else"}) == Path("/somewhere/else")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for environment in ({}, {"UPTHREAD_HOME": ""}):
        home = home_directory(environment)
        assert home.name == "upthread"
        assert home.is_relative_to(tmp_path)
