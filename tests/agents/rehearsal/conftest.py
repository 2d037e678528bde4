"""A client for the tests: the real agent as a child process, spoken to over its pipes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from upthread.core.events import (
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upthread.core.roles.reports import Report, read_report
from upthread.core.runs import pipeline
from upthread.core.types import Outcome

ANSWER_TIMEOUT_S = 20.0
REPOSITORY = Path(__file__).parents[3]
SOURCE = str(REPOSITORY / "src")
DEFAULTS = REPOSITORY / "src" / "upthread" / "defaults" / "upthread.toml"

Json = dict[str, Any]


class AgentError(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(str(error))
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


class AgentGoneError(Exception):
    """The agent closed its end."""


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
        # -P as -I would have it; PYTHONPATH is how a worktree's own source is found.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "upthread.agents.rehearsal"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "PYTHONPATH": SOURCE,
                "UPTHREAD_REHEARSAL_HOME": str(home / "sessions"),
                "UPTHREAD_REHEARSAL_LOG": str(home / "log.jsonl"),
                **environment,
            },
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

    def take(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Json | None:
        """Read one frame, keep what it is, return it; None for a line that is no frame."""
        line = self._frames.get(timeout=timeout_s)
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
        while request_id not in self._answers:
            self.take()
        frame = self._answers.pop(request_id)
        if "error" in frame:
            raise AgentError(frame["error"])
        return frame["result"]

    def request(self, method: str, **params: Any) -> Json:
        return self.answer(self.send(method, params))

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

    def wait_for(self, is_wanted: Callable[[Json], bool]) -> Json:
        """Read until an update comes that is wanted; return it."""
        while True:
            for params in self.updates:
                if is_wanted(params["update"]):
                    return params["update"]
            self.take()

    @property
    def reply(self) -> str:
        return text_of(self.updates)

    def of_kind(self, kind: str) -> list[Json]:
        found = [params["update"] for params in self.updates]
        return [update for update in found if update["sessionUpdate"] == kind]

    def wait_until_gone(self) -> int:
        try:
            while True:
                self.take()
        except AgentGoneError:
            return self.process.wait(timeout=ANSWER_TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def text_of(updates: list[Json], kind: str = "agent_message_chunk") -> str:
    return "".join(
        params["update"]["content"]["text"]
        for params in updates
        if params["update"]["sessionUpdate"] == kind
    )


Start = Callable[..., RehearsalProcess]


class Passage:
    """The shipped pipeline over the agent, which is killed after each step: only its sessions last.

    `history` is (role, report) in the order they were handed in. `is_continuous` False gives each
    step a new session, as agents do by themselves.
    """

    def __init__(
        self,
        start: Start,
        *,
        cwd: Path,
        answers: Mapping[str, str],
        is_continuous: bool = True,
    ) -> None:
        self._start = start
        self._cwd = cwd
        self._answers = answers
        self._is_continuous = is_continuous
        self.sessions: dict[str, str] = {}
        self.history: list[tuple[str, Report]] = []
        self.asked: Counter[str] = Counter()
        shipped = tomllib.loads(DEFAULTS.read_text(encoding="utf-8"))["pipeline"]
        self.events: list[RunEvent] = [
            RunStarted(
                specification=(cwd / "spec.md").read_text(encoding="utf-8"), pipeline=shipped
            )
        ]

    def run(self) -> RunEnded | RunParked:
        while True:
            command = pipeline.next_command(pipeline.fold(self.events))
            match command:
                case pipeline.RunStep():
                    self._step(command)
                case pipeline.AskHuman(questions=questions, role=role):
                    self.events.append(QuestionsAsked(role=role, questions=questions))
                    for question in questions:
                        answer = self._answers[question.question_id]
                        self.events.append(
                            QuestionAnswered(question_id=question.question_id, text=answer)
                        )
                case pipeline.Finish(status=status, evidence=evidence):
                    return RunEnded(status=status, evidence=evidence)
                case pipeline.Park(reason=reason, detail=detail, role=role):
                    return RunParked(reason=reason, detail=detail, role=role)
                case _:
                    raise AssertionError(command)

    def of(self, role: str) -> list[Report]:
        return [report for name, report in self.history if name == role]

    def _step(self, command: pipeline.RunStep) -> None:
        role = command.step.role
        turn_id = f"trn_{len(self.events)}"
        self.events.append(StepStarted(role=role, turn_id=turn_id))
        report = read_report(self._ask(role, command))
        self.history.append((role, report))
        self.asked.update(question.text for question in report.questions)
        self.events.append(
            StepEnded(
                role=role,
                turn_id=turn_id,
                outcome=Outcome.OK,
                report=msgspec.to_builtins(report),
                input_digest=command.input_digest,
            )
        )

    def _ask(self, role: str, command: pipeline.RunStep) -> str:
        agent = self._start(cwd=self._cwd)
        task = command.task
        if self._is_continuous and role in self.sessions:
            session_id = self.sessions[role]
            agent.attach("resume", session_id)
            context = task.news
        else:
            session_id = self.sessions[role] = agent.new()
            context = f'<role name="{role}">\nYou are the {role}.\n</role>\n\n{task.everything}'
        assert agent.prompt(session_id, f"{context}\n\n{task.text}") == "end_turn"
        agent.kill()
        return str(agent.reply)


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
        for stream in (agent.process.stdout, agent.process.stderr):
            assert stream is not None
            stream.close()


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


@pytest.fixture
def begin_passage(start: Start) -> Callable[..., Passage]:
    def begin(cwd: Path, *, answers: Mapping[str, str], is_continuous: bool = True) -> Passage:
        return Passage(start, cwd=cwd, answers=answers, is_continuous=is_continuous)

    return begin
