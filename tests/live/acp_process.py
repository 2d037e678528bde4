"""An ACP agent as a real process, driven by raw JSON-RPC lines: no client library in between."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.live.shell import kill_all, tree_of, wait_until

POLL_S = 0.02


class AcpProcess:
    """One agent process in a group of its own.

    `announced` is what its client can do, `frames` all it sent, in order. Permission requests are
    answered with `permission_option`, any other request with "method not found".
    """

    def __init__(
        self,
        command: list[str],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        announced: Mapping[str, Any] | None = None,
    ) -> None:
        self.frames: list[dict[str, Any]] = []
        self.permission_option = "once"
        self._next_id = 0
        self._stderr = (cwd / "agent.stderr").open("ab")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.initialized = self.call(
            "initialize",
            protocolVersion=1,
            clientCapabilities=dict(announced or {}),
            clientInfo={"name": "upthread-tests", "version": "0"},
        )

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send a request and return its answer, with `result` or `error`."""
        return self.answer_to(self.send(method, **params))

    def send(self, method: str, **params: object) -> int:
        """Send a request and return its id."""
        self._next_id += 1
        self._write({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def notify(self, method: str, **params: object) -> None:
        self._write({"method": method, "params": params})

    def prompt(self, session_id: str, text: str) -> dict[str, Any]:
        return self.answer_to(self.start_prompt(session_id, text))

    def start_prompt(self, session_id: str, text: str) -> int:
        prompt = [{"type": "text", "text": text}]
        return self.send("session/prompt", sessionId=session_id, prompt=prompt)

    def answer_to(self, request_id: int) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            answers = (f for f in list(self.frames) if f.get("id") == request_id)
            return next((frame for frame in answers if "method" not in frame), None)

        return self.wait_for(found)

    def wait_for(self, find: Any) -> Any:
        """Return what `find` returns once it is truthy."""
        return wait_until(find, lambda: f"answer; frames: {self.frames[-5:]}", every_s=POLL_S)

    def updates(self, kind: str = "", *, since: int = 0) -> list[dict[str, Any]]:
        """The session updates, in order, of one kind or all, after the first `since` frames."""
        updates = [
            frame["params"]["update"]
            for frame in list(self.frames)[since:]
            if frame.get("method") == "session/update"
        ]
        return [update for update in updates if kind in {"", update["sessionUpdate"]}]

    def text(self, kind: str = "agent_message_chunk", *, since: int = 0) -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind, since=since))

    def requests(self, method: str) -> list[dict[str, Any]]:
        """What the agent asked of its client."""
        return [frame for frame in list(self.frames) if frame.get("method") == method]

    def kill(self) -> None:
        """End the agent as a crash would, and then what it had started: nothing may stay."""
        children = tree_of(self.process.pid) - {self.process.pid}
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        kill_all(children)
        self.release()

    def release(self) -> int:
        """Wait for the end and close the pipes; returns the exit code."""
        assert self.process.stdin
        assert self.process.stdout
        code = self.process.wait(timeout=30)
        self._reader.join(timeout=30)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self._stderr.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._stderr.closed:
            self.kill()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            frame = json.loads(line)
            self.frames.append(frame)
            if "method" in frame and "id" in frame:
                self._reply(frame)

    def _reply(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        if request["method"] == "session/request_permission":
            chosen = {"outcome": "selected", "optionId": self.permission_option}
            answer = {"result": {"outcome": chosen}}
        with contextlib.suppress(OSError, ValueError):  # it may be ending
            self._write({"id": request["id"], **answer})

    def _write(self, frame: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")
        self.process.stdin.flush()
