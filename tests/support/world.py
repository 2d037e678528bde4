"""A world for one test: a project in a repository, a home, the rehearsal agent's sessions and log.

Everything is real and lies in the test's own directory; the log counts what the agent received.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import apsw
from tests.support import trusting
from tests.support.upthread_process import CONTEXT, QUICK, WAIT_S, AtCommit, Json, Order, main

import upthread
from upthread.agents._guard import MARK_VARIABLE, marked_processes
from upthread.core.types import Conversation, ConversationId, Message
from upthread.runtime.lease import LeaseTimes
from upthread.store.sqlite import SqliteStore

REPOSITORY = Path(__file__).parents[2]
GREETER = REPOSITORY / "examples" / "greeter"
Value = TypeVar("Value")

ALLOW = '[permissions]\nedit = "allow"\nexecute = "allow"\n'

SMALL_PIPELINE = """\
[[pipeline.steps]]
role = "planner"
task = "Plan it."

[[pipeline.steps]]
role = "constructor"
needs = ["planner"]
task = "Build it."

[[pipeline.steps]]
role = "validator"
needs = ["constructor"]
on_rejected = "constructor"
task = "Check it."
"""

SMALL_SPECIFICATION = """\
# A file that says hello
## Requirements
- R1 `hello.txt`: it says hello.
  ```
  hello
  ```
"""

REPORT = '```upthread\n{"status": "done", "summary": "did it"}\n```'
SAY_REPORT = f"[[rehearse: say {REPORT}]]"


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repository(directory: Path, *, content: str = "") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "README").write_text(content or directory.name)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", f"begin {content or directory.name}")
    return directory


def eventually(look: Callable[[], Value], *, within_s: float = WAIT_S) -> Value:
    """Return the first thing seen that is true; AssertionError when none comes in time."""
    until = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < until, f"it did not come to pass within {within_s} s"
        time.sleep(0.01)


class UpthreadProcess:
    """A process that was started; `result` and `exit_code` wait for its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._process = CONTEXT.Process(target=main, args=(order,))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int:
        self._process.join(WAIT_S)
        assert self._process.exitcode is not None, f"{self._order.job} does not end: {self.stderr}"
        return self._process.exitcode

    @property
    def result(self) -> Json:
        code = self.exit_code
        path = Path(self._order.result)
        assert path.exists(), f"{self._order.job} ended with {code}: {self.stderr}"
        done: Json = json.loads(path.read_text())
        return done

    @property
    def stderr(self) -> str:
        path = Path(f"{self._order.result}.stderr")
        return path.read_text() if path.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process.exitcode is None

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def send(self, signal_number: int) -> None:
        os.kill(self.pid, signal_number)

    def interrupt(self) -> None:
        """Press Ctrl-C: the process ends by itself, as interrupted."""
        self.send(signal.SIGINT)
        assert self.exit_code == 130, self.stderr

    def kill(self) -> None:
        """Kill the process, which has not ended by itself."""
        self.send(signal.SIGKILL)
        assert self.exit_code == -signal.SIGKILL

    def close(self) -> None:
        if self.is_running:
            self.send(signal.SIGKILL)
        self._process.join()
        self._process.close()


class World:
    """One project and all that is known of it."""

    def __init__(self, directory: Path, *, content: str = "") -> None:
        self.directory = directory
        self.mark = secrets.token_hex(8)
        # Two of the same content, made in the same second, are one project: the commit is the same.
        self.project = make_repository(directory / "project", content=content)
        self.home = directory / "home"
        self.sessions = directory / "sessions"
        self.log_path = directory / "log.jsonl"
        self.environment = {
            **os.environ,
            "UPTHREAD_HOME": str(self.home),
            "UPTHREAD_REHEARSAL_HOME": str(self.sessions),
            "UPTHREAD_REHEARSAL_LOG": str(self.log_path),
            MARK_VARIABLE: self.mark,
        }
        self.environment.pop("UPTHREAD_CALLERS", None)
        self.environment.pop("UPTHREAD_DB", None)
        self._numbers = count(1)
        self._started: list[UpthreadProcess] = []

    def configure(self, text: str) -> None:
        """Write the project's configuration; its person agrees to it."""
        trusting.configure(self.project, self.home, text)

    def take_example(self) -> str:
        """Put the greeter in place of the project; return its specification."""
        shutil.copytree(GREETER, self.project, dirs_exist_ok=True)
        self.configure(ALLOW)
        return (self.project / "spec.md").read_text()

    def open(
        self, directory: Path | None = None, **more: Any
    ) -> AbstractAsyncContextManager[upthread.Project]:
        environment = {**self.environment, **more.pop("environment", {})}
        chosen = {"lease_times": QUICK, **more}
        return upthread.open_project(directory or self.project, environment=environment, **chosen)

    def start(
        self,
        job: str,
        *arguments: Any,
        at_commit: AtCommit | None = None,
        lease_times: LeaseTimes | None = QUICK,
        environment: dict[str, str] | None = None,
        clock_ahead_ms: int = 0,
        **options: Any,
    ) -> UpthreadProcess:
        order = Order(
            job=job,
            arguments=arguments,
            options=options,
            directory=str(self.project),
            environment={**self.environment, **(environment or {})},
            result=str(self.directory / f"result-{next(self._numbers)}.json"),
            at_commit=at_commit,
            lease_times=lease_times,
            clock_ahead_ms=clock_ahead_ms,
        )
        process = UpthreadProcess(order)
        self._started.append(process)
        return process

    # --- what the agent received -----------------------------------------------------------------

    def log(self, event: str | None = None) -> list[Json]:
        lines = self.log_path.read_text().splitlines() if self.log_path.exists() else []
        events: list[Json] = [json.loads(line) for line in lines]
        return [each for each in events if event in {None, each["event"]}]

    def prompts(self) -> list[str]:
        return [each["text"] for each in self.log("prompt")]

    def session_files(self) -> list[Path]:
        return sorted(self.sessions.glob("ses_*.jsonl")) if self.sessions.exists() else []

    # --- what upthread keeps ---------------------------------------------------------------------

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        store = SqliteStore(self.home / "upthread.db")
        try:
            yield store
        finally:
            store.close()

    def conversations(self) -> list[Conversation]:
        with self.store() as store:
            found = [store.conversation(each) for each in self._conversation_ids()]
            return [each for each in found if each is not None]

    def _conversation_ids(self) -> list[ConversationId]:
        database = apsw.Connection(str(self.home / "upthread.db"))
        try:
            rows = database.execute("SELECT name FROM head WHERE kind = 'conversation' ORDER BY id")
            return [ConversationId(str(row[0])) for row in rows]
        finally:
            database.close()

    def messages(self, address: str) -> tuple[Message, ...]:
        owner = next(each for each in self.conversations() if each.key.address == address)
        with self.store() as store:
            return store.messages(owner.conversation_id)

    def check_histories(self) -> None:
        """Every conversation is whole: no gap, the chain verifies, no call is told twice."""
        with self.store() as store:
            for conversation_id in self._conversation_ids():
                assert store.verify(conversation_id) is None
                messages = store.messages(conversation_id)
                assert [each.seq for each in messages] == list(range(1, len(messages) + 1))
                _check_calls(messages)

    # --- the end ---------------------------------------------------------------------------------

    def agents(self) -> tuple[int, ...]:
        """The processes of agents that are running now."""
        return marked_processes(self.mark)

    def close(self) -> None:
        for process in self._started:
            process.close()
        eventually(lambda: not self.agents())


def _check_calls(messages: tuple[Message, ...]) -> None:
    parts = [part for message in messages for part in message.parts]
    calls = [part.call_id for part in parts if type(part).__name__ == "ToolCallPart"]
    results = [part.call_id for part in parts if type(part).__name__ == "ToolResultPart"]
    assert len(calls) == len(set(calls)), "a call is recorded twice"
    assert len(results) == len(set(results)), "a result is recorded twice"
    assert set(results) <= set(calls), "a result has no call"
