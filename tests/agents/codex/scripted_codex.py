"""A stand-in that speaks as `codex app-server` does, and misbehaves where the real one cannot.

What it does is said by the first word of a prompt. A thread is stored with its name or its first
turn.
"""

import json
import os
import secrets
import sys
import threading
import time
import uuid
from pathlib import Path

LATE_S = 0.1
TURN = "turn-1"
CHILD = "00000000-0000-4000-8000-000000000001"


class Codex:
    def __init__(self) -> None:
        self.loaded = set()
        self.names = {}
        self.stored = Path(os.environ["HOME"]) / "threads.json"
        self.asked = {}
        self.open_turn = {}
        self.reads_refused = 0

    # --- the wire --------------------------------------------------------------------------

    def write(self, **message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def tell(self, method, thread, **more):
        self.write(method=method, params={"threadId": thread, "turnId": TURN, **more})

    def take(self, line):
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            self.asked.pop(message["id"])(message)
        elif "id" in message:
            answer = getattr(self, method.replace("/", "_"), self.unknown)(params)
            if answer is not None:
                self.write(id=message["id"], **answer)
                self.after(method, params)

    def unknown(self, _params):
        return {"error": {"code": -32600, "message": "Invalid request: unknown variant"}}

    def after(self, method, params):
        if method == "turn/start" and params["threadId"] in self.loaded:
            self.turn(params["threadId"], params["input"][0]["text"])

    # --- threads ---------------------------------------------------------------------------

    def threads(self):
        return json.loads(self.stored.read_text()) if self.stored.exists() else {}

    def keep(self, thread, items=()):
        threads = self.threads()
        threads.setdefault(thread, []).extend(items)
        self.stored.write_text(json.dumps(threads))

    def initialize(self, params):
        return {"result": {"userAgent": f"{params['clientInfo']['name']}/0.169.0 (here)"}}

    def loading(self, thread):
        self.loaded.add(thread)
        return {"result": {"thread": {"id": thread}}}

    def thread_start(self, _params):
        return self.loading(str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)))

    def thread_name_set(self, params):
        self.keep(params["threadId"])
        self.names[params["threadId"]] = params["name"]
        return {"result": {}}

    def thread_resume(self, params):
        if os.environ.get("SCRIPTED_SAYS_IN_DATA"):
            return {"error": {"code": -32603, "message": "no", "data": {"reason": "it is frozen"}}}
        if params["threadId"] in self.threads():
            moved = os.environ.get("SCRIPTED_MOVES")
            return self.loading(moved or params["threadId"])
        message = f"no rollout found for thread id {params['threadId']}"
        return {"error": {"code": -32600, "message": message}}

    def thread_fork(self, params):
        forked = self.thread_start(params)["result"]["thread"]["id"]
        self.keep(forked, self.threads()[params["threadId"]])
        return self.loading(os.environ.get("SCRIPTED_MOVES") or forked)

    def thread_items_list(self, params):
        """Two items a page, as a long history has many."""
        items = self.threads()[params["threadId"]]
        start = int(params["cursor"] or 0)
        more = str(start + 2) if start + 2 < len(items) else None
        page = [{"item": item} for item in items[start : start + 2]]
        return {"result": {"data": page, "nextCursor": more}}

    def thread_list(self, _params):
        named = [(thread, self.names.get(thread)) for thread in self.threads()]
        data = [{"id": thread, "name": name, "preview": "p"} for thread, name in named]
        cursor = os.environ.get("SCRIPTED_CURSOR")
        if cursor not in {None, "1"}:
            cursor = secrets.token_hex(4)
        return {"result": {"data": data, "nextCursor": cursor}}

    def thread_read(self, params):
        if self.reads_refused:
            self.reads_refused -= 1
            message = "failed to read session metadata: rollout is empty"
            return {"error": {"code": -32603, "message": message}}
        return {"result": {"thread": {"id": params["threadId"], "agentRole": "explorer"}}}

    # --- turns -----------------------------------------------------------------------------

    def turn_start(self, params):
        if params["threadId"] in self.loaded:
            return {"result": {"turn": {"id": TURN}}}
        return {"error": {"code": -32600, "message": f"thread not found: {params['threadId']}"}}

    def turn_interrupt(self, params):
        if self.open_turn.get(params["threadId"]) == "deaf":
            return {"result": {}}
        self.end(params["threadId"], status="interrupted")
        return {"result": {}}

    def turn(self, thread, text):
        self.keep(thread, [{"type": "userMessage", "id": "u", "content": [{"text": text}]}])
        self.tell("turn/started", thread, turn={"id": TURN})
        getattr(self, text.split()[0], self.plain)(thread, text)

    def say(self, thread, text, *, turn=TURN):
        item = {"type": "agentMessage", "id": f"m{time.monotonic_ns()}", "text": text}
        self.keep(thread, [item])
        params = {"threadId": thread, "turnId": turn, "item": item}
        self.write(method="item/completed", params=params)

    def end(self, thread, *, status="completed", error=None):
        self.tell("turn/completed", thread, turn={"id": TURN, "status": status, "error": error})

    def plain(self, thread, text):
        self.say(thread, f"said: {text}")
        self.end(thread)

    def hang(self, thread, text):
        self.open_turn[thread] = text.split()[0]

    deaf = hang

    def spawn(self, thread, text):
        """A sub-agent whose thread cannot be read for as many times as the second word says."""
        self.reads_refused = int(text.split()[1])
        call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent"}
        self.tell("item/started", thread, item=call)
        self.tell("item/completed", thread, item={**call, "receiverThreadIds": [CHILD]})
        self.tell("turn/completed", CHILD, turn={"id": TURN, "status": "completed"})
        self.plain(thread, text)

    def late(self, thread, text):
        self.plain(thread, text)
        timer = threading.Timer(LATE_S, self.say, (thread, "too late"))
        timer.daemon = True
        timer.start()

    def stale(self, thread, text):
        """Words of a turn that is not this one."""
        self.say(thread, "of an earlier turn", turn="turn-0")
        self.plain(thread, text)

    def unstamped(self, thread, text):
        self.write(method="thread/quantum/changed", params={"spin": 1})
        self.plain(thread, text)

    def news(self, thread, text):
        self.tell("thread/quantum/changed", thread, spin=1)
        self.plain(thread, text)

    def garbage(self, thread, text):
        sys.stdout.write("{nonsense\n")
        self.plain(thread, text)

    def die(self, _thread, _text):
        os._exit(3)

    def limited(self, thread, _text):
        limits = {"primary": {"usedPercent": 100, "resetsAt": 1_800_000_000}}
        self.write(method="account/rateLimits/updated", params={"rateLimits": limits})
        error = {"message": "You've hit your usage limit.", "codexErrorInfo": "usageLimitExceeded"}
        self.end(thread, status="failed", error=error)

    def interrupted(self, thread, _text):
        self.end(thread, status="interrupted")

    def waits(self, thread, text):
        """A limit of the provider's, waited out in silence."""
        info = {"responseStreamDisconnected": {"httpStatusCode": 429}}
        error = {"message": "Reconnecting... 1/5", "codexErrorInfo": info}
        self.tell("error", thread, error=error, willRetry=True)
        self.hang(thread, text)

    def offline(self, thread, text):
        """No network, which is reported again and again."""
        error = {"message": "Reconnecting...", "codexErrorInfo": "responseStreamDisconnected"}
        self.hang(thread, text)
        for number in range(10):
            told = {"error": error, "willRetry": True}
            threading.Timer(number * LATE_S, self.tell, ("error", thread), told).start()

    def question(self, thread, text):
        def answered(message):
            assert message["result"] == {"answers": {}}
            self.plain(thread, text)

        self.request("item/tool/requestUserInput", thread, answered, questions=[])

    def permission(self, thread, text):
        """The second word is the request's method, the rest its members as JSON."""
        _, method, members = text.split(maxsplit=2)

        def answered(message):
            self.say(thread, json.dumps(message.get("result") or message["error"]))
            self.end(thread)

        change = {"path": "/work/a.txt", "kind": {"type": "add"}, "diff": "hello\n"}
        item = {"type": "fileChange", "id": "call-1", "changes": [change], "status": "inProgress"}
        self.tell("item/started", thread, item=item)
        self.request(method, thread, answered, itemId="call-1", **json.loads(members))

    def request(self, method, thread, answered, **more):
        self.asked[7] = answered
        self.write(id=7, method=method, params={"threadId": thread, "turnId": TURN, **more})


def main():
    codex = Codex()
    for line in sys.stdin:
        codex.take(line)


main()
