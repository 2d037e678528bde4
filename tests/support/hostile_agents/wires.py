"""The four wires a hostile agent speaks: just enough of each to be believed, and then not.

Run as a program of its own by `program.py`: the standard library only. Each wire offers the same
few words, so that one misbehaviour is written once: say, think, call, tokens, raw, end.
"""

import base64
import json
import os
import queue
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Frame: TypeAlias = dict[str, Any]
Act: TypeAlias = Callable[["Wire", str], None]

ANSWER_WITHIN_S = 20.0


class Wire(Protocol):
    """What every hostile act can use. `session` is the one that is prompted."""

    session: str

    def serve(self, act: Act) -> None: ...
    def raw(self, line: bytes) -> None: ...
    def say(self, text: str) -> None: ...
    def think(self, text: str) -> None: ...
    def call(self, call_id: str, arguments: object, **more: object) -> None: ...
    def tokens(self, count: object) -> None: ...
    def end(self) -> None: ...


def put(line: bytes) -> None:
    """Write bytes to stdout at once."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def put_json(frame: object) -> None:
    """Write one frame as a line."""
    put(json.dumps(frame).encode() + b"\n")


# --- ACP ---------------------------------------------------------------------------------------


class Acp:
    """`session/…` over stdio."""

    def __init__(self, new_id: str) -> None:
        self.session = new_id
        self._new_id = new_id
        self.request: Frame = {}
        self._asked: dict[int, queue.Queue[object]] = {}

    def serve(self, act: Act) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "session/prompt":
                self.session, self.request = message["params"]["sessionId"], message
                text = message["params"]["prompt"][0]["text"]
                threading.Thread(target=act, args=(self, text), daemon=True).start()
            elif "method" not in message:
                self._asked[message["id"]].put(message.get("result", message.get("error")))
            elif "id" in message:
                self._answer(message)

    def _answer(self, message: Frame) -> None:
        abilities: Frame = {"resume": {}, "list": {}, "fork": {}}
        answers: dict[str, Frame] = {
            "initialize": {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True, "sessionCapabilities": abilities},
                "agentInfo": {"name": "hostile", "version": "1.0.0"},
            },
            "session/new": {"sessionId": self._new_id},
            "session/list": {"sessions": [{"sessionId": self._new_id, "cwd": "/"}]},
        }
        result = answers.get(message["method"], {})
        put_json({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def update(self, **content: object) -> None:
        """Send one `session/update`; `session` stamps it with another id."""
        stamped = content.pop("session", self.session)
        self.notify("session/update", {"sessionId": stamped, "update": content})

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        put_json({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Frame) -> Any:
        """Ask something of the client and return what it answers."""
        number = 1000 + len(self._asked)
        self._asked[number] = answered = queue.Queue[object]()
        params = {"sessionId": self.session, **params}
        put_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answered.get(timeout=ANSWER_WITHIN_S)

    def raw(self, line: bytes) -> None:
        put(line)

    def say(self, text: str) -> None:
        content = {"type": "text", "text": text}
        self.update(sessionUpdate="agent_message_chunk", content=content)

    def think(self, text: str) -> None:
        content = {"type": "text", "text": text}
        self.update(sessionUpdate="agent_thought_chunk", content=content)

    def call(self, call_id: str, arguments: object, **more: object) -> None:
        self.update(sessionUpdate="tool_call", toolCallId=call_id, rawInput=arguments, **more)

    def tokens(self, count: object) -> None:
        self.update(sessionUpdate="usage_update", used=count, size=count)

    def end(self) -> None:
        result = {"stopReason": "end_turn"}
        put_json({"jsonrpc": "2.0", "id": self.request["id"], "result": result})


# --- Claude Code -------------------------------------------------------------------------------


class ClaudeCode:
    """`claude -p` with stream-json both ways."""

    def __init__(self, new_id: str) -> None:
        words = sys.argv
        if "--version" in words:
            put(b"2.1.330 (Claude Code)\n")
            raise SystemExit
        how = "--resume" if "--resume" in words else "--session-id"
        self.session = words[words.index(how) + 1]
        self._says_it_is = new_id or self.session
        self._store = Path(os.environ["HOME"]) / ".claude/projects/work" / f"{self.session}.jsonl"
        self._store.parent.mkdir(parents=True, exist_ok=True)

    def serve(self, act: Act) -> None:
        for line in sys.stdin:
            frame = json.loads(line)
            if frame["type"] == "control_request":
                asked = frame["request_id"]
                answer: Frame = {"subtype": "success", "request_id": asked, "response": {}}
                self._write("control_response", response=answer)
            elif frame["type"] == "user":
                self._keep(frame["message"])
                if frame.get("shouldQuery") is False:
                    self.end()
                else:
                    text = frame["message"]["content"]
                    threading.Thread(target=act, args=(self, text), daemon=True).start()

    def _keep(self, message: Frame) -> None:
        entry = {
            "type": "user",
            "uuid": f"u{secrets.token_hex(8)}",
            "parentUuid": None,
            "message": message,
        }
        with self._store.open("a") as file:
            file.write(json.dumps({**entry, "version": "2.1.330"}) + "\n")

    def _write(self, kind: str, **more: object) -> None:
        put_json({"type": kind, "session_id": self._says_it_is, **more})

    def _part(self, block: Mapping[str, object]) -> None:
        message = {"id": f"m{secrets.token_hex(8)}", "role": "assistant", "content": [block]}
        self._write("assistant", message=message)

    def raw(self, line: bytes) -> None:
        put(line)

    def say(self, text: str) -> None:
        self._part({"type": "text", "text": text})

    def think(self, text: str) -> None:
        self._part({"type": "thinking", "thinking": text})

    def call(self, call_id: str, arguments: object, **more: object) -> None:
        self._part({"type": "tool_use", "id": call_id, "name": "Bash", "input": arguments, **more})

    def tokens(self, count: object) -> None:
        usage = {"input_tokens": count, "output_tokens": count}
        self._write("result", subtype="success", is_error=False, usage=usage)

    def end(self) -> None:
        self._write("result", subtype="success", is_error=False)


# --- Codex -------------------------------------------------------------------------------------


class Codex:
    """`codex app-server`: JSON-RPC in lines."""

    def __init__(self, new_id: str) -> None:
        self.session: str = new_id or "00000000-0000-4000-8000-00000000c0de"
        self._new_id = self.session

    def serve(self, act: Act) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" not in message or "method" not in message:
                continue
            params: Frame = message.get("params") or {}
            put_json({"id": message["id"], "result": self._answer(message["method"], params)})
            if message["method"] == "turn/start":
                self.session = params["threadId"]
                self._tell("turn/started", turn={"id": "turn-1"})
                text: str = params["input"][0]["text"]
                threading.Thread(target=act, args=(self, text), daemon=True).start()

    def _answer(self, method: str, params: Frame) -> Frame:
        thread = {"thread": {"id": params.get("threadId", self._new_id)}}
        answers: dict[str, Frame] = {
            "initialize": {"userAgent": "hostile/0.169.0 (here)"},
            "turn/start": {"turn": {"id": "turn-1"}},
            "thread/list": {"data": [{"id": self._new_id}], "nextCursor": None},
            "thread/items/list": {"data": [], "nextCursor": None},
            "thread/name/set": {},
            "turn/interrupt": {},
        }
        return answers.get(method, thread)

    def _tell(self, method: str, **more: object) -> None:
        params: Frame = {"threadId": self.session, "turnId": "turn-1", **more}
        put_json({"method": method, "params": params})

    def raw(self, line: bytes) -> None:
        put(line)

    def say(self, text: str) -> None:
        self._tell("item/agentMessage/delta", itemId="m1", delta=text)

    def think(self, text: str) -> None:
        self._tell("item/reasoning/summaryTextDelta", itemId="r1", delta=text)

    def call(self, call_id: str, arguments: object, **more: object) -> None:
        item = {"type": "mcpToolCall", "id": call_id, "server": "s", "tool": "t"}
        self._tell("item/started", item={**item, "arguments": arguments, **more})

    def tokens(self, count: object) -> None:
        used = {"inputTokens": count, "outputTokens": count, "totalTokens": count}
        usage = {"last": used, "total": used, "modelContextWindow": count}
        self._tell("thread/tokenUsage/updated", tokenUsage=usage)

    def end(self) -> None:
        self._tell("turn/completed", turn={"id": "turn-1", "status": "completed"})


# --- OpenCode ----------------------------------------------------------------------------------


class OpenCode:
    """`opencode serve`: HTTP, and one stream of events."""

    def __init__(self, new_id: str) -> None:
        self.session = new_id
        self._new_id = new_id
        self._events: queue.Queue[bytes] = queue.Queue(64)
        self._parts = 0
        self.act: Act | None = None

    def serve(self, act: Act) -> None:
        self.act = act
        server = OpenCodeServer(self)
        put(f"opencode server listening on http://127.0.0.1:{server.server_port}\n".encode())
        server.serve_forever()

    def answer(self, path: str) -> tuple[int, object]:
        """Return the answer to a GET."""
        answers: dict[str, object] = {
            "/global/health": {"version": "1.18.33"},
            "/config/providers": {"providers": []},
            "/session": [{"id": self._new_id, "title": "t", "directory": "/"}],
        }
        is_history = path.endswith("/message")
        return 200, answers.get(path, [] if is_history else {"id": path.rpartition("/")[2]})

    def take(self, path: str, body: Any, reply: Callable[[int, object], None]) -> None:
        """Take what is posted: a prompt begins, and anything else is granted."""
        path = path.partition("?")[0]
        if path.endswith("/prompt_async"):
            reply(204, None)
            self.begin(path.split("/")[2], body["parts"][0]["text"])
        else:
            reply(200, {"id": self.session} if path == "/session" else True)

    def begin(self, session: str, text: str) -> None:
        """Take a prompt."""
        self.session = session
        self._message("msg_user", "user")
        self._message("msg_agent", "assistant")
        assert self.act is not None
        threading.Thread(target=self.act, args=(self, text), daemon=True).start()

    def _message(self, message_id: str, role: str, **more: object) -> None:
        info = {"id": message_id, "role": role, "sessionID": self.session, **more}
        self._tell("message.updated", info=info)

    def _tell(self, kind: str, **properties: object) -> None:
        payload = {"type": kind, "properties": {"sessionID": self.session, **properties}}
        self.raw(json.dumps({"directory": "/", "payload": payload}).encode() + b"\n")

    def _part(self, kind: str, **more: object) -> None:
        self._parts += 1
        part = {"id": f"prt_{self._parts}", "type": kind, "messageID": "msg_agent", **more}
        self._tell("message.part.updated", part={"sessionID": self.session, **part})

    def raw(self, line: bytes) -> None:
        self._events.put(b"data: " + line + b"\n" if line.endswith(b"\n") else line)

    def say(self, text: str) -> None:
        self._part("text", text=text)

    def think(self, text: str) -> None:
        self._part("reasoning", text=text)

    def call(self, call_id: str, arguments: object, **more: object) -> None:
        state = {"status": "running", "input": arguments, **more}
        self._part("tool", callID=call_id, tool="bash", state=state)

    def tokens(self, count: object) -> None:
        tokens = {"input": count, "output": count, "reasoning": 0}
        cache = {"read": 0, "write": 0}
        self._message("msg_agent", "assistant", tokens={**tokens, "cache": cache})

    def end(self) -> None:
        self._message("msg_agent", "assistant", finish="stop", time={"completed": 1})
        self._tell("session.status", status={"type": "idle"})

    def next_event(self) -> bytes:
        """Wait for what is told next."""
        return self._events.get()


class OpenCodeHandler(BaseHTTPRequestHandler):
    """HTTP and the stream of events, as `opencode serve` speaks them; the server has the `agent`.

    `agent.answer` gives the status of a GET and what is answered, `agent.take` takes a POST and
    replies, and `agent.next_event` waits for the next piece of the stream, None for its end.
    """

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name
        """Say nothing."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        names = ("OPENCODE_SERVER_USERNAME", "OPENCODE_SERVER_PASSWORD")
        who = ":".join(os.environ[name] for name in names)
        if self.headers.get("Authorization") != f"Basic {base64.b64encode(who.encode()).decode()}":
            self.reply(401, {"name": "Unauthorized"})
        elif path == "/global/event":
            self.stream()
        else:
            self.reply(*self.server.agent.answer(path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.agent.take(self.path, body, self.reply)

    def stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b'data: {"payload":{"type":"server.connected","properties":{}}}\n\n')
        while (event := self.server.agent.next_event()) is not None:
            self.wfile.write(event)

    def reply(self, status: int, answer: object) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class OpenCodeServer(ThreadingHTTPServer):
    """Listens on loopback, on any free port."""

    daemon_threads = True

    def __init__(self, agent: Any) -> None:
        super().__init__(("127.0.0.1", 0), OpenCodeHandler)
        self.agent = agent


@dataclass(frozen=True)
class Spoken:
    """One wire: who speaks it, once given the id that a new session is to have.

    `names_sessions` where the agent names a new session; else it takes a name of ours.
    `takes_any_id` where that name has no form; else the wire itself makes one that has it.
    """

    speaker: Callable[[str], Wire]
    names_sessions: bool = True
    takes_any_id: bool = True


WIRES: Mapping[str, Spoken] = {
    "acp": Spoken(Acp),
    "claude-code": Spoken(ClaudeCode, names_sessions=False, takes_any_id=False),
    "codex": Spoken(Codex, takes_any_id=False),
    "opencode": Spoken(OpenCode),
}
"""The wires the shipped hostile agent speaks, by the name of the agent whose adapter hears it."""
