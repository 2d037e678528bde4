"""What a program said is believed while it is the same program, and by nobody else's word."""

import os
import stat
from pathlib import Path

import pytest

from upthread.agents import _process
from upthread.agents._process import DAY_MS, PROBES_FILE, PROBES_MAX, remember, remembered


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("UPTHREAD_HOME", str(home))
    return home


def program(path: Path, content: bytes = b"\x7fELF 1") -> tuple[str, str]:
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path), "--version"


def test_what_it_said_is_remembered_of_exactly_that_command(tmp_path):
    command = program(tmp_path / "agent")
    assert remembered(command) is None
    remember(command, "agent 1.2.3")
    assert remembered(command) == "agent 1.2.3"
    assert remembered((command[0], "--help")) is None
    assert remembered(program(tmp_path / "other")) is None


@pytest.mark.parametrize("change", ["size", "time", "words_alone", "another_file", "gone"])
def test_another_program_at_the_same_place_is_asked_again(tmp_path, change):
    path = tmp_path / "agent"
    command = program(path)
    remember(command, "agent 1")
    status = path.stat()
    written = {"size": b"\x7fELF 12", "words_alone": b"\x7fELF 2", "another_file": b"\x7fELF 2"}
    if change == "another_file":
        path.rename(tmp_path / "old")
    if change in written:
        program(path, written[change])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + (change == "time")))
    if change == "gone":
        path.unlink()
    assert remembered(command) is None


def test_an_interpreter_is_known_with_the_script_it_runs(tmp_path):
    node, script = program(tmp_path / "node")[0], tmp_path / "agent.js"
    program(script, b"#!/usr/bin/env node\n1\n")
    command = (node, str(script), "--version")
    remember(command, "agent 1")
    assert remembered(command) == "agent 1"
    script.write_bytes(b"#!/usr/bin/env node\n22\n")
    assert remembered(command) is None


def test_what_runs_another_program_is_asked_each_time(tmp_path):
    python = program(tmp_path / "python")[0]
    for command in (
        program(tmp_path / "shim", b"#!/bin/sh\nexec agent\n"),
        (python, "-m", "agent", "--version"),
        (python, "agent.py", "--version"),
    ):
        remember(command, "agent 1")
        assert remembered(command) is None, command


def test_whatever_is_remembered_is_asked_again_after_a_day(tmp_path, monkeypatch):
    command = program(tmp_path / "agent")
    remember(command, "agent 1")
    now_ms = _process._now_ms()
    monkeypatch.setattr(_process, "_now_ms", lambda: now_ms + DAY_MS - 60_000)
    assert remembered(command) == "agent 1"
    for moved_ms in (DAY_MS, -DAY_MS):  # a clock that was set back says nothing either
        monkeypatch.setattr(_process, "_now_ms", lambda moved_ms=moved_ms: now_ms + moved_ms)
        assert remembered(command) is None


def test_its_file_is_ours_alone_and_one_that_another_could_have_written_counts_for_nothing(
    home, tmp_path
):
    command = program(tmp_path / "agent")
    remember(command, "agent 1")
    assert [path.name for path in home.iterdir()] == [PROBES_FILE]
    assert stat.S_IMODE((home / PROBES_FILE).stat().st_mode) == 0o600
    (home / PROBES_FILE).chmod(0o620)
    assert remembered(command) is None
    remember(command, "agent 1")
    assert remembered(command) == "agent 1", "it was replaced by one of ours"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"probes": {"x": 1}}', b"\xff" * 8])
def test_what_is_not_as_we_wrote_it_is_asked_anew(home, tmp_path, content):
    command = program(tmp_path / "agent")
    (home / PROBES_FILE).write_bytes(content)
    (home / PROBES_FILE).chmod(0o600)
    assert remembered(command) is None
    remember(command, "agent 1")
    assert remembered(command) == "agent 1"


def test_where_upthread_has_no_home_none_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("UPTHREAD_HOME", str(tmp_path / "none"))
    command = program(tmp_path / "agent")
    remember(command, "agent 1")
    assert remembered(command) is None
    assert not (tmp_path / "none").exists()


def test_only_the_newest_are_kept(tmp_path, monkeypatch):
    command = program(tmp_path / "agent")
    begun_ms = _process._now_ms() - 10_000
    for number in range(PROBES_MAX + 1):
        monkeypatch.setattr(_process, "_now_ms", lambda number=number: begun_ms + number)
        remember((*command, f"--{number}"), "agent 1")
    assert remembered((*command, "--0")) is None
    assert remembered((*command, f"--{PROBES_MAX}")) == "agent 1"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_no_error(home, tmp_path):
    home.chmod(0o500)
    command = program(tmp_path / "agent")
    remember(command, "agent 1")
    assert remembered(command) is None
