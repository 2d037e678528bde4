"""A user without a home, or with one that cannot be used, as a container has them."""

import os
import shlex
import subprocess

import pytest


def ended(command, cwd, env):
    given = {"cwd": cwd, "env": env, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)


@pytest.mark.skipif(
    subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode != 0,
    reason="takes namespaces of users",
)
@pytest.mark.extended
@pytest.mark.parametrize("mode", [None, 0, 0o500])
@pytest.mark.parametrize(
    "words",
    [
        "",
        "search hi",
        "doctor",
        "adopt --pick",
        "ls",
        "setup codex --yes",
        "tell a/planner c",
        "savings",
    ],
)
def test_no_verb_fails_for_want_of_a_home_without_saying_so(make_upthread, tmp_path, words, mode):
    up = make_upthread(tmp_path)
    environment = {"PATH": os.environ["PATH"], "UPTHREAD_HOME": up.environment["UPTHREAD_HOME"]}
    home, fault = tmp_path / "home of theirs", "HOME is not set"
    if mode is not None:
        home.mkdir()
        home.chmod(mode)
        environment["HOME"], fault = str(home), str(home)
    nobody = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
    agent = ("--agent", "rehearsal") if words.startswith("tell") else ()
    done = ended([*nobody, *up.words(*words.split(), *agent)], up.directory, environment)
    said = done.stdout + done.stderr
    assert "this is a bug" not in said
    needs_home = words.startswith(("setup", "tell"))
    assert done.returncode == int(needs_home), said
    assert not needs_home or fault in said, said


@pytest.mark.parametrize(
    "words", ["", "ls", "doctor", "backup", "setup claude", "tell a/planner c"]
)
def test_a_working_directory_that_was_removed_is_named(make_upthread, tmp_path, words):
    up = make_upthread(tmp_path)
    inside = shlex.join(up.words(*words.split()))
    removed = ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && {inside}"]
    done = ended(removed, tmp_path, {**os.environ, **up.environment})
    assert "the working directory is not there any more" in done.stderr
    assert "this is a bug" not in done.stderr
