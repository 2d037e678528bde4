"""A tiny ACP agent that says what a file tells it to: `leaks.json` in its working directory.

Each leak is {"where": ..., "text": ...}. Texts that are said or written to stderr come in pieces of
a few characters, some of them further apart than text is flushed.
"""

import json
import random
import sys
import time
from pathlib import Path

SESSION = "ses_leaking"
PAUSE_S = 0.7
CHANCE = random.Random(7)


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(**content):
    send({"method": "session/update", "params": {"sessionId": SESSION, "update": content}})


def pieces(text):
    while text:
        length = CHANCE.randrange(1, 12)
        yield text[:length]
        text = text[length:]


def spoken(kind):
    def leak(_number, text):
        for number, piece in enumerate(pieces(text + "\n")):
            update(sessionUpdate=kind, content={"type": "text", "text": piece})
            if number == 1 and CHANCE.random() < 0.1:
                time.sleep(PAUSE_S)

    return leak


def call(**content):
    def leak(number, text):
        filled = json.loads(json.dumps(content).replace('"@"', json.dumps(text)))
        common = {"toolCallId": f"c{number}", "title": "a call", "kind": "read"}
        update(**{"sessionUpdate": "tool_call", "status": "in_progress", **common, **filled})
        update(sessionUpdate="tool_call_update", toolCallId=f"c{number}", status="completed")

    return leak


def result(*content: object):
    def leak(number, text):
        filled = json.loads(json.dumps(content).replace('"@"', json.dumps(text)))
        common = {"toolCallId": f"c{number}"}
        update(sessionUpdate="tool_call", title="a call", kind="read", **common)
        update(sessionUpdate="tool_call_update", status="completed", content=filled, **common)

    return leak


def stderr(_number, text):
    for number, piece in enumerate(pieces(text + "\n")):
        sys.stderr.write(piece)
        sys.stderr.flush()
        if number == 1 and CHANCE.random() < 0.1:
            time.sleep(0.05)


def plan(_number, text):
    update(
        sessionUpdate="plan", entries=[{"content": text, "status": "pending", "priority": "low"}]
    )


LEAKS = {
    "text": spoken("agent_message_chunk"),
    "reasoning": spoken("agent_thought_chunk"),
    "title": lambda number, text: call(title=text)(number, text),
    "arguments": call(rawInput={"command": "@", "nested": [{"deep": "@"}]}),
    "location": call(locations=[{"path": "@"}]),
    "result": result({"type": "content", "content": {"type": "text", "text": "@"}}),
    "diff": result({"type": "diff", "path": "/a/b", "oldText": "@", "newText": "@"}),
    "plan": plan,
    "unknown": lambda _number, text: update(sessionUpdate="hologram", shape={"said": text}),
    "stderr": stderr,
}


def prompt(request):
    leaks = json.loads(Path("leaks.json").read_text())
    errors = []
    for number, leak in enumerate(leaks):
        if leak["where"] == "error":
            errors.append(leak["text"])
        else:
            LEAKS[leak["where"]](number, leak["text"])
    if errors:
        send({"id": request["id"], "error": {"code": -32603, "message": "\n".join(errors)}})
    else:
        send({"id": request["id"], "result": {"stopReason": "end_turn"}})


def main():
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            info = {"name": "leaking", "version": "1"}
            capabilities = {"loadSession": True}
            result = {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info}
            send({"id": request["id"], "result": result})
        elif method == "session/new":
            send({"id": request["id"], "result": {"sessionId": SESSION}})
        elif method == "session/load":
            send({"id": request["id"], "result": {}})
        elif method == "session/prompt":
            prompt(request)


main()
