"""A person with the agent's own command: upthread imports their sessions and opens its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, AGENTS
from tests.live.asked import last_request
from tests.live.shell import Shell, tree_of
from tests.live.terminal import Terminal
from tests.support.sets import spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

FIRST = "Remember KIWI-42."
DRAWN_WITHIN_S = 90.0
PROMPTING = {
    "claude-code": ("claude", "-p", FIRST, "--output-format", "json"),
    "codex": ("codex", "exec", "--json", "--skip-git-repo-check", FIRST),
    "opencode": ("opencode", "run", "--format", "json", FIRST),
}
NAMES_SESSION = {"claude-code": "session_id", "codex": "thread_id", "opencode": "sessionID"}
OPENING = {
    "claude-code": ["claude", "--resume"],
    "codex": ["codex", "resume", "--no-daemon"],
    "opencode": ["opencode", "--session"],
}


@dataclass(frozen=True)
class Desk:
    """A person at one agent, upthread beside it."""

    name: str
    shell: Shell

    def begin_by_hand(self) -> str:
        """Make a session with one prompt, without upthread; returns its id."""
        member = NAMES_SESSION[self.name]
        lines = self.shell.run(*PROMPTING[self.name]).splitlines()
        return json.loads(next(line for line in lines if f'"{member}"' in line))[member]

    @contextmanager
    def terminal(self, *command: str) -> Iterator[Terminal]:
        """A terminal of a person who has answered the questions that the agent asks a newcomer."""
        project, home = self.shell.project, self.shell.home
        if self.name == "claude-code":
            path = home / ".claude.json"
            state = json.loads(path.read_text())
            # To greet a newcomer, Claude Code needs the network.
            state |= {"hasCompletedOnboarding": True, "theme": "dark"}
            state["customApiKeyResponses"] = {"approved": ["none"], "rejected": []}
            trust = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
            state["projects"] = {str(project): trust}
            path.write_text(json.dumps(state))
        elif self.name == "codex":
            with (home / ".codex" / "config.toml").open("a") as settings:
                settings.write(f'[projects."{project}"]\ntrust_level = "trusted"\n')
        with Terminal(command, environment=self.shell.environment, cwd=project) as terminal:
            yield terminal

    def assert_imported(self, session: str, model) -> None:
        """Import a session that a person began by hand, and continue in it."""
        assert self.shell.one("adopt", ADDRESS, session)["upstream_session_id"] == session
        told = self.shell.tell("What was it?")
        assert (told["decision"], told["upstream_session_id"]) == ("resume", session)
        assert told["outcome"] == "ok"
        shown = last_request(model)
        assert shown.index("KIWI-42") < shown.index("What was it?")


@pytest.fixture
def desk(name, shell) -> Desk:
    return Desk(name, shell)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_a_session_begun_by_hand_continues_and_opens_in_the_agents_own_command(name, desk, model):
    """The agent draws the session whole: the person's prompt, and upthread's."""
    session = desk.begin_by_hand()
    desk.assert_imported(session, model)
    with desk.terminal(*desk.shell.command("open", ADDRESS)) as terminal:
        terminal.wait_for("What was it?", within_s=DRAWN_WITHIN_S)
        assert "Remember KIWI-42." in terminal.text
        # A program is started by its whole path; the interpreter of a script stands before it.
        opened = [*OPENING[name], session]
        assert [Path(word).name for word in terminal.command][-len(opened) :] == opened
        if name != "opencode":  # which does not tell who has opened a session and waits
            shown = desk.shell.session()
            assert shown["open_in_pid"] in tree_of(terminal.pid)
            assert shown["resume_command"] is None
    assert desk.shell.session()["open_in_pid"] is None
    assert desk.shell.tell("And then?")["outcome"] == "ok", "no lease remains of the terminal"


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_the_title_of_a_session_of_ours_is_its_address(name, shell):
    session = shell.tell(FIRST)["upstream_session_id"]
    if name == "claude-code":
        (transcript,) = (shell.home / ".claude" / "projects").glob(f"*/{session}.jsonl")
        lines = [json.loads(line) for line in transcript.read_text().splitlines()]
        titles = [line["customTitle"] for line in lines if line["type"] == "custom-title"]
    elif name == "codex":
        index = (shell.home / ".codex" / "session_index.jsonl").read_text().splitlines()
        names = [json.loads(line) for line in index]
        titles = [line["thread_name"] for line in names if line["id"] == session]
    else:
        listed = json.loads(shell.run("opencode", "session", "list", "--format", "json"))
        titles = [each["title"] for each in listed if each["id"] == session]
    assert titles[-1] == ADDRESS
