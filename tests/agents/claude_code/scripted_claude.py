"""A stand-in that speaks as `claude -p` does, and misbehaves where the real one cannot be made to.

What it does is said by the first word of a prompt. It stores a session with its first message.
"""

import json
import os
import sys
import time
from pathlib import Path

LATE_S = 0.1


def store(session):
    return Path(os.environ["HOME"]) / ".claude" / "projects" / "work" / f"{session}.jsonl"


class Claude:
    def __init__(self, session) -> None:
        self.session = session

    def write(self, kind, **more):
        self.raw(json.dumps({"type": kind, "session_id": self.session, **more}))

    def raw(self, line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def keep(self, kind, message, **more):
        path = store(self.session)
        path.parent.mkdir(parents=True, exist_ok=True)
        number = len(path.read_text().splitlines()) if path.exists() else 0
        parent = f"u{number - 1}" if number else None
        entry = {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "message": message}
        with path.open("a") as file:
            file.write(json.dumps({**entry, **more, "version": "2.1.330"}) + "\n")

    def say(self, text):
        message = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": text}]}
        self.keep("assistant", message)
        self.write("assistant", message=message)

    def end(self, **more):
        self.write("result", subtype="success", is_error=False, **more)

    def take(self, frame):
        if frame["type"] == "control_request":
            self.control(frame["request_id"], frame["request"]["subtype"])
        elif frame["type"] == "user":
            text = frame["message"]["content"]
            self.keep("user", frame["message"], isMeta=bool(frame.get("isSynthetic")))
            if frame.get("shouldQuery") is False:
                self.end()
            else:
                getattr(self, text.split()[0], self.plain)(text)

    def control(self, request_id, subtype):
        if subtype == "interrupt":
            self.write("result", subtype="error", is_error=True, terminal_reason="aborted_tools")
        answer = {"subtype": "success", "request_id": request_id, "response": {}}
        self.write("control_response", response=answer)

    def plain(self, text):
        self.say(f"said: {text}")
        self.end()

    def hang(self, _text):
        """Until it is interrupted."""

    def deaf(self, _text):
        time.sleep(600)

    def late(self, _text):
        self.plain("soon")
        time.sleep(LATE_S)
        self.say("too late")

    def unstamped(self, _text):
        self.raw('{"type": "assistant", "message": {"content": []}}')
        self.end()

    def news(self, _text):
        self.write("news", headline="x")
        self.end()

    def garbage(self, _text):
        self.raw("this is no JSON")
        sys.stdout.buffer.write(b"\xff\xfe\n\n")
        self.end()

    def die(self, _text):
        sys.stderr.write("the last words\n")
        raise SystemExit(3)

    def elsewhere(self, _text):
        self.session = "00000000-0000-4000-8000-00000000000e"
        self.end()

    def ask(self, _text):
        self.write("control_request", request_id="r1", request={"subtype": "mcp_message"})
        answer = json.loads(sys.stdin.readline())["response"]
        self.say(f"{answer['subtype']}: {answer['error']}")
        self.end()

    def limited(self, _text):
        told = {"status": "rejected", "resetsAt": 1_800_000_000}
        self.write("rate_limit_event", rate_limit_info=told)
        message = {"id": "m", "content": [{"type": "text", "text": "limit reached"}]}
        self.write("assistant", message=message, error="rate_limit", is_api_error_message=True)
        self.write("result", is_error=True, terminal_reason="api_error", api_error_status=429)


def main():
    words = sys.argv[1:]
    if "--version" in words:
        print("2.1.330 (Claude Code)")  # noqa: T201  # it is what the real one prints
        return
    how = "--resume" if "--resume" in words else "--session-id"
    session = words[words.index(how) + 1]
    if how == "--resume" and (said := os.environ.get("ENDS_WITH_ERROR")):
        Claude(session).write("result", subtype="error_during_execution", errors=[said])
        sys.exit(1)
    if how == "--resume" and os.environ.get("DIES_OF_ITS_SESSION"):
        raise SystemExit(134)
    if how == "--resume" and not (store(session).exists() and store(session).read_text().strip()):
        sys.stderr.write(f"No conversation found with session ID: {session}\n")
        raise SystemExit(1)
    if "--fork-session" in words:
        forked = words[words.index("--session-id") + 1]
        store(forked).write_text(store(session).read_text())
        session = forked
    titles = [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    if titles:
        store(session).parent.mkdir(parents=True, exist_ok=True)
        with store(session).open("a") as transcript:
            print(json.dumps({"type": "custom-title", "customTitle": titles[0]}), file=transcript)
    claude = Claude(session)
    for line in sys.stdin:
        claude.take(json.loads(line))


main()
