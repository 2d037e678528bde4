"""A turn: one prompt and what the agent does about it, told to the client and kept as it happens.

It carries things out and decides nothing; `methods` and `roles` decide. Whatever is told is first
written to the session, so history never knows less than the client. Every step looks first whether
the turn was cancelled.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from upthread.agents.rehearsal.history import History
from upthread.agents.rehearsal.protocol import POLL_S, Connection, Json, RpcError
from upthread.agents.rehearsal.sessions import UNASKED, EventLog, SessionStore, Settings, size_of

if TYPE_CHECKING:
    import subprocess


NOTICE = "This is a rehearsal: no model is behind it.\n\n"

_PERMISSION_OPTIONS = (
    {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
)


class TurnCancelledError(Exception):
    """The client cancelled the turn, or dismissed a permission request."""


class TurnStopped(Exception):  # noqa: N818  an end, not an error
    """The turn ends here with a stop reason."""

    def __init__(self, stop_reason: str) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason


class Agent(NamedTuple):
    """What all turns of this process share."""

    store: SessionStore
    connection: Connection
    log: EventLog
    settings: Settings


class Turn:
    """A running prompt in one session."""

    def __init__(self, agent: Agent, *, session_id: str, cwd: str, text: str) -> None:
        self.agent = agent
        self.session_id = session_id
        self.cwd = Path(cwd)
        self.text = text
        self.cancelled = threading.Event()
        self.afterwards: list[Callable[[], None]] = []
        self.said = ""
        self.usage: Json | None = None
        self._message_id = _new_id("msg")
        # Before anything is done: a process that is killed leaves the prompt in its history.
        agent.store.append(
            session_id, {"entry": "prompt", "text": text, "messageId": _new_id("msg")}
        )
        self.history = History(agent.store.read(session_id))
        self.role = self.history.role
        self.children_called = self.history.calls_of_children
        self._has_spoken = self.history.has_spoken
        self.log("prompt", bytes=size_of(text), text=text)

    def log(self, event: str, **details: object) -> None:
        """Write to the event log."""
        self.agent.log.write(event, session_id=self.session_id, role=self.role, **details)

    def stop_if_cancelled(self) -> None:
        """Raise TurnCancelledError once the client has cancelled."""
        if self.cancelled.is_set():
            raise TurnCancelledError

    def wait(self, seconds: float | None) -> None:
        """Sleep, for ever with None; a cancel ends it by raising TurnCancelledError."""
        self.cancelled.wait(seconds)
        self.stop_if_cancelled()

    def say(self, text: str) -> None:
        """Add to the reply. The first words of a session say that it is a rehearsal."""
        if not self._has_spoken:
            self._has_spoken = True
            self._chunk(NOTICE)
        self._chunk(text)

    def think(self, text: str) -> None:
        """Show a piece of reasoning."""
        self.tell(_text_update("agent_thought_chunk", text, message_id=self._message_id))

    def tell(self, update: Json) -> None:
        """Keep an update in the history, then send it; TurnCancelledError after a cancel."""
        self.stop_if_cancelled()
        self.keep(update)

    def keep(self, update: Json) -> None:
        """Keep an update in the history, then send it, also after a cancel."""
        self.agent.store.append(self.session_id, {"entry": "update", "update": update})
        self.send(update, session_id=self.session_id)

    def send(self, update: Json, *, session_id: str | None) -> None:
        """Send an update that is no part of this session's history; None leaves the id out."""
        stamp: Json = {} if session_id is None else {"sessionId": session_id}
        self.agent.connection.notify("session/update", {**stamp, "update": update})

    def begin_call(
        self, title: str, *, kind: str, raw_input: Json, path: Path | None = None
    ) -> ToolCall:
        """Announce a tool call, pending, after the pace that was asked for."""
        if self.agent.settings.pace_s:
            self.wait(self.agent.settings.pace_s)
        announced: Json = {
            "toolCallId": _new_id("call"),
            "title": title,
            "kind": kind,
            "status": "pending",
            "locations": [] if path is None else [{"path": str(path)}],
            "rawInput": raw_input,
        }
        self.tell({"sessionUpdate": "tool_call", **announced})
        return ToolCall(self, announced)

    def end(self, **how: object) -> None:
        """Write how the turn ended. A session that was deleted meanwhile has no end."""
        self.agent.store.append(self.session_id, {"entry": "turn_ended", **how})

    def _chunk(self, text: str) -> None:
        self.tell(text_chunk(text, message_id=self._message_id))
        self.said += text


class ToolCall:
    """A tool call that was announced: `begin` or `ask_and_begin` it, then `end` it."""

    def __init__(self, turn: Turn, announced: Json) -> None:
        self._turn = turn
        self._announced = announced

    def begin(self) -> None:
        """Say that the call runs now."""
        self._turn.tell(self._update(status="in_progress"))

    def ask_and_begin(self) -> bool:
        """Ask for permission and begin; False, and the call has failed, when it is refused.

        An agent that asks nobody begins.
        """
        if UNASKED in self._turn.agent.settings.words:
            self.begin()
            return True
        try:
            answer = self._answer()
        except TurnCancelledError:
            self.end("failed", text="cancelled while permission was asked")
            raise
        self._turn.log("permission", title=self._announced["title"], answer=answer)
        if answer == "allow_once":
            self.begin()
            return True
        self.end("failed", text=f"permission was not given: {answer}")
        return False

    def end(self, status: str, *, text: str, **fields: object) -> None:
        """Tell how the call ended; told even when the turn is cancelled, since it is true."""
        content = fields.pop("content", None) or [
            {"type": "content", "content": {"type": "text", "text": text}}
        ]
        raw_output = fields.pop("raw_output", None) or {"output": text}
        self._turn.keep(self._update(status=status, content=content, rawOutput=raw_output))

    def _update(self, **fields: object) -> Json:
        call_id = self._announced["toolCallId"]
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}

    def _answer(self) -> str:
        turn = self._turn
        request: Json = {
            "sessionId": turn.session_id,
            "toolCall": self._announced,
            "options": list(_PERMISSION_OPTIONS),
        }
        try:
            answer = turn.agent.connection.ask(
                "session/request_permission", request, stop=turn.stop_if_cancelled
            )
        except RpcError as error:
            return error.message
        outcome: Any = answer.get("outcome") or {}
        if outcome.get("outcome") == "cancelled":
            raise TurnCancelledError
        return str(outcome.get("optionId"))


def text_chunk(text: str, *, message_id: str | None = None) -> Json:
    """Return a piece of the agent's reply as an update."""
    return _text_update("agent_message_chunk", text, message_id=message_id)


def _text_update(kind: str, text: str, *, message_id: str | None) -> Json:
    update: Json = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return update if message_id is None else {**update, "messageId": message_id}


def _new_id(prefix: str) -> str:
    return f"{prefix}_{os.urandom(8).hex()}"


# --- its tools: each call is announced, done for real, told ---------------------------------------

# Writing and running ask for permission first. A tool that fails says why in its result and the
# turn goes on. Writes stay inside the session's working directory.


READ_BYTES_MAX = 1024 * 1024
OUTPUT_BYTES_MAX = 256 * 1024
LATE_OUTPUT_S = 1.0
COMMAND_TIMEOUT_S = 300.0


class CommandResult(NamedTuple):
    """How a command ended. `exit_code` is None when it never ran or had to be ended."""

    exit_code: int | None
    output: str


def read_file(turn: Turn, path: str) -> str | None:
    """Return a file's text, cut to a mebibyte; None when it cannot be read."""
    target = turn.cwd / path
    call = turn.begin_call(f"Read {path}", kind="read", raw_input={"path": path}, path=target)
    call.begin()
    try:
        with target.open("rb") as file:
            text = file.read(READ_BYTES_MAX).decode("utf-8", "replace")
    except OSError as error:
        turn.log("read", path=path, status="failed")
        call.end("failed", text=f"{path} cannot be read: {error.strerror}")
        return None
    turn.log("read", path=path, status="completed")
    call.end("completed", text=text)
    return text


def write_file(
    turn: Turn,
    path: str,
    text: str,
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> bool:
    """Write a file and return whether it is written.

    `before` is called when the call runs and nothing is written yet, `after` when the file is
    written and the result not told yet.
    """
    target = turn.cwd / path
    raw_input = {"path": path, "content": text}
    call = turn.begin_call(f"Write {path}", kind="edit", raw_input=raw_input, path=target)
    if not call.ask_and_begin():
        return False
    if before:
        before()
    try:
        diff = _write_inside(turn.cwd, target, text)
    except OSError as error:
        turn.log("write", path=path, status="failed")
        call.end("failed", text=f"{path} cannot be written: {error.strerror or error}")
        return False
    turn.log("write", path=path, status="completed")
    if after:
        after()
    call.end("completed", text=f"wrote {path}", content=[diff])
    return True


def title_of(words: Sequence[str]) -> str:
    """Return the title under which a command is announced."""
    return f"Run {shlex.join(words)}"


def run_command(turn: Turn, words: Sequence[str]) -> CommandResult:
    """Run a program without a shell in the working directory; its output, both streams together.

    `python` is the interpreter this agent runs on: many machines have only `python3`.
    """
    line = shlex.join(words)
    call = turn.begin_call(title_of(words), kind="execute", raw_input={"command": line})
    if not call.ask_and_begin():
        return CommandResult(None, "permission was not given")
    program = sys.executable if words[0] == "python" else words[0]
    try:
        result = _run([program, *words[1:]], turn=turn)
    except OSError as error:
        result = CommandResult(None, f"{line} cannot be run: {error.strerror}")
    except TurnCancelledError:
        call.end("failed", text="cancelled, and the command was ended")
        raise
    turn.log("execute", command=line, exit_code=result.exit_code)
    call.end(
        "completed" if result.exit_code == 0 else "failed",
        text=result.output,
        raw_output={"exitCode": result.exit_code, "output": result.output},
    )
    return result


def _write_inside(cwd: Path, target: Path, text: str) -> dict[str, object]:
    """Write the file and return the diff; OSError when it is outside of the directory."""
    # Where links lead: one that lies in the directory may lead out of it.
    resolved = target.resolve()
    if not resolved.is_relative_to(cwd.resolve()):
        raise OSError(f"it is outside the working directory {cwd}")
    old_text = resolved.read_text("utf-8", "replace") if resolved.exists() else None
    resolved.parent.mkdir(parents=True, exist_ok=True)
    resolved.write_bytes(text.encode("utf-8", "surrogatepass"))
    return {"type": "diff", "path": str(target), "oldText": old_text, "newText": text}


def _run(words: list[str], *, turn: Turn) -> CommandResult:
    # Costs a quarter of the agent's start, and most processes never run a command.
    import subprocess  # noqa: PLC0415

    process = subprocess.Popen(
        words,
        cwd=turn.cwd,
        # Not the agent's own, which is the wire: a command would read frames from it.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ended_with_us = turn.agent.connection.at_exit
    # The agent may end without unwinding, and its command would go on.
    ended_with_us.append(process.kill)
    try:
        return _watch(process, turn=turn)
    finally:
        process.kill()
        process.wait()
        ended_with_us.remove(process.kill)


def _watch(process: subprocess.Popen[bytes], *, turn: Turn) -> CommandResult:
    """Wait for the program itself, not for children of it that keep the pipe open."""
    assert process.stdout is not None
    output = bytearray()
    reader = threading.Thread(target=_drain, args=(process.stdout, output), daemon=True)
    reader.start()
    waited_s = 0.0
    while process.poll() is None:
        turn.wait(POLL_S)
        waited_s += POLL_S
        if waited_s > COMMAND_TIMEOUT_S:
            return CommandResult(None, f"ended after {COMMAND_TIMEOUT_S:.0f} s\n{_text(output)}")
    reader.join(timeout=LATE_OUTPUT_S)
    return CommandResult(process.returncode, _text(output))


def _drain(pipe: IO[bytes], output: bytearray) -> None:
    """Read all there is, so that the program never waits for us, and keep the end of it."""
    with pipe:
        while piece := os.read(pipe.fileno(), 64 * 1024):
            output += piece
            del output[:-OUTPUT_BYTES_MAX]


def _text(output: bytearray) -> str:
    return bytes(output).decode("utf-8", "replace")
