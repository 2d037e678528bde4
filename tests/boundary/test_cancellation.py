"""A git that somebody waits for ends with the waiting: Ctrl-C and a cancellation reach it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.world import eventually, make_repository

from upthread.boundary.programs import GivenUpError, heeding, is_given_up

ANSWERED_S = 45.0  # less than the git that does not answer sleeps


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that says which process it is, and no more."""
    told = tmp_path / "told"
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {told}.new\nmv {told}.new {told}\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return told


def started(told: Path) -> int:
    eventually(told.exists)
    return int(told.read_text())


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.extended
def test_ctrl_c_is_answered_while_git_does_not_answer(root, slow, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "upthread", "-C", str(root), "ls"],
        env={**os.environ, "UPTHREAD_HOME": str(tmp_path / "home")},
        start_new_session=True,  # as no terminal would: git itself hears nothing
        stderr=subprocess.PIPE,
    ) as running:
        try:
            git = started(slow)
            running.send_signal(signal.SIGINT)
            _, complained = running.communicate(timeout=ANSWERED_S)
        finally:
            running.kill()
    assert (running.returncode, complained.strip()) == (130, b"interrupted")
    assert not is_there(git)


def test_only_what_is_done_within_is_given_up() -> None:
    given_up = threading.Event()
    with heeding(given_up):
        assert not is_given_up()
        given_up.set()
        assert is_given_up()
    assert not is_given_up()
    assert not issubclass(GivenUpError, OSError)  # nobody takes it for a fault of the repository
