"""A server that speaks as much of OpenCode's API as the adapter uses, and misbehaves on request.

Its first argument says how. A prompt names a scenario of the recorded events, which are then told
under the session's id; the log file gets a line for each POST. It is not
OpenCode: what OpenCode itself does is in tests/live.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORD, LOG = sys.argv[1:3]
RECORDED = json.loads((Path(__file__).parent / "recorded_1_18_33.json").read_text())
CREDENTIALS = f"{os.environ['OPENCODE_SERVER_USERNAME']}:{os.environ['OPENCODE_SERVER_PASSWORD']}"
AUTHORIZATION = "Basic " + base64.b64encode(CREDENTIALS.encode()).decode()
SESSION = "ses_scripted"
EVENTS: queue.Queue[bytes | None] = queue.Queue()
HISTORY = [
    {
        "info": {"id": "msg_1", "role": "user"},
        "parts": [{"type": "text", "text": "hello", "messageID": "msg_1"}],
    },
    {
        "info": {"id": "msg_2", "role": "assistant"},
        "parts": [{"type": "text", "text": "hi", "messageID": "msg_2"}],
    },
]


def tell(payload: object) -> None:
    event = {"directory": "/project", "payload": payload}
    EVENTS.put(f"data: {json.dumps(event)}\n\n".encode())


def tell_status(kind: str) -> None:
    status = {"sessionID": SESSION, "status": {"type": kind}}
    tell({"type": "session.status", "properties": status})


def tell_scenario(name: str) -> None:
    """A retry is the last event told: how that ends is for the client to say."""
    recorded = RECORDED[name]
    for event in recorded["events"]:
        tell(json.loads(json.dumps(event).replace(recorded["session"], SESSION)))
        if '"retry"' in json.dumps(event):
            return


def answer_prompt(name: str) -> None:
    if WORD == "dies":
        os._exit(3)
    if WORD == "hangs_up":
        EVENTS.put(None)
        return
    if WORD == "forgets":
        return
    if WORD == "garbage":
        EVENTS.put(b"data: {no json\n\n: a comment\n\ndata: 7\n\n")
    if name == "hang":
        message = {"id": "msg_hang", "role": "user", "sessionID": SESSION}
        tell({"type": "message.updated", "properties": {"sessionID": SESSION, "info": message}})
        return
    tell_scenario(name)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != AUTHORIZATION:
            self.reply(401, {"name": "Unauthorized"})
        elif self.path == "/global/event":
            self.stream()
        else:
            self.reply(*self.answer_to_get(self.path.partition("?")[0]))

    def answer_to_get(self, path: str) -> tuple[int, object]:
        if WORD == "version_2" and not path.startswith("/api/"):
            return 404, {"name": "NotFoundError", "data": {"message": "Not found"}}
        answers = {
            "/global/health": {"version": "2.0.0" if WORD == "another_version" else "1.18.33"},
            "/config/providers": {"providers": []},
            "/session/status": {},
            "/session": [
                {"id": SESSION, "title": "t"},
                {"id": "listed", "directory": "/"},
                {"id": "moved", "directory": "/gone"},
            ],
            f"/session/{SESSION}": {"id": "other" if WORD == "exchanges" else SESSION},
            f"/session/{SESSION}/message": HISTORY,
        }
        if path in answers:
            return 200, answers[path]
        if path.startswith("/session/ses_"):
            return 404, {"name": "NotFoundError", "data": {"message": "Session not found"}}
        return 500, {"name": "UnknownError", "data": {"message": "Unexpected server error."}}

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with Path(LOG).open("a") as log:
            log.write(json.dumps([self.path, body]) + "\n")
        path = self.path.partition("?")[0]
        if path == "/session":
            return self.reply(200, {"id": "" if WORD == "nameless" else SESSION})
        if path.endswith("/prompt_async"):
            self.reply(204, None)
            return answer_prompt(body["parts"][0]["text"])
        if path.endswith("/abort") and WORD != "deaf":
            tell_status("idle")
        return self.reply(200, True)

    def stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b'data: {"payload":{"type":"server.connected","properties":{}}}\n\n')
        while (event := EVENTS.get()) is not None:
            self.wfile.write(event)

    def reply(self, status: int, answer: object) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    if WORD == "exits":
        sys.stderr.write("cannot bind\n")
        sys.exit(7)
    if WORD == "mute":
        threading.Event().wait()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    where = "0.0.0.0" if WORD == "listens_to_all" else "127.0.0.1"
    sys.stdout.write("a line of its own first\n")
    sys.stdout.write(f"opencode server listening on http://{where}:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


main()
