"""JSON-RPC with one agent: answers find their questions, in whatever order, and their end."""

from contextlib import asynccontextmanager

import anyio
import pytest
from tests.agents.test_process import python

from upthread.agents._process import started_child
from upthread.agents.acp.adapter import AgentWords, Peer, RpcError
from upthread.agents.acp.wire import NO_QUIRK
from upthread.tasks import task_group

pytestmark = pytest.mark.anyio

HEAD = """
import json, sys
def read(): return json.loads(sys.stdin.readline())
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
"""


@asynccontextmanager
async def talking(program, tmp_path, *, on_request=None):
    """A peer of a program, and what the program told it."""
    told = []

    async def note(frame):
        told.append(frame.content["method"])

    async def refuse(method, _params):
        raise RpcError(-32601, "Method not found", {"method": method})

    start = python(HEAD + program, tmp_path)
    async with started_child(start) as child, task_group() as tasks:
        words = AgentWords(agent="agent", quirk=NO_QUIRK, now_ms=lambda: 0, home=tmp_path)
        asked = on_request or refuse
        peer = Peer(child, words, timeout_s=20, on_notification=note, on_request=asked)
        tasks.start_soon(peer.serve, tasks)
        yield peer, told
        tasks.cancel_scope.cancel()


async def test_answers_find_their_questions_in_whatever_order_they_come(tmp_path):
    program = """
asked = [read(), read()]
for each in reversed(asked): say(id=each["id"], result=each["params"])
"""
    found = {}
    async with talking(program, tmp_path) as (peer, _), anyio.create_task_group() as tasks:

        async def ask(name):
            found[name] = await peer.ask("echo", {"name": name})

        tasks.start_soon(ask, "one")
        tasks.start_soon(ask, "two")
    assert found == {name: {"name": name} for name in ("one", "two")}


async def test_a_refusal_is_an_error_with_its_code_and_what_it_brings(tmp_path):
    program = 'say(id=read()["id"], error={"code": -32000, "message": "no", "data": [1]})'
    async with talking(program, tmp_path) as (peer, _):
        with pytest.raises(RpcError, match="no") as refused:
            await peer.ask("anything", {})
    assert (refused.value.code, refused.value.data) == (-32000, [1])


async def test_what_is_told_comes_before_the_answer_that_was_written_after_it(tmp_path):
    program = """
asked = read()
for number in range(3): say(method=f"told/{number}", params={})
say(id=asked["id"], result=None)
"""
    async with talking(program, tmp_path) as (peer, told):
        assert await peer.ask("prompt", {}) is None
        assert told == ["told/0", "told/1", "told/2"]


async def test_a_question_of_the_agents_is_answered_while_ours_waits(tmp_path):
    program = """
ours = read()
say(id="a", method="may/i", params={"what": "it"})
may = read()
say(id="b", method="unknown", params={})
unknown = read()
say(id=ours["id"], result=[may, unknown])
"""

    async def decide(method, params):
        if method != "may/i":
            raise RpcError(-32601, "Method not found", {"method": method})
        return {"yes": params["what"]}

    async with talking(program, tmp_path, on_request=decide) as (peer, _):
        may, unknown = await peer.ask("prompt", {})
    assert may == {"jsonrpc": "2.0", "id": "a", "result": {"yes": "it"}}
    assert unknown["error"] == {
        "code": -32601, "message": "Method not found", "data": {"method": "unknown"},
    }  # fmt: skip


async def test_an_agent_that_ends_leaves_nobody_waiting_and_is_asked_nothing_more(tmp_path):
    async with talking("read()", tmp_path) as (peer, _):
        with pytest.raises(ConnectionError), anyio.fail_after(20):
            await peer.ask("prompt", {})
        with pytest.raises(ConnectionError):
            await peer.ask("prompt", {})
        await peer.send_cancel("s")


async def test_an_answer_that_nobody_waits_for_is_passed_over(tmp_path):
    program = """
say(id=77, result="nobody's")
asked = read()
say(id=asked["id"], result="first")
say(id=asked["id"], result="second")
say(id=read()["id"], result="next")
"""
    async with talking(program, tmp_path) as (peer, _):
        assert await peer.ask("one", {}) == "first"
        assert await peer.ask("two", {}) == "next"
