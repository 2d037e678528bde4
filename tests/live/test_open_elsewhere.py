"""A session that somebody has open: a second writer loses a branch, so upthread is none."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.live.agents import ADDRESS, OPENCODE, WAYS
from tests.live.shell import Shell, kill_all, only, tree_of, wait_until

from upthread.agents.stored import writers_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@contextmanager
def started(shell: Shell, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start OpenCode as a person does, and kill it at the end."""
    program = str(shutil.which("opencode", path=shell.environment["PATH"]))
    with subprocess.Popen(
        [program, *words],
        cwd=shell.project,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            kill_all(tree_of(process.pid))


def overview(shell: Shell) -> str:
    return subprocess.check_output(
        shell.command(), cwd=shell.project, env=shell.environment, text=True
    )


@pytest.mark.parametrize("name", ["opencode"])
@pytest.mark.extended
@pytest.mark.parametrize("words", [("-s", "SESSION"), ("--continue",)])
def test_a_session_that_a_person_works_in_is_left_to_them(words, shell, model):
    session = shell.tell("Begin.")["upstream_session_id"]
    model.answer_next(OPENCODE.command("touch made; sleep 600"))
    words = [session if each == "SESSION" else each for each in words]
    with started(shell, "run", *words, "Do it.") as theirs:
        wait_until((shell.project / "made").exists, "the command's file")
        lines = shell.lines("tell", ADDRESS, "And now?", exit_code=None)
        told = f"is open in another opencode, process {theirs.pid}"
        assert told in json.dumps(lines)
        assert only(lines, "turn_ended")["outcome"] == "busy"
        assert "And now?" not in json.dumps([each.body for each in model.requests])
        assert told in json.dumps(shell.one("why", ADDRESS))
        assert f"at work in process {theirs.pid}" in overview(shell)
    with started(shell, "serve") as idle:
        assert idle.stdout is not None
        assert any(b"listening" in line for line in idle.stdout), "and it is not what died"
        assert writers_of(shell.environment, "opencode", {session}) == {}
        assert "Cut off here" in overview(shell)
        assert shell.tell("And now?")["outcome"] == "ok"


@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
@pytest.mark.extended
def test_a_session_that_upthread_works_in_is_not_cut_off(name, shell, model):
    shell.tell("Begin.")
    model.answer_next(WAYS[name].command("sleep 600"))
    with shell.start_call("Go on.") as running:
        told = shell.session(), overview(shell)
        kill_all(tree_of(running.pid))
    assert (told[0]["open_in_pid"], told[0]["resume_command"]) == (running.pid, None)
    assert "Cut off here" not in told[1]
    assert shell.session()["open_in_pid"] is None
