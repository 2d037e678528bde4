"""Every promise of the agent port on the rehearsal agent. The matrix is printed at the end.

Bad starts wait for time-outs: acp/test_adapter has them in the first set.
"""

import json
import re
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from tests.support.sets import spread

from upthread.agents import base
from upthread.agents.acp import AcpAdapter
from upthread.agents.registry import adapter_for
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

CRASHING = (sys.executable, "-I", "-c", "import sys; print('oh no', file=sys.stderr); sys.exit(7)")
HANGING = (sys.executable, "-I", "-c", "import time; time.sleep(60)")
BABBLING = (sys.executable, "-I", "-c", "while True: input(); print('babble', flush=True)")
CAPABILITIES = "UPTHREAD_REHEARSAL_CAPABILITIES"
ANSWER = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 99}}
OTHER_VERSION = (
    sys.executable,
    "-I",
    "-c",
    f"input(); print({json.dumps(ANSWER)!r}, flush=True); input()",
)


def rehearse(*words: str) -> str:
    return f"[[rehearse: {' '.join(words)}]]"


NAME = attrgetter("name")

REHEARSAL = AgentUnderTest(
    name="rehearsal",
    adapter=adapter_for("rehearsal"),
    environment=lambda place: {"UPTHREAD_REHEARSAL_HOME": str(place / "home")},
    start_timeout_s=20,
    bad_starts={
        "dies": AcpAdapter(agent="rehearsal", command=CRASHING),
        "hangs": AcpAdapter(agent="rehearsal", command=HANGING),
        "prints garbage": AcpAdapter(agent="rehearsal", command=BABBLING),
        "speaks another version": AcpAdapter(agent="rehearsal", command=OTHER_VERSION),
    },
    opaque={CAPABILITIES: "opaque_errors"},
    outcomes={
        Outcome.OK: rehearse("say", "done"),
        Outcome.RATE_LIMITED: rehearse("rate_limit", "30"),
        Outcome.TRANSIENT: rehearse("fail_as overloaded Busy"),
        Outcome.AUTH: rehearse("auth"),
        Outcome.CONTEXT_FULL: rehearse("fail_as context_full Full"),
        Outcome.MISSING: rehearse("lose_session"),
        Outcome.PROCESS_DIED: rehearse("crash"),
        Outcome.UNKNOWN: rehearse("stop", "on_strike"),
    },
    pieces=(rehearse("slow", "9", "1"), "".join(f"chunk {n} of 9\n" for n in range(1, 10))),
    odd_text=(rehearse("surrogate"), "half a pair \ud83d, a NUL \x00, and the end"),
    hang=rehearse("hang"),
    late=rehearse("late", "too late"),
    late_words="too late",
    unstamped=rehearse("unstamped", "whose?"),
    unknown_update=rehearse("unknown"),
    garbage=rehearse("garbage"),
    permission=rehearse("write", "note.txt", "hello"),
    leaves="note.txt",
    child=rehearse("child", "reviewer", "look at this"),
    child_words="I was asked: look at this",
    resets=rehearse("rate_limit", "30"),
    usage=(rehearse("tokens", "1200", "34"), 1_200, 34),
    large=(rehearse("big", "300000"), "x" * 300_000),
)


@pytest.mark.anyio
@pytest.mark.parametrize("agent", [REHEARSAL], ids=lambda agent: agent.name)
@pytest.mark.parametrize(
    "promise",
    spread(PROMISES, first=[each for each in PROMISES if each.needs != "bad_starts"], name=NAME),
)
async def test_agent_keeps_promise(promise, agent, tmp_path: Path, record_property):
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent, tmp_path)
    finally:
        record_property("agent promise", (promise.name, agent.name, str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"{agent.name} cannot be brought to show it: no {promise.needs}")


def test_every_numbered_promise_of_the_port_has_a_check():
    numbers = set(re.findall(r"^(A\d+) ", base.__doc__ or "", re.MULTILINE))
    assert {promise.number for promise in PROMISES} == numbers
