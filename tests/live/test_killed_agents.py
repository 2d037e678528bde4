"""The real agents, killed in the middle of a delegated turn that had written a file.

What was asked and done is then on record, whoever asks first, and told to whoever goes on.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.live import claude_code, codex, test_claude_code_hooks, test_codex_hooks
from tests.live import test_opencode_plugin as plugin
from tests.live.set_up import AgentSetUp

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PATIENCE_S = 60
ANSWER_S = 1.0
ASKED = "Make the file, KIWI-9."
CUT_OFF = "cut off: the agent ended before its sub-agent did"


@dataclass(frozen=True)
class Killed:
    """An agent that can be killed in its sub-agent's turn, and go on afterwards.

    `delegate_again` gives what the next sub-agent's model was sent, and what the person was told.
    """

    agent: str
    hooked: AgentSetUp
    kill: Callable[[], None]
    delegate_again: Callable[[], tuple[str, str]]
    opens_sub_agents: bool

    @property
    def made(self) -> Path:
        return self.hooked.project / "made.txt"

    def wait_until_made(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.made.exists():
            assert time.monotonic() < deadline, "the sub-agent wrote no file"
            time.sleep(0.05)
        time.sleep(1.5)  # until its agent has kept that, and asked its model again

    def ask(self, *words: str) -> tuple[str, float]:
        """What a person reads, and how long a processor worked for it beyond the program's start.

        On a machine that does nothing else this is what a person waits.
        """
        start_s = self._ran("--version")[1]
        text, cpu_s = self._ran(*words)
        return text, cpu_s - start_s

    def _ran(self, *words: str) -> tuple[str, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*self.hooked.program, *words],
            cwd=self.hooked.project,
            env=self.hooked.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return done.stdout, cpu_s


def on_path(directory: Path, name: str, binary: Path, environment: dict[str, str]) -> None:
    """Make an agent the one that upthread finds."""
    directory.mkdir()
    (directory / name).symlink_to(binary)
    environment["PATH"] = f"{directory}:{environment['PATH']}"


def end_group(process: subprocess.Popen[Any]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def claude(claude_binary: Path, model: RehearsalModel, tmp_path: Path) -> Killed:
    hooked = test_claude_code_hooks.Hooked(claude_binary, model, tmp_path)
    on_path(tmp_path / "bin", "claude", claude_binary, hooked.environment)

    def kill() -> None:
        writing = claude_code.call("Write", file_path=str(killed.made), content="made\n")
        prompt = test_claude_code_hooks.delegate(f"{ASKED}\n\n{writing} [[HANG]]")
        running = subprocess.Popen(
            [str(claude_binary), "-p", "--allowedTools", "Write", "Agent"],
            cwd=hooked.project,
            env=hooked.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert running.stdin is not None
        running.stdin.write(f"Go.\n\n{prompt}".encode())
        running.stdin.close()
        killed.wait_until_made()
        end_group(running)

    def again() -> tuple[str, str]:
        ran = hooked.run(f"Go.\n\n{test_claude_code_hooks.delegate('What was it?')}")
        return ran.by_children[-1], "\n".join(ran.lines)

    killed = Killed("claude-code", hooked, kill, again, opens_sub_agents=False)
    return killed


@pytest.fixture
def open_code(opencode_binary: Path, model: RehearsalModel, tmp_path: Path) -> Killed:
    plugged = plugin.Plugged(opencode_binary, model, tmp_path)
    on_path(tmp_path / "bin", "opencode", opencode_binary, plugged.environment)

    def kill() -> None:
        written = {"filePath": str(killed.made), "content": "made\n"}
        prompt = f"{ASKED}\n\n[[CALL write {json.dumps(written)}]] [[HANG]]"
        with plugged.start() as agent:
            agent.start_prompt(plugin.main_session(agent, plugged), plugin.delegate(prompt))
            killed.wait_until_made()
            agent.kill()

    def again() -> tuple[str, str]:
        with plugged.start() as agent:
            agent.prompt(plugin.main_session(agent, plugged), plugin.delegate("What was it?"))
        child = plugged.planner("spec-1", turns=2)["upstream_session_id"]
        return plugin.told(plugged.requests_of(child)[-1]), ""

    killed = Killed("opencode", plugged, kill, again, opens_sub_agents=True)
    return killed


@pytest.fixture
def codex_killed(codex_binary: Path, model: RehearsalModel, tmp_path: Path) -> Killed:
    hooked = test_codex_hooks.Hooked(codex_binary, model, tmp_path)

    def kill() -> None:
        command = codex.command("echo made > made.txt")
        spawning = test_codex_hooks.spawn(f"{ASKED} {command} [[HANG]]")
        words = ["exec", "--json", "--skip-git-repo-check", test_codex_hooks.TRUSTED]
        waiting = codex.call("exec_command", cmd="sleep 60", yield_time_ms=60_000)
        running = subprocess.Popen(
            [str(codex_binary), *words, f"Go. {spawning} {waiting}"],
            cwd=hooked.project,
            env=hooked.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        killed.wait_until_made()
        end_group(running)

    def again() -> tuple[str, str]:
        ran = hooked.run(
            f"Go. {test_codex_hooks.spawn('What was it?')} {test_codex_hooks.WAIT}",
            test_codex_hooks.TRUSTED,
        )
        return ran.by_children[0], ran.written

    killed = Killed("codex", hooked, kill, again, opens_sub_agents=True)
    return killed


@pytest.fixture(params=["claude", "open_code", "codex_killed"])
def killed(request: pytest.FixtureRequest) -> Killed:
    found: Killed = request.getfixturevalue(request.param)
    use: Any = getattr(found.hooked, "use", lambda name: found.hooked.upthread("use", name))
    use("spec-1")
    found.kill()
    return found


def test_whoever_asks_first_reads_what_was_asked_what_was_done_and_that_it_was_cut_off(killed):
    told: dict[str, str] = {}
    for words in (
        ("show", "spec-1"),
        ("why", "spec-1/planner"),
        ("brief", "spec-1/planner"),
        ("audit", "spec-1"),
        ("show", "spec-1", "--effects"),
    ):
        told[" ".join(words)], cpu_s = killed.ask(*words)
        assert cpu_s < ANSWER_S, words
    for words, text in told.items():
        assert "made.txt" in text, words
        assert "--effects" in words or "KIWI-9" in text, words
        assert "--effects" in words or "the agent ended before its sub-agent did" in text, words
    assert CUT_OFF in told["show spec-1"]
    effects = killed.hooked.upthread("show", "spec-1", "--effects")["effects"]
    assert [each["state"] for each in effects] == ["done"], "and nothing is told twice"
    assert killed.hooked.upthread("drain")["calls"] == 0
    assert killed.hooked.planner("spec-1", turns=1)["turns"] == 1


def test_the_next_sub_agent_in_the_agent_is_told_of_it(killed):
    sent, line = killed.delegate_again()
    assert "UNDECIDED" not in line, line
    assert "KIWI-9" in sent
    assert "made.txt" in sent
    if killed.agent == "claude-code":  # `codex exec` prints nothing of what a hook says
        assert "cut off" in line
    if killed.agent != "opencode":  # its session is resumed, and knows
        assert "prior context" in sent
        assert "do not repeat them" in sent
    assert killed.hooked.planner("spec-1", turns=2)["turns"] == 2


def test_tell_does_what_why_says_and_the_session_is_told_of_it(killed):
    why = killed.hooked.upthread("why", "spec-1/planner")["now"]
    lines = killed.ask("tell", "spec-1/planner", "What was it?", "--json")[0].splitlines()
    result = json.loads(lines[-1])
    assert (why["decision"], why["reasons"][0]) == (result["decision"], result["reasons"][0])
    decision = "resume" if killed.opens_sub_agents else "resume_with_replay"
    reason = "interrupted" if killed.opens_sub_agents else "sub_agent_session"
    assert (why["decision"], why["reasons"][0]) == (decision, reason)
    sent = json.dumps(killed.hooked.model.model_requests[-1].body)
    assert "KIWI-9" in sent
    assert "made.txt" in sent
    assert "do not repeat them" in sent


def test_what_tell_has_gone_on_with_is_gone_on_with_inside_the_agent(open_code):
    """OpenCode then says of the session that it is another of its agents'."""
    plugged = open_code.hooked
    plugged.upthread("use", "spec-1")
    with plugged.start() as agent:
        agent.prompt(plugin.main_session(agent, plugged), plugin.delegate("Remember KIWI-9."))
    plugged.planner("spec-1", turns=1)
    open_code.ask("tell", "spec-1/planner", "And PLUM-9.")
    with plugged.start() as agent:
        agent.prompt(plugin.main_session(agent, plugged), plugin.delegate("What was it?"))
    child = plugged.planner("spec-1", turns=3)
    assert len(child["chain"]) == 1
    sent = plugin.told(plugged.requests_of(child["upstream_session_id"])[-1])
    assert "KIWI-9" in sent
    assert "PLUM-9" in sent
