"""A tiny ACP agent that says what a file tells it to: `leaks.json` in its working directory.

Each leak is {"where": ..., "text": ...}. Texts that are said or written to stderr come in pieces of
a few characters, some of them further apart than text is flushed.
"""

import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "hostile_agents"))
from wires import Acp, put_json

PAUSE_S = 0.7
CHANCE = random.Random(7)


def in_pieces(write, text, *, pause_s=PAUSE_S):
    text += "\n"
    number = 0
    while text:
        length = CHANCE.randrange(1, 12)
        write(text[:length])
        text, number = text[length:], number + 1
        if number == 2 and CHANCE.random() < 0.1:
            time.sleep(pause_s)


def filled(content, text):
    return json.loads(json.dumps(content).replace('"@"', json.dumps(text)))


def call(**content):
    def leak(wire, number, text):
        common = {"toolCallId": f"c{number}", "title": "a call", "kind": "read"}
        started = {"sessionUpdate": "tool_call", "status": "in_progress", **common}
        wire.update(**started | filled(content, text))
        ended = {"sessionUpdate": "tool_call_update", "status": "completed"}
        wire.update(toolCallId=f"c{number}", **ended)

    return leak


def result(content: object):
    def leak(wire, number, text):
        common = {"toolCallId": f"c{number}"}
        wire.update(sessionUpdate="tool_call", title="a call", kind="read", **common)
        ended = {"sessionUpdate": "tool_call_update", "status": "completed", **common}
        wire.update(content=[filled(content, text)], **ended)

    return leak


def stderr(_wire, _number, text):
    def write(piece):
        sys.stderr.write(piece)
        sys.stderr.flush()

    in_pieces(write, text, pause_s=0.05)


def plan(wire, _number, text):
    entry = {"content": text, "status": "pending", "priority": "low"}
    wire.update(sessionUpdate="plan", entries=[entry])


LEAKS = {
    "text": lambda wire, _number, text: in_pieces(wire.say, text),
    "reasoning": lambda wire, _number, text: in_pieces(wire.think, text),
    "title": call(title="@"),
    "arguments": call(rawInput={"command": "@", "nested": [{"deep": "@"}]}),
    "location": call(locations=[{"path": "@"}]),
    "result": result({"type": "content", "content": {"type": "text", "text": "@"}}),
    "diff": result({"type": "diff", "path": "/a/b", "oldText": "@", "newText": "@"}),
    "plan": plan,
    "unknown": lambda wire, _number, text: wire.update(
        sessionUpdate="hologram", shape={"said": text}
    ),
    "stderr": stderr,
}


def leak(wire, _prompt):
    errors = []
    for number, each in enumerate(json.loads(Path("leaks.json").read_text())):
        if each["where"] == "error":
            errors.append(each["text"])
        else:
            LEAKS[each["where"]](wire, number, each["text"])
    if errors:
        error = {"code": -32603, "message": "\n".join(errors)}
        put_json({"jsonrpc": "2.0", "id": wire.request["id"], "error": error})
    else:
        wire.end()


if __name__ == "__main__":
    Acp("ses_leaking").serve(leak)
