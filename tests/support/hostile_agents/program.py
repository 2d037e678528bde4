"""A hostile agent, to be run as a program: `program.py WIRE NEW_ID [the agent's own words…]`.

A prompt that holds `[[hostile: ACT NUMBER]]` gets that act; any other one, and any that holds
`[[sound]]`, gets a sound answer, so that what was attacked can be seen to go on. NEW_ID is the id
it answers a new session with.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from wires import WIRES, Acp, Wire

PIECE = "all work and no play makes jack a dull boy " * 25
NAMED = re.compile(r"\[\[hostile: (\w+)(?: (\d+))?\]\]")
SOUND = "[[sound]]"
IDLE_S = 60.0
WRITTEN_LEVELS_MAX = 900
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def text(wire: Wire, count: int) -> None:
    """Much text, in pieces."""
    for _ in range(count):
        wire.say(PIECE)
    wire.end()


def updates(wire: Wire, count: int) -> None:
    """Many small updates, each of another kind than the one before."""
    for number in range(count // 2):
        wire.say(f"{number} ")
        wire.think(f"{number} ")
    wire.end()


def calls(wire: Wire, count: int) -> None:
    """Many calls that are never answered."""
    for number in range(count):
        wire.call(f"c{number}", {"command": "true"}, title="true", kind="execute")
    wire.end()


def silent(wire: Wire, count: int) -> None:
    """Frames that say nothing: they become no event."""
    for _ in range(count):
        wire.raw(b'{"jsonrpc":"2.0","method":"x","type":"x","payload":{"type":"x"}}\n')
    wire.end()


def stderr(wire: Wire, count: int) -> None:
    """Much on stderr."""
    for _ in range(count):
        sys.stderr.write(PIECE + "\n")
    sys.stderr.flush()
    wire.say("done")
    wire.end()


def nested(wire: Wire, count: int) -> None:
    """An argument nested so many levels; more than Python can write go as they are."""
    wire.say("before ")
    if count > WRITTEN_LEVELS_MAX:
        wire.raw(b'{"a":' * count + b"1" + b"}" * count + b"\n")
    else:
        value: object = 1
        for _ in range(count):
            value = {"a": value}
        wire.call("c1", value, title="deep")
    wire.end()


def number(wire: Wire, count: int) -> None:
    """A token count with `count` digits."""
    wire.say("before ")
    wire.tokens(int("9" * count))
    wire.end()


def odd_numbers(wire: Wire, _count: int) -> None:
    """NaN, the infinities, and less than nothing, as token counts."""
    for value in (float("nan"), float("inf"), -float("inf"), 1e308, -1):
        wire.tokens(value)
    wire.say("said")
    wire.end()


def line(wire: Wire, count: int) -> None:
    """A line that never ends, of at least so many bytes."""
    for _ in range(count // 2**16):
        wire.raw(b"x" * 2**16)
    time.sleep(IDLE_S)


def frame(wire: Wire, count: int) -> None:
    """One sound frame with a text of so many bytes, the widest characters among them."""
    wire.say("\U0001f388" + "x" * count)
    wire.end()


def nodes(wire: Wire, count: int) -> None:
    """One frame of very many small values."""
    many: list[list[object]] = [[]] * count
    wire.call("c1", many, title="many")
    wire.end()


def long_id(wire: Wire, count: int) -> None:
    """A call whose id is very long."""
    wire.say("before ")
    wire.call("c" * count, {}, title="x")
    wire.end()


def garbage(wire: Wire, count: int) -> None:
    """Lines that are no JSON, and bytes that are no text."""
    for _ in range(count):
        wire.raw(b"\xff\xfe no json \x1b[2J\n")
    wire.say("said")
    wire.end()


def wrong_types(wire: Wire, _count: int) -> None:
    """Sound names with values of other types."""
    values: tuple[object, ...] = (7, None, [], {}, True, "x")
    for value in values:
        raw = {"jsonrpc": "2.0", "method": value, "type": value, "params": value, "payload": value}
        wire.raw(json.dumps(raw).encode() + b"\n")
        update = {"sessionId": value, "threadId": value, "update": value, "item": value}
        wire.raw(json.dumps({"method": "session/update", "params": update}).encode() + b"\n")
    wire.say("said")
    wire.end()


def replies(wire: Wire, count: int) -> None:
    """Answers to requests nobody made."""
    for number in range(count):
        answer = {"jsonrpc": "2.0", "id": 7_000_000 + number, "result": {"stopReason": "end_turn"}}
        wire.raw(json.dumps(answer).encode() + b"\n")
    wire.say("said")
    wire.end()


def twice(wire: Wire, _count: int) -> None:
    """An end, another end, and words after it."""
    wire.say("said")
    wire.end()
    wire.end()
    wire.say("late")


def forks(wire: Wire, _count: int) -> None:
    """A child that holds the pipes, while the agent itself ends."""
    subprocess.Popen([sys.executable, "-I", "-c", f"import time; time.sleep({IDLE_S})"])
    wire.say("before ")
    os._exit(0)


def closes(wire: Wire, _count: int) -> None:
    """Closes its stdout and lives."""
    wire.say("before ")
    os.close(1)
    time.sleep(IDLE_S)


def pushes(wire: Acp, _count: int) -> None:
    """Announces a push, then asks for it by its id alone, and does it when it may."""
    command = {"command": "touch pushed # git push origin main"}
    wire.call("c1", command, title="git push origin main", kind="execute")
    _do_if_allowed(wire, {"toolCallId": "c1"})


def pushes_unseen(wire: Acp, _count: int) -> None:
    """Asks for a call that was never announced, of no kind."""
    _do_if_allowed(wire, {"toolCallId": "c9", "title": "look around"})


def pushes_as_reading(wire: Acp, _count: int) -> None:
    """Asks for a push as if it were reading."""
    told = {"title": "Read README", "kind": "read", "rawInput": {"command": "git push"}}
    _do_if_allowed(wire, {"toolCallId": "c2", **told})


HIDDEN: tuple[dict[str, object], ...] = (
    {"rawInput": {"cmd": "git push"}},
    {"rawInput": {"args": {"command": "git push"}}},
    {"rawInput": json.dumps({"Script": "git push"})},
    {"title": "`git push`"},
    {"content": [{"type": "terminal", "terminalId": "t1"}]},
    {"content": [{"type": "diff", "path": "a.txt", "oldText": None, "newText": "x"}]},
)


def pushes_hidden(wire: Acp, count: int) -> None:
    """Asks for something as if it were reading, with what it is elsewhere than in `command`."""
    told = {"toolCallId": "c5", "title": "Read README", "kind": "read"}
    _do_if_allowed(wire, told | HIDDEN[count - 1])


def shows_then_pushes(wire: Acp, _count: int) -> None:
    """Announces reading that shows a terminal, then asks for it by its id alone."""
    told = {"toolCallId": "c6", "title": "Read README", "kind": "read"}
    shown = [{"type": "terminal", "terminalId": "t1"}]
    wire.update(sessionUpdate="tool_call", content=shown, **told)
    _do_if_allowed(wire, {"toolCallId": "c6"})


def pushes_again(wire: Acp, _count: int) -> None:
    """Announces a push, says that it is done, then asks for it by its id as if it were reading."""
    wire.call("c7", {"command": "git push"}, title="git push", kind="execute")
    wire.update(sessionUpdate="tool_call_update", toolCallId="c7", status="completed")
    _do_if_allowed(wire, {"toolCallId": "c7", "title": "Read README", "kind": "read"})


def pushes_elsewhere(wire: Acp, _count: int) -> None:
    """Announces a push under a session that is not prompted, and asks in the one that is."""
    told = {"title": "git push", "kind": "execute", "rawInput": {"command": "git push"}}
    wire.update(sessionUpdate="tool_call", toolCallId="c3", session="ses_elsewhere", **told)
    _do_if_allowed(wire, {"toolCallId": "c3"})


def asks(wire: Wire, count: int) -> None:
    """Asks very often, and waits for no answer."""
    for number in range(count):
        call = {"toolCallId": f"c{number}"}
        params = {"sessionId": wire.session, "toolCall": call, "options": OPTIONS}
        request = {"id": 9_000_000 + number, "params": params, "jsonrpc": "2.0"}
        wire.raw(json.dumps({**request, "method": "session/request_permission"}).encode() + b"\n")
    wire.end()


def options(wire: Acp, count: int) -> None:
    """Offers very many options."""
    many = [{"optionId": f"{number}", "kind": "allow_once"} for number in range(count)]
    call = {"toolCallId": "c1", "title": "x"}
    wire.ask("session/request_permission", {"toolCall": call, "options": many})
    wire.end()


def claims(wire: Acp, _count: int) -> None:
    """Says that the session `ses_held` is a sub-agent of its own."""
    wire.say("before ")
    wire.update(sessionUpdate="subagent_update", sessionId="ses_held", state={"state": "running"})
    wire.end()


def stamps(wire: Acp, _count: int) -> None:
    """Stamps its words with a session that is another conversation's."""
    content = {"type": "text", "text": "forged"}
    wire.update(sessionUpdate="agent_message_chunk", content=content, session="ses_held")
    wire.say("own words")
    wire.end()


def _do_if_allowed(wire: Acp, call: dict[str, object], offered: object = OPTIONS) -> None:
    answer = wire.ask("session/request_permission", {"toolCall": call, "options": offered})
    if answer["outcome"].get("optionId") == "yes":
        Path("pushed").write_text("done")
    wire.say(json.dumps(answer))
    wire.end()


def lying_options(wire: Acp, _count: int) -> None:
    """Options whose kinds say the opposite of what their ids do."""
    offered = [
        {"optionId": "yes", "name": "No", "kind": "reject_once"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "allow_always", "name": "No", "kind": "reject_always"},
    ]
    call = {"toolCallId": "c4", "title": "git push", "kind": "execute"}
    _do_if_allowed(wire, call, offered)


def only_for_ever(wire: Acp, _count: int) -> None:
    """Offers no yes but one that holds for ever."""
    offered = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "c8", "title": "git push", "kind": "execute"}
    _do_if_allowed(wire, call, offered)


def prints(wire: Acp, count: int) -> None:
    """Calls that end, each of which has printed 8 MB."""
    content = [{"type": "content", "content": {"type": "text", "text": "x" * 8_000_000}}]
    for number in range(count):
        call_id = f"c{number}"
        wire.call(call_id, {"path": "a"}, title="Read a", kind="read")
        ended = {"sessionUpdate": "tool_call_update", "status": "completed"}
        wire.update(toolCallId=call_id, content=content, **ended)
    wire.end()


def client_methods(wire: Acp, _count: int) -> None:
    """Asks for files and terminals of the client."""
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
        wire.say(json.dumps(wire.ask(method, {"path": "/etc/shadow", "content": "x"})))
    wire.end()


ACTS: Mapping[str, Callable[[Any, int], None]] = {
    act.__name__: act
    for act in (
        *(text, updates, calls, silent, stderr, nested, number, odd_numbers, line, frame, nodes),
        *(long_id, garbage, wrong_types, replies, twice, forks, closes, pushes, pushes_unseen),
        *(pushes_hidden, shows_then_pushes, pushes_again, only_for_ever, prints),
        *(pushes_as_reading, pushes_elsewhere, lying_options, client_methods, claims, stamps),
        *(asks, options),
    )
}


def act(wire: Wire, prompt: str) -> None:
    """Do what a prompt names, and answer any other one soundly."""
    named = NAMED.search(prompt)
    if named is None or SOUND in prompt:
        wire.say("said: a sound answer")
        wire.end()
    else:
        ACTS[named[1]](wire, int(named[2] or 1))


if __name__ == "__main__":
    WIRES[sys.argv[1]].speaker(sys.argv[2]).serve(act)
