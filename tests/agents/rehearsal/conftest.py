"""A client for the tests: the real agent as a child process, spoken to over its pipes."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 30.0
"""How long the agent is waited for before a test fails."""

REPOSITORY = Path(__file__).parents[3]
COMMAND = (sys.executable, "-P", "-m", "upthread.agents.rehearsal")
"""Runs as -I would; PYTHONPATH is how the source of a worktree is found."""

NOTICE = "This is a rehearsal: no model is behind it.\n\n"

Json = dict[str, Any]


class AgentGoneError(Exception):
    """The agent closed its end."""


def rehearse(*directives: str) -> str:
    """Return a prompt that asks for directives."""
    return " ".join(f"[[rehearse: {directive}]]" for directive in directives)


def environment_of(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of an agent that keeps everything below a home."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY / "src"),
        "UPTHREAD_REHEARSAL_HOME": str(home / "sessions"),
        "UPTHREAD_REHEARSAL_LOG": str(home / "log.jsonl"),
        **more,
    }


class RehearsalProcess:
    """One agent process. `updates` are the session/update params received, in order."""

    def __init__(self, home: Path, cwd: Path, environment: dict[str, str]) -> None:
        self.cwd = cwd
        self.updates: list[Json] = []
        self.permissions: list[Json] = []
        self.garbage: list[bytes] = []
        self.permission_answer: str | None = "allow_once"
        self._frames: queue.Queue[bytes] = queue.Queue()
        self._next_id = 100
        self._answers: dict[int, Json] = {}
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment_of(home, **environment),
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._frames.put(line)
        self._frames.put(b"")

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Json) -> int:
        self._next_id += 1
        frame = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self.write(json.dumps(frame).encode())
        return self._next_id

    def notify(self, method: str, params: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def take(self) -> Json | None:
        """Read one frame, keep what it is, return it; None for a line that is no frame."""
        line = self._frames.get(timeout=PATIENCE_S)
        if not line:
            raise AgentGoneError
        try:
            frame: Json = json.loads(line)
        except ValueError:
            self.garbage.append(line)
            return None
        if frame.get("method") == "session/update":
            self.updates.append(frame["params"])
        elif frame.get("method") == "session/request_permission":
            self._answer_permission(frame)
        elif "method" not in frame:
            self._answers[frame["id"]] = frame
        return frame

    def _answer_permission(self, frame: Json) -> None:
        self.permissions.append(frame["params"])
        outcome = {"outcome": "cancelled"}
        if self.permission_answer:
            outcome = {"outcome": "selected", "optionId": self.permission_answer}
        answer = {"jsonrpc": "2.0", "id": frame["id"], "result": {"outcome": outcome}}
        self.write(json.dumps(answer).encode())

    def answer(self, request_id: int) -> Json:
        """Return the result of a request."""
        return self._answered(request_id)["result"]

    def refusal(self, request_id: int) -> Json:
        """Return the error that answers a request."""
        return self._answered(request_id)["error"]

    def _answered(self, request_id: int) -> Json:
        while request_id not in self._answers:
            self.take()
        return self._answers.pop(request_id)

    def request(self, method: str, **params: Any) -> Json:
        return self.answer(self.send(method, params))

    def refused(self, method: str, **params: Any) -> Json:
        return self.refusal(self.send(method, params))

    def new(self) -> str:
        return self.request("session/new", cwd=str(self.cwd), mcpServers=[])["sessionId"]

    def attach(self, verb: str, session_id: str) -> Json:
        return self.request(
            f"session/{verb}", sessionId=session_id, cwd=str(self.cwd), mcpServers=[]
        )

    def send_prompt(self, session_id: str, text: str) -> int:
        self.updates.clear()
        block = {"type": "text", "text": text}
        return self.send("session/prompt", {"sessionId": session_id, "prompt": [block]})

    def prompt(self, session_id: str, text: str) -> str:
        return self.answer(self.send_prompt(session_id, text))["stopReason"]

    def refused_prompt(self, session_id: str, text: str) -> Json:
        return self.refusal(self.send_prompt(session_id, text))

    def do(self, *directives: str) -> str:
        """Carry directives out in a new session; return the reply without its notice."""
        assert self.prompt(self.new(), rehearse(*directives)) == "end_turn"
        return self.reply.removeprefix(NOTICE)

    def wait_for(self, is_wanted: Callable[[Json], bool]) -> Json:
        """Read until a wanted update comes; return it."""
        while True:
            for params in self.updates:
                if is_wanted(params["update"]):
                    return params["update"]
            self.take()

    def begin(self, session_id: str, *directives: str) -> int:
        """Send a prompt of directives, and return its request once its first step was shown."""
        request_id = self.send_prompt(session_id, rehearse(*directives))
        self.wait_for(lambda update: update.get("status") != "pending")
        return request_id

    def cancel(self, session_id: str) -> None:
        self.notify("session/cancel", {"sessionId": session_id})

    @property
    def reply(self) -> str:
        said = self.of_kind("agent_message_chunk")
        return "".join(update["content"]["text"] for update in said)

    def of_kind(self, kind: str) -> list[Json]:
        found = [params["update"] for params in self.updates]
        return [update for update in found if update["sessionUpdate"] == kind]

    def wait_until_gone(self) -> int:
        with contextlib.suppress(AgentGoneError):
            while True:
                self.take()
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            try:
                self.process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise


Start = Callable[..., RehearsalProcess]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def greeter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REPOSITORY / "examples" / "greeter", tmp_path / "greeter"))


@pytest.fixture
def start(home: Path, project: Path) -> Iterator[Start]:
    started: list[RehearsalProcess] = []

    def begin(*, cwd: Path = project, **environment: str) -> RehearsalProcess:
        agent = RehearsalProcess(home, cwd, environment)
        started.append(agent)
        return agent

    yield begin
    for agent in started:
        agent.close()


@pytest.fixture
def agent(start: Start) -> RehearsalProcess:
    return start()


@pytest.fixture
def read_log(home: Path) -> Callable[[], list[Json]]:
    def read() -> list[Json]:
        path = home / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    return read
