from pathlib import Path

from upthread.boundary.own_home import home_directory


def test_what_the_environment_names_is_taken_and_else_the_users_own_directory(
    monkeypatch, tmp_path
):
    assert home_directory({"UPTHREAD_HOME": "/srv/upthread"}) == Path("/srv/upthread")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for nothing in ({}, {"UPTHREAD_HOME": ""}):
        assert home_directory(nothing).is_relative_to(tmp_path)
        assert home_directory(nothing).name == "upthread"
