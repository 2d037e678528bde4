"""A turn: one prompt and what the agent does about it, told to the client and kept as it happens.

It carries things out and decides nothing; `directives` and `roles` decide. Whatever is told is
first written to the session, so history never knows less than the client. Every step looks first
whether the turn was cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from upthread.agents.rehearsal.history import History
from upthread.agents.rehearsal.protocol import Connection, Json, RpcError
from upthread.agents.rehearsal.sessions import SessionStore
from upthread.agents.rehearsal.settings import UNASKED, EventLog, Settings, size_of

NOTICE: Final = "This is a rehearsal: no model is behind it.\n\n"

_PERMISSION_OPTIONS: Final = (
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
