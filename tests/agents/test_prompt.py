"""What was said of a call stays for the whole turn, bounded, and what is forgotten is not known."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from upthread.agents import _prompt
from upthread.agents._prompt import (
    TELLINGS_OF_CALL_MAX,
    UNSETTLED,
    VARIABLE,
    CallListener,
    ToldOfCalls,
    listening,
)
from upthread.agents.base import CallAnswer
from upthread.core.shell.expected_call import Told

READS = Told(title="Read", tool_kind="read")


def test_all_that_was_said_of_a_call_is_kept_once_and_of_another_nothing():
    told = ToldOfCalls()
    other = Told(tool_kind="execute")
    for each in (READS, other, READS, Told()):
        told.note("c1", each)
    assert told.of("c1") == (READS, other)
    assert told.of("c2") == told.of(None) == ()


def test_a_call_told_in_very_many_ways_is_of_no_settled_kind():
    told = ToldOfCalls()
    for number in range(TELLINGS_OF_CALL_MAX + 1):
        told.note("c1", Told(title=str(number), tool_kind="read"))
    assert len(told.of("c1")) == TELLINGS_OF_CALL_MAX
    assert told.of("c1")[-1].tool_kind == UNSETTLED


@pytest.mark.parametrize(("limit", "most"), [("CALLS_TOLD_MAX", 2), ("TOLD_BYTES_MAX", 1_000)])
def test_what_may_have_been_forgotten_is_of_no_settled_kind(monkeypatch, limit, most):
    monkeypatch.setattr(_prompt, limit, most)
    told = ToldOfCalls()
    for number in range(20):
        told.note(f"c{number}", READS)
    assert READS in told.of("c19")
    assert told.of("c0") == (Told(tool_kind=UNSETTLED),)
    told.note("c0", READS)
    assert told.of("c0") == (Told(tool_kind=UNSETTLED), READS)


# --- more -----------------------------------------------------------------------------------------

# Who is asked before a call: on loopback, by whoever knows the token, one question at a time.


PUSH = CallAnswer(answered_by="the test", why="it pushes")
HELD, FREE = {"held": "upthread: it pushes"}, {"held": ""}

pytestmark = pytest.mark.anyio


async def say(listener: CallListener, line: bytes) -> bytes:
    """Send a line to where the agent would; return all that comes back."""
    host, port, _token = listener.environment[VARIABLE].split(" ")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(line)
        await stream.send_eof()
        answer = b""
        with anyio.fail_after(30):
            while True:
                try:
                    answer += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return answer


def question(listener: CallListener, **more: object) -> bytes:
    return json.dumps({"token": listener.token, "tool": "bash", **more}).encode() + b"\n"


async def only_pushes(told: Mapping[str, Any]) -> CallAnswer | None:
    return PUSH if told.get("arguments") == "git push" else None


async def test_a_call_is_held_where_the_judge_says_so_and_runs_else():
    async with listening() as listener:
        assert json.loads(await say(listener, question(listener, arguments="git push"))) == FREE
        listener.hold = only_pushes  # before, there was no prompt to judge by
        held = json.loads(await say(listener, question(listener, arguments="git push")))
        runs = json.loads(await say(listener, question(listener, arguments="ls")))
    assert (held, runs) == (HELD, FREE)


async def test_who_does_not_know_the_token_gets_no_answer_and_is_not_judged():
    asked = []

    async def hold(told: Mapping[str, Any]) -> CallAnswer | None:
        asked.append(told)
        return None

    async with listening() as listener:
        listener.hold = hold
        for token in ("", "wrong", listener.token[:-1], None, 7):
            assert await say(listener, question(listener, token=token)) == b""
    assert asked == []


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"{\n", b"[]\n", b"\xff\xfe\n", b"no end", b'{"token":"\\ud800"}\n'),
        b"[" * 200 + b"\n",
    ],
)
async def test_what_is_no_question_gets_no_answer_and_ends_nothing(line):
    async with listening() as listener:
        listener.hold = only_pushes
        assert await say(listener, line) == b""
        assert json.loads(await say(listener, question(listener, arguments="git push"))) == HELD


async def test_a_slow_judge_holds_up_nobody_else():
    async def hold(told: Mapping[str, Any]) -> CallAnswer | None:
        if told.get("arguments") == "slow":
            await anyio.sleep_forever()
        return None

    async with listening() as listener, anyio.create_task_group() as tasks:
        listener.hold = hold
        tasks.start_soon(say, listener, question(listener, arguments="slow"))
        assert json.loads(await say(listener, question(listener))) == FREE
        tasks.cancel_scope.cancel()


async def test_each_start_has_a_token_of_its_own_and_is_on_loopback():
    async with listening() as one, listening() as other:
        assert one.token != other.token
        assert one.environment[VARIABLE].startswith("127.0.0.1 ")
    with pytest.raises(OSError):
        await say(one, question(one))
