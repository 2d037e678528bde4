"""The promises of the agent port on the real Claude Code, driven natively.

What it cannot be brought to (garbage, late words, an event without a session) is `absent` in the
matrix.
"""

from __future__ import annotations

import sys

import pytest
from tests.live.claude_code import call, claude_environment, command, delegation

from upthread.agents.claude_code import ClaudeCodeAdapter
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = [pytest.mark.live, pytest.mark.anyio]

WORDS = "lorem ipsum dolor " * 20


def bad_start(program):
    return ClaudeCodeAdapter(command=[sys.executable, "-c", program])


def agent_under_test(binary, model):
    def environment(place):
        return claude_environment(place / "home", model)

    return AgentUnderTest(
        name="claude-code",
        adapter=ClaudeCodeAdapter(command=[str(binary)]),
        environment=environment,
        plain="The word is KIWI. [[SAY noted]]",
        unknown_session="00000000-0000-4000-8000-000000000000",
        bad_starts={
            "dies": bad_start("raise SystemExit(3)"),
            "prints garbage": bad_start("print('hello')"),
            "hangs": bad_start("import time; time.sleep(60)"),
        },
        outcomes={
            Outcome.OK: "[[SAY ok]]",
            Outcome.AUTH: "[[FAIL 401 invalid api key]]",
            Outcome.CREDIT_EXHAUSTED: "[[FAIL 400 Your credit balance is too low]]",
            Outcome.CONTEXT_FULL: "[[FAIL 400 context length]]",
            Outcome.TRANSIENT: "[[FAIL 500 boom]]",
            Outcome.UNKNOWN: "[[FAIL 404 no such model]]",
            Outcome.RATE_LIMITED: "[[FAIL 429 retry-after=0.1 rate limit reached]]",
        },
        pieces=(f"[[SAY {WORDS}]]", WORDS.strip()),
        odd_text=("[[SAY é 🎈 end]]", "é 🎈 end"),
        hang=command("echo started; sleep 300"),
        permission=f"{call('Write', file_path='new.txt', content='x')} [[SAY done]]",
        child=delegation("[[SAY child]]") + " [[SAY done]]",
    )


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
async def test_claude_code_keeps_promise(promise, claude_binary, model, tmp_path, record_property):
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent_under_test(claude_binary, model), tmp_path)
    finally:
        record_property("agent promise", (promise.name, "claude-code", str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"Claude Code cannot be brought to show it: no {promise.needs}")
