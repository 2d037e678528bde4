"""The promises of the agent port on the real OpenCode, driven natively and over ACP.

A few of them in every run, the whole suite in the soak: each starts an OpenCode of its own. What it
cannot be brought to (garbage, late words, an event without a session) is `absent` in the matrix.
"""

from __future__ import annotations

import json

import pytest
from tests.live.opencode import opencode_environment

from upthread.agents.acp import AcpAdapter
from upthread.agents.opencode.adapter import OpenCodeAdapter
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = [pytest.mark.live, pytest.mark.anyio]

ALWAYS = frozenset(
    {
        "A1_leaving_in_the_middle_of_a_turn_ends_it",
        "A4_an_unknown_session_is_missing_never_new",
        "A13_a_permission_given_is_an_event",
    }
)
ADAPTERS = {"opencode": OpenCodeAdapter, "opencode-acp": AcpAdapter}
LARGE = "many words, " * 5_000 + "the end"
WORDS = {"opencode": "serve", "opencode-acp": "acp"}
PARAMETERS = [
    pytest.param(promise, id=promise.name, marks=() if promise.name in ALWAYS else pytest.mark.soak)
    for promise in PROMISES
]


def call(tool, **arguments):
    return f"[[CALL {tool} {json.dumps(arguments)}]]"


def agent_under_test(name, binary, model):
    def environment(place):
        permission = {"edit": "ask", "bash": "allow", "external_directory": "allow"}
        return opencode_environment(place / "home", model, permission=permission)

    return AgentUnderTest(
        name=name,
        adapter=ADAPTERS[name](agent="opencode", command=[str(binary), WORDS[name]]),
        environment=environment,
        plain="The word is KIWI. [[SAY noted]]",
        unknown_session="ses_0000000000000000000000abcd",
        # Its errors are always opaque.
        opaque={"UPTHREAD_NOTHING_MORE": "1"},
        outcomes={
            Outcome.OK: "[[SAY ok]]",
            Outcome.AUTH: "[[FAIL 401 invalid api key]]",
            Outcome.RATE_LIMITED: "[[FAIL 429 retry-after=1 rate limit reached]]",
            Outcome.CREDIT_EXHAUSTED: "[[FAIL 400 Your credit balance is too low]]",
        },
        pieces=(f"[[SAY {'lorem ipsum dolor ' * 20}]]", "lorem ipsum dolor " * 19),
        odd_text=("[[SAY é 🎈 end]]", "é 🎈 end"),
        hang=call("bash", command="echo started; sleep 300", description="wait"),
        permission=f"{call('write', filePath='new.txt', content='x')} [[SAY done]]",
        leaves="new.txt",
        child_words="child",
        resets="[[FAIL 429 retry-after=1 rate limit reached]]" if name == "opencode" else None,
        large=(f"[[SAY {LARGE}]]", LARGE),
        child=call("task", description="sub", prompt="[[SAY child]]", subagent_type="general")
        + " [[SAY done]]",
    )


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("promise", PARAMETERS)
async def test_opencode_keeps_promise(
    promise, name, opencode_binary, model, tmp_path, record_property
):
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent_under_test(name, opencode_binary, model), tmp_path)
    finally:
        record_property("agent promise", (promise.name, name, str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"{name} cannot be brought to show it: no {promise.needs}")
