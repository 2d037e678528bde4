"""A user without a home, as a container has one: no HOME and no entry that says where it is."""

from __future__ import annotations

import os
import subprocess

import pytest


@pytest.mark.skipif(
    subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode != 0,
    reason="takes namespaces of users",
)
@pytest.mark.extended
@pytest.mark.parametrize("words", ["", "search hi", "doctor", "adopt --pick", "setup codex --yes"])
def test_no_verb_fails_for_want_of_a_home_without_saying_so(make_upthread, tmp_path, words):
    up = make_upthread(tmp_path)
    environment = {"PATH": os.environ["PATH"], "UPTHREAD_HOME": up.environment["UPTHREAD_HOME"]}
    nobody = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
    done = subprocess.run(
        [*nobody, *up.words(*words.split())],
        cwd=up.directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "this is a bug" not in said
    is_told = words.startswith("setup")
    assert (done.returncode, "HOME is not set" in said) == (int(is_told), is_told), said
