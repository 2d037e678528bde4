"""The real agents with upthread set up in them, each in a project of its own.

`run` plays one main session from start to end. `delegate` makes the step by which a main session
gives a prompt to the sub-agent `planner`, and `continue_` the step that goes on in a session.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from tests.live import claude_code, codex, opencode
from tests.live.acp_process import AcpProcess
from tests.live.agents import CLAUDE_CODE, CODEX, OPENCODE, RealAgent, make_repository
from tests.live.asked import session_of
from tests.live.shell import wait_until

from upthread.testing.rehearsal_model import RehearsalModel
from upthread.testing.rehearsal_model.protocol import Reply
from upthread.testing.rehearsal_model.script import parse_script

TIMEOUT_S = 240
IN_BACKGROUND = {"OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS": "true"}


@dataclass(frozen=True)
class Ran:
    """One main session: its id, upthread's lines for the person, the requests, all it printed."""

    session: str
    lines: tuple[str, ...]
    requests: tuple[Any, ...]
    by_children: list[str]
    by_main: list[str]
    written: str


class SetUp:
    """A repository, and the environment that both the agent and upthread run in there."""

    agent: ClassVar[RealAgent]
    last = ""  # the main session that ran last

    def __init__(
        self, binary: Path, model: RehearsalModel, directory: Path, *, python: str = sys.executable
    ) -> None:
        self.binary = binary
        self.running: list[subprocess.Popen[bytes]] = []
        self.left_open = ExitStack()
        self.model = model
        self.home, self.own = directory / "home", directory / "upthread"
        self.project = directory / "project"
        self.program = [python, "-m", "upthread"]
        on_path = directory / "bin"
        on_path.mkdir(parents=True)
        (on_path / self.agent.program).symlink_to(binary)
        self.environment = self.make_environment()
        self.environment["PATH"] = f"{on_path}:{self.environment['PATH']}"
        self.environment["UPTHREAD_HOME"] = str(self.own)
        make_repository(self.project)
        self.write_role()
        self.upthread("setup", self.agent.program, "--yes")

    def make_environment(self) -> dict[str, str]:
        return self.agent.environment(self.home, self.model)

    def write_role(self) -> None:
        """Write the role `planner` where the agent looks for roles."""

    def command(self, prompt: str) -> list[str]:
        """Return the command of a main session that is given one prompt."""
        raise NotImplementedError

    def run(self, prompt: str) -> Ran:
        raise NotImplementedError

    def continue_main(self, step: str) -> Ran:
        """Prompt the main session that ran last again, in a new process of the agent."""
        raise NotImplementedError

    def reading(self, path: Path) -> str:
        """Return the step that reads a file."""
        return self.shell(f"cat {path}")

    def shell(self, line: str) -> str:
        """Return the step that runs a shell line."""
        raise NotImplementedError

    def play(self, prompt: str, directory: Path) -> None:
        """Run a main session in a directory where it may well fail, and must not hang."""
        self.start(prompt, directory).wait(timeout=TIMEOUT_S)

    def kill_when(self, prompt: str, wait: Callable[[], None]) -> None:
        """Start a main session, and kill its process group once `wait` returns."""
        self.stop_when(prompt, wait, signal.SIGKILL)

    def stop_when(self, prompt: str, wait: Callable[[], None], number: signal.Signals) -> None:
        """Start a main session, and send its process group a signal once `wait` returns."""
        stop_when(self.start(prompt), wait, number)

    def start_in_background(self, prompt: str) -> None:
        """Start a main session whose planner works in the background, and leave it at work."""
        self.start(f"Go.\n\n{self.delegate(prompt)}")

    def run_both(self, prompt: str) -> None:
        """Run a main session whose model asks for two planners in one answer."""
        self.ask_for_both(self.delegate(prompt))
        self.run("Go.\n\n[[SAY both]] [[SAY done]]")

    def ask_for_both(self, step: str) -> None:
        """Let the model answer the next request with a call that it makes twice."""
        (answer,) = parse_script(step)
        assert isinstance(answer, Reply)
        self.model._engine.answer_next(Reply(calls=answer.calls * 2))

    def start(self, prompt: str, directory: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a main session in a process group of its own."""
        return self.started(self.command(prompt), directory)

    def started(self, command: list[str], directory: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own."""
        process = subprocess.Popen(
            command,
            cwd=directory or self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def output_of(self, command: list[str], environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=environment or self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def upthread(self, *words: str) -> Any:
        return json.loads(self.output_of([*self.program, *words, "--json"]))

    def use(self, workstream: str) -> None:
        self.used = workstream
        self.upthread("use", workstream)

    def conversation(self, address: str, *, turns: int) -> Any:
        """Wait until a conversation has so many turns in the store; returns its status."""

        def status() -> Any:
            listed = self.upthread("ls")["workstreams"]
            roles = [role for each in listed for role in each["roles"]]
            return next((r for r in roles if r["address"] == address and r["turns"] >= turns), None)

        return wait_until(status, f"{turns} turns of {address}", every_s=0.2)

    def planner(self, workstream: str, *, turns: int) -> Any:
        """Wait until the planner of a workstream has so many turns; returns its status."""
        return self.conversation(f"{workstream}/planner", turns=turns)


def waiting_for(played: SetUp, word: str) -> Callable[[], None]:
    """Return what waits until a model is asked something with a word, for the first time now."""
    before = len(played.model.model_requests)

    def wait() -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while not any(
            word in json.dumps(each.body) and each.status is None
            for each in list(played.model.model_requests)[before:]
        ):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        time.sleep(1.0)

    return wait


def stop_when(
    running: subprocess.Popen[bytes], wait: Callable[[], None], number: signal.Signals
) -> None:
    """Send a process group a signal once `wait` returns, and wait for its end."""
    try:
        wait()
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        raise
    os.killpg(running.pid, number)
    running.wait(timeout=TIMEOUT_S)


class HookedClaude(SetUp):
    """Claude Code with the hooks, as `upthread setup` installs them."""

    agent = CLAUDE_CODE
    SETTINGS = '{\n    "env": {"A": "é"},\n\n    "hooks": {"Stop": [{"hooks": []}]} }'
    """A user's own, in a form nobody would write by program."""

    def make_environment(self) -> dict[str, str]:
        waits = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "ENABLE_TOOL_SEARCH": "false"}
        return {**super().make_environment(), **waits}

    def write_role(self) -> None:
        role = "---\nname: planner\ndescription: plans\n---\nYou are the planner.\n"
        for place in (self.project, self.home):
            agents = place / ".claude" / "agents"
            agents.mkdir(parents=True)
            (agents / "planner.md").write_text(role)
        self.settings = self.home / ".claude" / "settings.json"
        self.settings.write_text(self.SETTINGS)

    def command(self, prompt: str, *more: str) -> list[str]:
        options = ["--output-format", "stream-json", "--verbose", "--include-hook-events"]
        allowed = ["--allowedTools", "Read", "Write", "Bash", "Agent", "SendMessage", "ToolSearch"]
        return [str(self.binary), "-p", prompt, *options, *allowed, *more]

    def run(self, prompt: str, *more: str) -> Ran:
        before = len(self.model.model_requests)
        written = self.output_of(self.command(prompt, *more))
        events = [json.loads(line) for line in written.splitlines()]
        hooks = [event for event in events if event.get("subtype") == "hook_response"]
        assert all(event["exit_code"] == 0 for event in hooks)
        told = [json.loads(event["stdout"]) for event in hooks if event["stdout"]]
        requests = self.model.model_requests[before:]
        bodies: dict[bool, list[str]] = {True: [], False: []}
        for each in requests:
            is_child = bool(each.headers.get("x-claude-code-agent-id"))
            bodies[is_child].append(json.dumps(each.body["messages"]))
        self.last = str(events[-1]["session_id"])
        return Ran(
            session=self.last,
            lines=tuple(each["systemMessage"] for each in told if "systemMessage" in each),
            requests=tuple(requests),
            by_children=bodies[True],
            by_main=bodies[False],
            written=written,
        )

    def continue_main(self, step: str) -> Ran:
        return self.run(f"Go on.\n\n{step}", "--resume", self.last)

    def reading(self, path: Path) -> str:
        return claude_code.call("Read", file_path=str(path))

    def shell(self, line: str) -> str:
        return claude_code.command(line)

    def delegate(self, prompt: str, role: str = "planner") -> str:
        return claude_code.call("Agent", description="plan", prompt=prompt, subagent_type=role)

    def start_in_background(self, prompt: str) -> None:
        waits = self.environment.pop("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS")
        super().start_in_background(prompt)
        self.environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = waits

    def continue_(self, child: str, message: str) -> str:
        return claude_code.call("SendMessage", to=child, summary="go on", message=message)


class HookedCodex(SetUp):
    """Codex with the hooks, as `upthread setup` installs them."""

    agent = CODEX
    HOOKS = '{\n    "hooks": {"Stop": [{"hooks": []}]} }'
    """A user's own, in a form nobody would write by program."""
    TRUSTED = "--dangerously-bypass-hook-trust"
    """Stands for a person who has reviewed the hooks: Codex needs a terminal for anything else."""

    def write_role(self) -> None:
        role = 'name = "planner"\ndescription = "plans"\ndeveloper_instructions = "You plan."\n'
        for place in (self.project, self.home):
            agents = place / ".codex" / "agents"
            agents.mkdir(parents=True)
            (agents / "planner.toml").write_text(role)
        self.hooks = self.home / ".codex" / "hooks.json"
        self.hooks.write_text(self.HOOKS)

    def command(self, prompt: str, *more: str, is_trusted: bool = True) -> list[str]:
        trusted = [self.TRUSTED] if is_trusted else []
        options = ["--json", "--skip-git-repo-check", *trusted]
        return [str(self.binary), "exec", *options, *more, prompt]

    def run(self, prompt: str, *more: str, is_trusted: bool = True) -> Ran:
        before = len(self.model.model_requests)
        written = self.output_of(self.command(prompt, *more, is_trusted=is_trusted))
        events = [json.loads(line) for line in written.splitlines()]
        (session,) = (each["thread_id"] for each in events if each["type"] == "thread.started")
        self.last = session
        requests = self.model.model_requests[before:]
        bodies: dict[bool, list[str]] = {True: [], False: []}
        for each in requests:
            bodies[session_of(each) != session].append(json.dumps(each.body["input"]))
        return Ran(session, (), tuple(requests), bodies[True], bodies[False], written)

    def continue_main(self, step: str) -> Ran:
        return self.run(f"Go on.\n\n{step}", "resume", self.last)

    def delegate(self, prompt: str, role: str = "planner") -> str:
        """Spawn, and wait for the sub-agent: the end of its main session would end it."""
        return f"{self.spawn(prompt, role)} {self.wait_for_children()}"

    def run_both(self, prompt: str) -> None:
        self.ask_for_both(self.spawn(prompt))
        self.run(f"Go.\n\n[[SAY both]] {self.wait_for_children(2)}")

    def shell(self, line: str) -> str:
        return codex.command(line)

    @staticmethod
    def spawn(prompt: str, role: str = "planner") -> str:
        return codex.call("spawn_agent", message=prompt, agent_type=role)

    def continue_(self, child: str, message: str) -> str:
        opened = codex.call("resume_agent", id=child)
        sent = codex.call("send_input", target=child, message=message)
        return f"{opened} {sent} {self.wait_for_children()}"

    def wait_for_children(self, number: int = 1) -> str:
        """Return the step that waits until more turns of threads have ended, one or `number`."""
        sessions = self.home / ".codex" / "sessions"
        ended = f"$(grep -rho '\"task_complete\"' {sessions} | wc -l)"
        count = sum(path.read_text().count('"task_complete"') for path in self.rollouts())
        return self.wait_until(f"test {ended} -ge {count + number}")

    def rollouts(self) -> list[Path]:
        return codex.rollouts(self.home)

    @staticmethod
    def wait_until(condition: str) -> str:
        """Return the step that waits until a shell condition holds, as long as Codex ever waits."""
        return codex.command(f"until {condition}; do sleep 0.1; done")


class PluggedOpenCode(SetUp):
    """OpenCode with the plug-in, as `upthread setup` installs it."""

    agent = OPENCODE

    def make_environment(self) -> dict[str, str]:
        roles: dict[str, dict[str, Any]] = {
            role: {"mode": "subagent", "description": role, "prompt": f"You are the {role}."}
            for role in ("planner", "validator")
        }
        roles["planner"]["tools"] = {"webfetch": False, "task": True}
        return opencode.opencode_environment(self.home, self.model, more_config={"agent": roles})

    def run(self, prompt: str, session: str = "") -> Ran:
        before = len(self.model.model_requests)
        with self.acp() as agent:
            if session:
                agent.call("session/load", sessionId=session, cwd=str(self.project), mcpServers=[])
            session = self.last = session or self.main_session(agent)
            agent.prompt(session, prompt)
        requests = self.model.model_requests[before:]
        bodies: dict[bool, list[str]] = {True: [], False: []}
        for each in requests:
            bodies[each.session_id != session].append(json.dumps(each.body["messages"]))
        return Ran(session, (), tuple(requests), bodies[True], bodies[False], "")

    def continue_main(self, step: str) -> Ran:
        return self.run(f"Go on.\n\n{step}", self.last)

    def play(self, prompt: str, directory: Path) -> None:
        with self.acp(directory) as agent:
            made = agent.call("session/new", cwd=str(directory), mcpServers=[])
            if "result" in made:
                agent.prompt(made["result"]["sessionId"], prompt)

    def stop_when(self, prompt: str, wait: Callable[[], None], number: signal.Signals) -> None:
        """Cancel a prompt over ACP for SIGINT, as OpenCode's own interface does; else as above."""
        with self.acp() as agent:
            main = self.main_session(agent)
            asked = agent.start_prompt(main, prompt)
            wait()
            if number == signal.SIGKILL:
                agent.kill()
            else:
                agent.notify("session/cancel", sessionId=main)
                agent.answer_to(asked)
                time.sleep(5)  # the plug-in's own process is not waited for

    def start_in_background(self, prompt: str) -> None:
        """On a server, because over ACP no child works in the background."""
        call = self.delegate(prompt, background=True)
        sent = {"parts": [{"type": "text", "text": f"Go.\n\n{call} [[SAY launched]]"}]}
        ask = self.left_open.enter_context(self.serving(IN_BACKGROUND))
        ask(f"session/{ask('session', {})['id']}/message", sent)

    def acp(self, directory: Path | None = None) -> AcpProcess:
        command = [str(self.binary), "acp"]
        where = directory or self.project
        return AcpProcess(command, environment=self.environment, cwd=where)

    def main_session(self, agent: AcpProcess) -> str:
        made = agent.call("session/new", cwd=str(self.project), mcpServers=[])
        return made["result"]["sessionId"]

    @contextmanager
    def serving(self, environment: dict[str, str]) -> Iterator[Callable[[str, Any], Any]]:
        """Yield how to post to a server of OpenCode's: a path, and what is sent as JSON."""
        server = subprocess.Popen(
            [str(self.binary), "serve", "--hostname", "127.0.0.1", "--port", "0"],
            env=self.environment | environment,
            cwd=self.project,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout
        try:
            lines = iter(server.stdout.readline, "")
            url = next(line.split()[-1] for line in lines if "http://" in line)
            yield lambda path, body: _post(f"{url}/{path}", body)
        finally:
            server.terminate()
            server.communicate(timeout=TIMEOUT_S)

    def reading(self, path: Path) -> str:
        return opencode.call("read", filePath=str(path))

    def shell(self, line: str) -> str:
        return opencode.call("bash", command=line, description="run it")

    def delegate(self, prompt: str, role: str = "planner", **named: object) -> str:
        arguments = {"description": "work", "prompt": prompt, "subagent_type": role, **named}
        return opencode.call("task", **arguments)

    def continue_(self, _child: str, message: str) -> str:
        return self.delegate(message)

    def requests_of(self, session: str) -> list[Any]:
        return [each for each in list(self.model.model_requests) if each.session_id == session]


def _post(url: str, body: Any) -> Any:
    sent = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(sent, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


TITLES = {
    "codex": ("state_*.sqlite", "SELECT coalesce(nullif(name, ''), title) FROM threads"),
    "opencode": ("opencode.db", "SELECT title FROM session"),
}


def titles(played: SetUp) -> list[str]:
    """Return the titles of all sessions in the agent's own store."""
    if played.agent is CLAUDE_CODE:
        kept = "".join(each.read_text() for each in played.home.rglob("*.json*"))
        return re.findall(r'"(?:customTitle|aiTitle|summary|description)":"([^"]+)', kept)
    name, statement = TITLES[played.agent.name]
    (file,) = played.home.rglob(name)
    with closing(sqlite3.connect(file)) as database:
        return [title for (title,) in database.execute(statement)]


SET_UPS: dict[str, type[SetUp]] = {
    each.agent.name: each for each in (HookedClaude, HookedCodex, PluggedOpenCode)
}
