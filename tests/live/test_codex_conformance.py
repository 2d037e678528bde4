"""The promises of the agent port on the real Codex, driven natively.

All of them in every run: a server starts within half a second. What the real one cannot be brought
to (garbage, late words, an event without a session) is `absent` in the matrix, and shown by the
stand-in of tests/agents/codex.
"""

from __future__ import annotations

import sys

import pytest
from tests.live.codex import ASKS, codex_environment, command, delegation, permission

from upthread.agents.codex.adapter import CodexAdapter
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = [pytest.mark.live, pytest.mark.anyio]

WORDS = "lorem ipsum dolor " * 20
LARGE = "many words, " * 5_000 + "the end"


def bad_start(program):
    return CodexAdapter(command=[sys.executable, "-c", program])


def agent_under_test(binary, model, promise):
    has_to_ask = promise.needs in {"permission", "leaves"} and promise.number != "A14"
    settings = ASKS if has_to_ask else None

    def environment(place):
        return codex_environment(place / "home", model, settings=settings)

    return AgentUnderTest(
        name="codex",
        adapter=CodexAdapter(command=[str(binary), "app-server"]),
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
            Outcome.UNKNOWN: "[[FAIL 404 no such model]]",
            Outcome.RATE_LIMITED: "[[FAIL 429 retry-after=600 rate limit reached]]",
        },
        pieces=(f"[[SAY {WORDS}]]", WORDS[:-1]),
        hang=command("echo started; sleep 300"),
        permission=f"{permission('touch new.txt')} [[SAY done]]",
        leaves="new.txt",
        # Told of the child's end the parent goes on once more, and then tells what it was asked, in
        # JSON: escaped there, these words are never its own.
        child=f"{delegation('Look around. [[SAY écouté]]')} [[SAY done]]",
        child_words="écouté",
        usage=("[[USAGE 4321]] [[SAY ok]]", 4_321, None),
        large=(f"[[SAY {LARGE}]]", LARGE),
    )


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
async def test_codex_keeps_promise(promise, codex_binary, model, tmp_path, record_property):
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent_under_test(codex_binary, model, promise), tmp_path)
    finally:
        record_property("agent promise", (promise.name, "codex", str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"codex cannot be brought to show it: no {promise.needs}")
