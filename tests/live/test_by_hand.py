"""A person with the agent's own command: what they began is adopted, what is ours is opened."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.claude_code import claude_environment
from tests.live.codex import FULL_ACCESS, codex_environment, rollouts
from tests.live.opencode import opencode_environment
from tests.live.shell import Shell, agents_left, only
from tests.live.terminal import Terminal

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ADDRESS = "spec-42/planner"
FIRST = "Remember KIWI-42."
DRAWN_WITHIN_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Hand:
    """How a person uses one agent: what prompts it once, how it names the session it made."""

    agent: str
    binary: str
    prompting: tuple[str, ...]
    names_session: str
    environment: Callable[..., dict[str, str]]
    opening: tuple[str, ...]


HANDS = {
    hand.agent: hand
    for hand in (
        Hand(
            agent="claude-code",
            binary="claude",
            prompting=("-p", FIRST, "--output-format", "json"),
            names_session="session_id",
            environment=claude_environment,
            opening=("claude", "--resume"),
        ),
        Hand(
            agent="codex",
            binary="codex",
            prompting=("exec", "--json", "--skip-git-repo-check", FIRST),
            names_session="thread_id",
            environment=codex_environment,
            opening=("codex", "resume", "--no-daemon"),
        ),
        Hand(
            agent="opencode",
            binary="opencode",
            prompting=("run", "--format", "json", FIRST),
            names_session="sessionID",
            environment=opencode_environment,
            opening=("opencode", "--session"),
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One agent on PATH, upthread beside it."""

    hand: Hand
    shell: Shell
    home: Path

    def begun_by_hand(self) -> str:
        """Make a session with one prompt, without upthread; returns its id."""
        done = subprocess.run(
            [self.hand.binary, *self.hand.prompting],
            cwd=self.shell.project,
            env=self.shell.environment,
            executable=shutil.which(self.hand.binary, path=self.shell.environment["PATH"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        member = self.hand.names_session
        named = (line for line in done.stdout.splitlines() if f'"{member}"' in line)
        return json.loads(next(named))[member]

    def drive_over_acp(self, command: tuple[str, ...], **environment: str) -> None:
        """Have the configuration name the agent, by the command that speaks ACP."""
        settings = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environment.items())
        lines = [f"[agents.{self.hand.agent}]", f"command = {json.dumps(command)}"]
        self.shell.configure("\n".join([*lines, f"environment = {{ {settings} }}", ""]))

    @contextmanager
    def at(self, *command: str) -> Iterator[Terminal]:
        """A terminal for somebody whom the agent has asked what it asks a newcomer."""
        if self.hand.agent == "claude-code":
            self._be_known_to_claude()
        elif self.hand.agent == "codex":
            with (self.home / ".codex" / "config.toml").open("a") as settings:
                settings.write(f'[projects."{self.shell.project}"]\ntrust_level = "trusted"\n')
        with Terminal(
            command, environment=self.shell.environment, cwd=self.shell.project
        ) as terminal:
            yield terminal

    def _be_known_to_claude(self) -> None:
        """To greet a newcomer it wants the network."""
        path = self.home / ".claude.json"
        state = json.loads(path.read_text())
        state |= {"hasCompletedOnboarding": True, "theme": "dark"}
        state["customApiKeyResponses"] = {"approved": ["none"], "rejected": []}
        place = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state["projects"] = {str(self.shell.project): place}
        path.write_text(json.dumps(state))


@pytest.fixture(params=HANDS)
def desk(request, model, project, tmp_path) -> Iterator[Desk]:
    hand = HANDS[request.param]
    binaries, home = tmp_path / "bin", tmp_path / "home"
    binaries.mkdir()
    binary = request.getfixturevalue(f"{hand.agent.partition('-')[0]}_binary")
    (binaries / hand.binary).symlink_to(binary)
    environment = {
        **hand.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Desk(hand=hand, shell=Shell(project, environment), home=home)
    assert agents_left(tmp_path) == []


def assert_taken_in(desk: Desk, session: str, model) -> None:
    """Adopt a session that was begun by hand, and go on in it."""
    (adopted,) = desk.shell.lines("adopt", ADDRESS, session)
    assert adopted["upstream_session_id"] == session
    told = desk.shell.lines("tell", ADDRESS, "What was it?")
    assert only(told, "turn_started")["decision"] == "resume"
    assert only(told, "turn_started")["upstream_session_id"] == session
    assert only(told, "turn_ended")["outcome"] == "ok"
    shown = json.dumps(model.model_requests[-1].body)
    assert shown.index("KIWI-42") < shown.index("What was it?")


def assert_opens(running: list[str], meant: list[str]) -> None:
    """Programs are started by their whole path; a script's interpreter stands before it."""
    assert [Path(word).name for word in running][-len(meant) :] == meant


def test_a_session_begun_by_hand_goes_on_and_opens_in_the_agents_own_command(desk, model):
    """The agent draws the session whole: what a person asked by hand, and what upthread did."""
    session = desk.begun_by_hand()
    assert_taken_in(desk, session, model)
    with desk.at(*desk.shell.command("open", ADDRESS)) as terminal:
        terminal.wait_for("What was it?", within_s=DRAWN_WITHIN_S)
        assert "Remember KIWI-42." in terminal.text
        assert_opens(terminal.command, [*desk.hand.opening, session])
    again = desk.shell.lines("tell", ADDRESS, "And then?")
    assert only(again, "turn_ended")["outcome"] == "ok", "nobody keeps it when the person has left"


def test_a_session_begun_by_hand_goes_on_over_acp_and_opens_the_same_way(desk, model, request):
    agent = desk.hand.agent
    if agent == "claude-code":
        binary = str(request.getfixturevalue("claude_binary"))
        command = request.getfixturevalue("claude_acp")
        desk.drive_over_acp(command, CLAUDE_CODE_EXECUTABLE=binary)
    elif agent == "codex":
        binary = str(request.getfixturevalue("codex_binary"))
        script = str(request.getfixturevalue("codex_acp"))
        node = shutil.which("node") or "node"
        desk.drive_over_acp((node, script), CODEX_PATH=binary, **FULL_ACCESS)
    else:
        desk.drive_over_acp(("opencode", "acp"))
    # What `codex exec` began is not in the list of codex-acp, so that this one is begun at a desk.
    session = begun_in_codex(desk) if agent == "codex" else desk.begun_by_hand()
    assert_taken_in(desk, session, model)
    (opened,) = desk.shell.lines("open", ADDRESS, "--dry-run")
    assert opened["command"] == [*desk.hand.opening, session]


def begun_in_codex(desk: Desk) -> str:
    binary = shutil.which("codex", path=desk.shell.environment["PATH"]) or "codex"
    with desk.at(binary, "--no-daemon", FIRST) as terminal:
        terminal.wait_for("Worked for", within_s=DRAWN_WITHIN_S)
    (rollout,) = rollouts(desk.home)
    return rollout.stem[-len("00000000-0000-4000-8000-000000000000") :]


def test_a_session_of_ours_is_called_by_its_address(desk):
    started = only(desk.shell.lines("tell", ADDRESS, FIRST), "turn_started")
    session = started["upstream_session_id"]
    assert title_of(desk, session) == ADDRESS


def title_of(desk: Desk, session: str) -> str:
    """The title of a session where its agent keeps it."""
    if desk.hand.agent == "claude-code":
        (transcript,) = (desk.home / ".claude" / "projects").glob(f"*/{session}.jsonl")
        lines = [json.loads(line) for line in transcript.read_text().splitlines()]
        return [line["customTitle"] for line in lines if line["type"] == "custom-title"][-1]
    if desk.hand.agent == "codex":
        index = (desk.home / ".codex" / "session_index.jsonl").read_text().splitlines()
        names = {line["id"]: line["thread_name"] for line in map(json.loads, index)}
        return names[session]
    words = ("opencode", "session", "list", "--format", "json")
    listed = subprocess.run(
        [shutil.which(words[0], path=desk.shell.environment["PATH"]) or words[0], *words[1:]],
        cwd=desk.shell.project,
        env=desk.shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return next(each["title"] for each in json.loads(listed.stdout) if each["id"] == session)
