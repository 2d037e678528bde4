"""A server that speaks as much of OpenCode's API as the adapter uses, and misbehaves on request.

Its first argument says how. A prompt names a scenario of the recorded events, which are then told
under the session's id; the log file gets a line for each POST. It is not
OpenCode: what OpenCode itself does is in tests/live.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support" / "hostile_agents"))
from wires import OpenCodeServer

WORD, LOG = sys.argv[1:3]
RECORDED = json.loads((Path(__file__).parent / "recorded_1_18_33.json").read_text())
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


class Agent:
    """What the server answers, and the events that it tells."""

    next_event = EVENTS.get

    def answer(self, path: str) -> tuple[int, object]:
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

    def take(self, path, body, reply) -> None:
        with Path(LOG).open("a") as log:
            log.write(json.dumps([path, body]) + "\n")
        path = path.partition("?")[0]
        if path == "/session":
            return reply(200, {"id": "" if WORD == "nameless" else SESSION})
        if path.endswith("/prompt_async"):
            reply(204, None)
            return answer_prompt(body["parts"][0]["text"])
        if path.endswith("/abort") and WORD != "deaf":
            tell_status("idle")
        return reply(200, True)


def main() -> None:
    if WORD == "exits":
        sys.stderr.write("cannot bind\n")
        sys.exit(7)
    if WORD == "mute":
        threading.Event().wait()
    server = OpenCodeServer(Agent())
    where = "0.0.0.0" if WORD == "listens_to_all" else "127.0.0.1"
    sys.stdout.write("a line of its own first\n")
    sys.stdout.write(f"opencode server listening on http://{where}:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


main()
