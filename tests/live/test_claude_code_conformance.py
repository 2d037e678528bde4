"""The promises of the agent port on the real Claude Code, driven natively.

Those that only it can show in every run, the others in the soak: tests/agents/claude_code holds a
stand-in to all of them. What the real one cannot be brought to (garbage, late words, an event
without a session) is `absent` in the matrix.
"""

from __future__ import annotations

import sys

import pytest
from tests.live.claude_code import call, claude_environment, command, delegation

from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = [pytest.mark.live, pytest.mark.anyio]

ALWAYS = frozenset(
    {
        "A1_leaving_in_the_middle_of_a_turn_ends_it",
        "A3_a_new_session_can_be_attached_before_any_prompt",
        "A5_load_returns_the_history_in_order",
        "A6_pieces_come_in_order_one_at_a_time",
        "A7_a_childs_words_are_the_childs",
        "A9_every_outcome_it_can_be_brought_to",
        "A11_a_deadline_ends_the_turn_not_the_session",
        "A12_an_odd_prompt_is_kept_identical",
        "A13_a_permission_given_is_an_event",
        "A13_a_permission_refused_is_an_event",
    }
)
PARAMETERS = [
    pytest.param(promise, id=promise.name, marks=() if promise.name in ALWAYS else pytest.mark.soak)
    for promise in PROMISES
]
WORDS = "lorem ipsum dolor " * 20
LARGE = "many words, " * 5_000 + "the end"


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
            Outcome.AUTH: "[[FAIL 401 invalid api key]]",
            Outcome.CREDIT_EXHAUSTED: "[[FAIL 400 Your credit balance is too low]]",
            Outcome.CONTEXT_FULL: "[[FAIL 400 context length]]",
            Outcome.RATE_LIMITED: "[[FAIL 429 retry-after=0.1 rate limit reached]]",
        },
        pieces=(f"[[SAY {WORDS}]]", WORDS.strip()),
        odd_text=("[[SAY é 🎈 end]]", "é 🎈 end"),
        hang=command("echo started; sleep 300"),
        permission=f"{call('Write', file_path='new.txt', content='x')} [[SAY done]]",
        leaves="new.txt",
        child_words="child",
        usage=("[[USAGE 4321]] [[SAY ok]]", 4_321, None),
        large=(f"[[SAY {LARGE}]]", LARGE),
        child=delegation("[[SAY child]]") + " [[SAY done]]",
    )


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("promise", PARAMETERS)
async def test_claude_code_keeps_promise(promise, claude_binary, model, tmp_path, record_property):
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent_under_test(claude_binary, model), tmp_path)
    finally:
        record_property("agent promise", (promise.name, "claude-code", str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"Claude Code cannot be brought to show it: no {promise.needs}")
