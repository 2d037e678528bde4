# ruff: noqa: ARG005, T201  # every behaviour has one signature
"""A tiny ACP agent for bad behaviour: raw standard library, one misbehaviour named on its command
line. Prompts may name one more, `[[WORD]]`. It keeps no sessions beyond the ids it was told exist.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

WORD = sys.argv[1] if len(sys.argv) > 1 else "well"
REFUSING = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
"""A file with what is refused, by method, in which words, or with code and words. Without words the
agent dies, with a number it says so many MiB first, and with `hangs` it reads no more. It has no
history to load, so that with a file it announces a load only to refuse it, and then it serves one
session in each process. `old session/prompt` is refused by an opened session only."""
SESSION = os.environ.get("SCRIPTED_SESSION", "ses_scripted")
LISTED = os.environ.get("SCRIPTED_LISTED", SESSION).split(",")
NAME = os.environ.get("SCRIPTED_NAME", "scripted")
GATE = threading.Event()
COUNTER = {"asked": 1000, "opened": 0, "new": 0}
ANSWERS = {}
ANNOUNCED = {}


def put(raw):
    sys.stdout.buffer.write(raw if isinstance(raw, bytes) else raw.encode() + b"\n")
    sys.stdout.buffer.flush()


def send(*messages: dict):
    """Write messages in one piece, so that the later ones follow the first at once."""
    put("\n".join(json.dumps({"jsonrpc": "2.0", **message}) for message in messages))


def update(session, **content):
    params = {"update": content}
    if session is not None:
        params["sessionId"] = session
    send({"method": "session/update", "params": params})


def say(session, text, **more):
    content = {"type": "text", "text": text}
    update(session, sessionUpdate="agent_message_chunk", content=content, **more)


def answer(request, result):
    send({"id": request["id"], "result": result})


def refuse(request, code, message, data=None):
    send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})


def stop(request, reason="end_turn", **more):
    answer(request, {"stopReason": reason, **more})


def start():
    print("scripted agent says hello on stderr", file=sys.stderr, flush=True)
    if WORD == "dies":
        sys.exit(7)
    if WORD == "garbage":
        put("Welcome to the agent!\nThis is no JSON")
        sys.exit(7)
    if WORD == "babbles":
        put("Welcome to the agent!")
        time.sleep(60)
    if WORD == "banner":
        put("Welcome to the agent!")
    if WORD == "hangs":
        time.sleep(60)
    if WORD == "closes_stdout":
        os.close(1)
        time.sleep(60)
    if WORD == "ignores_term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if WORD == "grandchild":
        idle = [sys.executable, "-I", "-c", "import time; time.sleep(600)"]
        held = subprocess.Popen(idle)
        detached = subprocess.Popen(idle, start_new_session=True)
        print(f"grandchildren {held.pid} {detached.pid}", file=sys.stderr, flush=True)


def initialize(request):
    ANNOUNCED.update(request["params"]["clientCapabilities"])
    if WORD == "not_acp":
        return answer(request, ["what?"])
    version = 99 if WORD == "other_version" else 1
    sessions = {"resume": {}, "list": None if WORD == "no_list" else {}, "fork": {}}
    sessions |= {"resume": None} if WORD == "no_resume" else {}
    loads = "session/load" in REFUSING.read_text() if REFUSING else "resume" not in WORD
    told = {
        "protocolVersion": version,
        "agentCapabilities": {"loadSession": loads, "sessionCapabilities": sessions},
        "agentInfo": {"name": NAME, "version": "1.2.3"},
    }
    return answer(request, told)


def attach(request):
    session = request["params"]["sessionId"]
    if WORD == "other_session":
        return answer(request, {"sessionId": "ses_other"})
    if WORD in {"opaque", "endless_list"}:
        return refuse(request, -32603, "Internal error")
    if session not in LISTED and REFUSING is None and WORD != "attaches_all":
        return refuse(request, -32002, "Resource not found", {"sessionId": session})
    if request["method"] == "session/load":
        for number in range(3):
            content = {"type": "text", "text": f"asked {number}"}
            update(session, sessionUpdate="user_message_chunk", content=content)
            say(session, f"answered {number}", messageId=f"m{number}")
    return answer(request, {})


def listed(request):
    """One session a page, so that whoever confirms has to turn pages."""
    page, is_endless = int(request["params"].get("cursor") or 0), WORD == "endless_list"
    time.sleep(0.2 if is_endless else 0)
    sessions = [{"sessionId": one, "cwd": "/", "title": None} for one in LISTED[page : page + 1]]
    more = {"nextCursor": str(page + 1)} if is_endless or page + 1 < len(LISTED) else {}
    answer(request, {"sessions": sessions, **more})


def ask(method, params):
    """Ask the client, and wait for what it answers."""
    COUNTER["asked"] += 1
    number = COUNTER["asked"]
    ANSWERS[number] = threading.Event(), []
    send({"id": number, "method": method, "params": params})
    ANSWERS[number][0].wait(30)
    return ANSWERS[number][1][0]


def prompt(request):
    session = request["params"]["sessionId"]
    text = request["params"]["prompt"][0]["text"]
    word = text.split("[[", 1)[1].rpartition("]]")[0].split() if "[[" in text else ["echo"]
    PROMPTS[word[0]](request, session, word[1:], text)


def echo(request, session, words, text):
    say(session, text, messageId="m1")
    usage = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}
    stop(request, usage=usage if REFUSING is None else {})


def flood(request, session, words, text):
    for number in range(int(words[0])):
        say(session, f"{number}\n")
        print(number, file=sys.stderr, flush=True)
    stop(request)


def big(request, session, words, text):
    say(session, "x" * int(words[0]))
    stop(request)


def odd(request, session, words, text):
    say(session, "nul \0 lone \ud83d end")
    put(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"half \xf0\x9f"}}\n')
    put("[1, 2]\n42\nnot json at all")
    put('{"jsonrpc":"2.0","id":[1],"result":{}}')
    put('{"jsonrpc":"2.0","id":true,"result":{"stopReason":"refusal"}}')
    put('{"jsonrpc":"2.0","method":"_vendor/note","params":{"sessionId":"' + session + '"}}')
    update(session, sessionUpdate="hologram", shape="round")
    update(session, sessionUpdate="tool_call_update", toolCallId=5)
    say(None, "unstamped")
    say(session, "after")
    stop(request)


def hang(request, session, words, text):
    say(session, "thinking", messageId="m-aborted")
    GATE.wait(60)
    if WORD != "ignores_cancel":
        say(session, "late by cancel", messageId="m-aborted")
        ended = {"id": request["id"], "result": {"stopReason": words[0] if words else "cancelled"}}
        content = {"type": "text", "text": "later still"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": session, "update": update}
        send(ended, {"method": "session/update", "params": params})


def leftover(request, session, words, text):
    """Words of the turn that was cancelled, in the middle of the next one."""
    say(session, "much later", messageId="m-aborted")
    stop(request)


def permission(request, session, words, text):
    update(session, sessionUpdate="tool_call", toolCallId="c1", title="rm", kind="execute")
    call = {"toolCallId": "c1", "title": "rm -r build", "kind": "execute", "rawInput": {"a": 1}}
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    asked = {"toolCall": {**call, "locations": [{"path": "build"}]}, "options": options}
    said = ask("session/request_permission", {"sessionId": session, **asked})
    say(session, json.dumps(said))
    stop(request)


def foreign(request, session, words, text):
    params = {"sessionId": session, **json.loads(" ".join(words[1:]))}
    say(session, json.dumps(ask(words[0], params)))
    stop(request)


PROMPTS = {
    "echo": echo,
    "flood": flood,
    "big": big,
    "odd": odd,
    "hang": hang,
    "leftover": leftover,
    "permission": permission,
    "foreign": foreign,
    "announced": lambda request, session, words, text: (
        say(session, json.dumps(ANNOUNCED)),
        stop(request),
    ),
    "stop": lambda request, session, words, text: stop(request, words[0]),
    "error": lambda request, session, words, text: refuse(
        request, int(words[0]), *json.loads(" ".join(words[1:]))
    ),
    "refused_after": lambda request, session, words, text: (
        update(session, **json.JSONDecoder().raw_decode(" ".join(words))[0]),
        refuse(request, -32603, "no such model"),
    ),
    "result": lambda request, session, words, text: answer(request, json.loads(" ".join(words))),
    "raw": lambda request, session, words, text: (put(" ".join(words)), stop(request)),
    "exit": lambda request, session, words, text: os._exit(int(words[0])),
    "close": lambda request, session, words, text: (os.close(1), time.sleep(60)),
}


def new(request):
    if REFUSING is not None and COUNTER["opened"]:
        return refuse(request, -32603, "this process has had its session")
    COUNTER["new"] += 1
    session = SESSION if REFUSING is None else f"{SESSION}_{os.getpid()}"
    session = json.loads(REFUSING.read_text()).get("id", session) if REFUSING else session
    return answer(request, {} if WORD == "no_id" else {"sessionId": session})


METHODS = {
    "initialize": initialize,
    "session/new": new,
    "session/load": attach,
    "session/resume": attach,
    "session/list": listed,
    "session/fork": lambda request: answer(request, {"sessionId": "ses_forked"}),
}


def handle(message):
    if f"hangs_in_{message.get('method')}" == WORD:
        return
    refused, method = json.loads(REFUSING.read_text()) if REFUSING else {}, message.get("method")
    COUNTER["opened"] += method in ("session/load", "session/resume")
    words = refused.get(method, None if COUNTER["new"] else refused.get(f"old {method}"))
    if words == "hangs":
        time.sleep(600)
    if words == "":
        os._exit(3)
    for _ in range(words if isinstance(words, int) else 0):
        say(SESSION, "x" * 2**20)
    if isinstance(words, (str, list)):
        refuse(message, *([-32603, words] if isinstance(words, str) else words))
    elif message.get("method") == "session/prompt":
        threading.Thread(target=prompt, args=(message,), daemon=True).start()
    elif message.get("method") == "session/cancel":
        GATE.set()
    elif message.get("method") in METHODS:
        METHODS[message["method"]](message)
    elif "method" not in message:
        event, said = ANSWERS[message["id"]]
        said.append(message.get("result", message.get("error")))
        event.set()


start()
for line in sys.stdin:
    handle(json.loads(line))
if WORD == "ignores_term":
    time.sleep(600)
