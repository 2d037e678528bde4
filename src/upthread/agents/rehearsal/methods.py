"""The agent's side of ACP: what each method does with the sessions. Field names are the protocol's.

Agent Client Protocol, version 1 (agentclientprotocol.com, schema 1.19.0 seen). A session is known
while its file is there; it is *attached* once this process has made, loaded, resumed or forked it.
Prompting a session that is known but not attached is a fault of the client and told as such, apart
from `unknown session`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from upthread.agents.rehearsal.directives import (
    BAD_REPORT,
    NO_REPORT,
    REPORT_WORDS,
    carry_out,
    directives_of,
)
from upthread.agents.rehearsal.history import replay
from upthread.agents.rehearsal.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    Json,
    Notification,
    Request,
    RpcError,
    Work,
)
from upthread.agents.rehearsal.roles import BROKEN_BLOCK, ROLES, block_of, play, prose_of
from upthread.agents.rehearsal.sessions import UnknownSessionError
from upthread.agents.rehearsal.settings import NAMELESS, OPAQUE_ERRORS, size_of
from upthread.agents.rehearsal.turn import Agent, Turn, TurnCancelledError, TurnStopped

VERSION: Final = "0.1.0"
POLL_S: Final = 0.01
REMEMBERED_CHARACTERS: Final = 40


class Methods:
    """The methods of one connection. Which sessions are attached is all it knows by itself."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._settings = agent.settings
        self._attached: dict[str, str] = {}
        self._running: dict[str, Turn] = {}
        self._lock = threading.Lock()

    def requests(self) -> Mapping[str, Request]:
        """Return the methods that are answered; those switched off are not there at all."""
        optional: dict[str, Request] = {
            "load": self._load,
            "resume": self._resume,
            "list": self._list,
            "fork": self._fork,
            "close": self._close,
        }
        methods: dict[str, Request] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
        }
        for name, method in optional.items():
            if self._can(name):
                methods[f"session/{name}"] = method
        return {name: self._told_of_unknown(method) for name, method in methods.items()}

    def notifications(self) -> Mapping[str, Notification]:
        """Return what is heard without an answer."""
        return {"session/cancel": self._cancel}

    def end_turns(self, within_s: float) -> None:
        """Wait until no turn is running any more, at most that long."""
        until_s = time.monotonic() + within_s
        while self._running and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def _can(self, name: str) -> bool:
        return f"no_{name}" not in self._settings.words

    def _initialize(self, _params: Json) -> Json:
        session: Json = {
            name: {} for name in ("resume", "list", "fork", "close") if self._can(name)
        }
        return {
            "protocolVersion": self._settings.protocol_version,
            "agentInfo": {"name": "rehearsal", "title": "Rehearsal", "version": VERSION},
            "agentCapabilities": {
                "loadSession": self._can("load"),
                "sessionCapabilities": session,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
            },
            "authMethods": [],
        }

    def _new(self, params: Json) -> Json:
        cwd = _text(params, "cwd")
        return self._made(self._agent.store.create(cwd), cwd=cwd, event="session_new")

    def _fork(self, params: Json) -> Json:
        origin, cwd = _text(params, "sessionId"), _text(params, "cwd")
        session_id = self._agent.store.create(cwd, forked_from=origin)
        return self._made(session_id, cwd=cwd, event="session_fork")

    def _made(self, session_id: str, *, cwd: str, event: str) -> Json:
        self._attached[session_id] = cwd
        self._agent.log.write(event, session_id=session_id, role="")
        return {"sessionId": session_id}

    def _load(self, params: Json) -> Json:
        session_id, entries = self._attach(params, event="session_load")
        # All of it before the answer, as ACP has it.
        names_messages = NAMELESS not in self._settings.words
        for update in replay(entries, names_messages=names_messages):
            self._agent.connection.notify(
                "session/update", {"sessionId": session_id, "update": update}
            )
        return {}

    def _resume(self, params: Json) -> Json:
        self._attach(params, event="session_resume")
        return {}

    def _attach(self, params: Json, *, event: str) -> tuple[str, list[Json]]:
        session_id, cwd = _text(params, "sessionId"), _text(params, "cwd")
        entries = self._agent.store.read(session_id)
        self._attached[session_id] = cwd
        self._agent.log.write(event, session_id=session_id, role="")
        return session_id, entries

    def _list(self, params: Json) -> Json:
        sessions, cursor = self._agent.store.page(
            cwd=params.get("cwd"), cursor=params.get("cursor")
        )
        return {"sessions": sessions, **({"nextCursor": cursor} if cursor else {})}

    def _close(self, params: Json) -> Json:
        session_id = _text(params, "sessionId")
        self._agent.store.read(session_id)
        self._cancel(params)
        self._attached.pop(session_id, None)
        self._agent.log.write("session_close", session_id=session_id, role="")
        return {}

    def _cancel(self, params: Json) -> None:
        with self._lock:
            turn = self._running.get(str(params.get("sessionId")))
        if turn is not None:
            turn.log("cancel")
            turn.cancelled.set()

    def _prompt(self, params: Json) -> Work:
        """Begin a turn; the prompt is in the session's file before the thread starts."""
        session_id = _text(params, "sessionId")
        with self._lock:
            if session_id in self._running:
                raise RpcError(INVALID_REQUEST, f"a prompt is already running in {session_id}")
            turn = Turn(
                self._agent,
                session_id=session_id,
                cwd=self._cwd_of(session_id),
                text=_prompt_text(params),
            )
            self._running[session_id] = turn

        def afterwards() -> None:
            for call in turn.afterwards:
                call()

        return Work(lambda: self._run(turn), afterwards)

    def _cwd_of(self, session_id: str) -> str:
        if session_id not in self._attached:
            self._agent.store.read(session_id)
            raise RpcError(
                INVALID_PARAMS,
                f"{session_id} is not attached here: call session/load or session/resume first",
            )
        return self._attached[session_id]

    def _run(self, turn: Turn) -> Json:
        try:
            stop_reason = _carried_out(turn)
        except UnknownSessionError as error:
            self._attached.pop(turn.session_id, None)
            raise self._unknown(error) from error
        finally:
            with self._lock:
                del self._running[turn.session_id]
        turn.log("reply", bytes=size_of(turn.said), text=turn.said, stop_reason=stop_reason)
        usage: Json = {} if turn.usage is None else {"usage": turn.usage}
        return {"stopReason": stop_reason, **usage}

    def _told_of_unknown(self, method: Request) -> Request:
        def call(params: Json) -> Json | Work:
            try:
                return method(params)
            except UnknownSessionError as error:
                raise self._unknown(error) from error

        return call

    def _unknown(self, error: UnknownSessionError) -> RpcError:
        if OPAQUE_ERRORS in self._settings.words:
            return RpcError(INTERNAL_ERROR, "Internal error")
        return RpcError(NOT_FOUND, "Resource not found", {"sessionId": error.session_id})


def _carried_out(turn: Turn) -> str:
    """Do what the prompt asks, write how the turn ended, and return its stop reason."""
    try:
        _respond(turn)
        stop_reason = "end_turn"
    except TurnStopped as stopped:
        stop_reason = stopped.stop_reason
    except TurnCancelledError:
        stop_reason = "cancelled"
    except RpcError as error:
        turn.end(error=error.as_json())
        turn.log("failed", error=error.as_json())
        raise
    turn.end(stopReason=stop_reason)
    return stop_reason


# --- a prompt: its directives first, else its role, else free talk -----------------------------


def _respond(turn: Turn) -> None:
    """Do all there is to do in a turn. Returning is the end of the turn, with `end_turn`."""
    directives = directives_of(turn)
    report_words = {one.word for one in directives} & REPORT_WORDS
    actions = [one for one in directives if one.word not in REPORT_WORDS]
    for directive in actions:
        carry_out(turn, directive)
    if actions:
        return
    if turn.role in ROLES:
        _play_role(turn, report_words=report_words)
        return
    turn.say(_free_talk(turn))
    if BAD_REPORT in report_words:
        turn.say(f"\n\n{BROKEN_BLOCK}")


def _play_role(turn: Turn, *, report_words: set[str]) -> None:
    report = play(turn)
    turn.say(prose_of(report))
    if NO_REPORT in report_words:
        return
    turn.say(f"\n\n{BROKEN_BLOCK if BAD_REPORT in report_words else block_of(report)}")


def _free_talk(turn: Turn) -> str:
    """Say what this session holds, so that a reader can count what was lost."""
    earlier = turn.history.prompts[:-1]
    heads = "; ".join(f'"{" ".join(prompt.split())[:REMEMBERED_CHARACTERS]}"' for prompt in earlier)
    told = f": {heads}" if heads else ""
    return f"I remember {len(earlier)} earlier prompts{told} (rehearsal)"


# --- what a request holds ----------------------------------------------------------------------


def _text(params: Json, name: str) -> str:
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"`{name}` is missing or no text")
    return value


def _prompt_text(params: Json) -> str:
    """Return the text of all blocks of a prompt, embedded files included."""
    blocks: object = params.get("prompt")
    if not isinstance(blocks, list):
        raise RpcError(INVALID_PARAMS, "`prompt` is missing or no list")
    held = (_member(block, "resource") or block for block in cast("list[object]", blocks))
    texts = (_member(block, "text") for block in held)
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _member(value: object, name: str) -> object:
    return cast("Json", value).get(name) if isinstance(value, dict) else None
