"""The promises of the agent port on the real agents, driven natively, and on OpenCode over ACP.

`make test-all` runs the promises that only a real agent can show, and all promises of Codex, which
starts in half a second. `make soak` runs the rest: stand-ins in tests/agents keep all promises. A
promise that the real agent cannot be brought to break (garbage, late words) is `absent` in the
matrix.
"""

import sys

import pytest
from tests.live import claude_code, codex, opencode
from tests.support.sets import EXTENDED, SOAK

from upthread.agents.acp import AcpAdapter
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.agents.codex.adapter import CodexAdapter
from upthread.agents.opencode.adapter import OpenCodeAdapter
from upthread.core.types import Outcome
from upthread.testing.agent_conformance import PROMISES, AgentUnderTest, Verdict

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(300)]

LEAVES = "A1_leaving_in_the_middle_of_a_turn_ends_it"
UNKNOWN = "A4_an_unknown_session_is_missing_never_new"
LOADS = "A5_a_history_holds_every_turn_once_in_order"
CHILD = "A7_a_childs_words_are_the_childs"
OUTCOMES = "A9_every_outcome_it_can_be_brought_to"
PERMISSION = "A13_a_permission_given_is_an_event"

FIRST = {
    "claude-code": {LOADS, OUTCOMES, PERMISSION},
    "codex": {LEAVES, UNKNOWN, LOADS, CHILD, OUTCOMES, PERMISSION},
    "opencode": {PERMISSION},
    "opencode-acp": {UNKNOWN},
}
LATER = {
    "claude-code": {
        *(LEAVES, CHILD, "A13_a_permission_refused_is_an_event"),
        "A3_a_new_session_can_be_attached_before_any_prompt",
        "A6_pieces_come_in_order_one_at_a_time",
        "A11_a_deadline_ends_the_turn_not_the_session",
        "A12_an_odd_prompt_is_kept_identical",
    },
    "codex": {promise.name for promise in PROMISES},
    "opencode": {LEAVES, UNKNOWN},
    "opencode-acp": {LEAVES, PERMISSION},
}
"""The promises of each agent that `make test-all` adds to those of `make test`."""

WORDS = "lorem ipsum dolor " * 20
LARGE = "many words, " * 5_000 + "the end"
OUTCOME_PROMPTS = {
    Outcome.AUTH: "[[FAIL 401 invalid api key]]",
    Outcome.CREDIT_EXHAUSTED: "[[FAIL 400 Your credit balance is too low]]",
}
CONTEXT_FULL = {Outcome.CONTEXT_FULL: "[[FAIL 400 context length]]"}
OF_ALL = {
    "plain": "The word is KIWI. [[SAY noted]]",
    "unknown_session": "00000000-0000-4000-8000-000000000000",
    "leaves": "new.txt",
    "child_words": "child",
    "odd_text": ("[[SAY é 🎈 end]]", "é 🎈 end"),
    "large": (f"[[SAY {LARGE}]]", LARGE),
}


def limited(retry_after_s: float) -> dict[Outcome, str]:
    limit = f"[[FAIL 429 retry-after={retry_after_s} rate limit reached]]"
    return {Outcome.RATE_LIMITED: limit}


def bad_starts(adapter):
    """Programs in the place of an agent: one that dies, one that prints garbage, one that hangs."""
    programs = {
        "dies": "raise SystemExit(3)",
        "prints garbage": "print('hello')",
        "hangs": "import time; time.sleep(60)",
    }
    return {what: adapter(command=[sys.executable, "-c", each]) for what, each in programs.items()}


def claude_under_test(binary, model, _promise):
    write = claude_code.call("Write", file_path="new.txt", content="x")
    return AgentUnderTest(
        **OF_ALL,
        name="claude-code",
        adapter=ClaudeCodeAdapter(command=[str(binary)]),
        environment=lambda place: claude_code.claude_environment(place / "home", model),
        bad_starts=bad_starts(ClaudeCodeAdapter),
        outcomes={**OUTCOME_PROMPTS, **CONTEXT_FULL, **limited(0.1)},
        pieces=(f"[[SAY {WORDS}]]", WORDS.strip()),
        hang=claude_code.command("echo started; sleep 300"),
        permission=f"{write} [[SAY done]]",
        usage=("[[USAGE 4321]] [[SAY ok]]", 4_321, None),
        child=claude_code.delegation("[[SAY child]]") + " [[SAY done]]",
    )


def codex_under_test(binary, model, promise):
    has_to_ask = promise.needs in {"permission", "leaves"} and promise.number != "A14"
    settings = codex.ASKS if has_to_ask else None
    # Told of the child's end, Codex's parent continues once more and repeats what it was asked as
    # JSON. Escaped there, these words are never the parent's.
    child_words = "écouté"
    more = {"odd_text": None, "child_words": child_words}
    return AgentUnderTest(
        **{**OF_ALL, **more},
        name="codex",
        adapter=CodexAdapter(command=[str(binary), "app-server"]),
        environment=lambda place: codex.codex_environment(place / "home", model, settings=settings),
        bad_starts=bad_starts(CodexAdapter),
        outcomes={
            **OUTCOME_PROMPTS,
            **CONTEXT_FULL,
            **limited(600),
            Outcome.OK: "[[SAY ok]]",
            Outcome.UNKNOWN: "[[FAIL 404 no such model]]",
        },
        pieces=(f"[[SAY {WORDS}]]", WORDS[:-1]),
        hang=codex.command("echo started; sleep 300"),
        permission=f"{codex.permission('touch new.txt')} [[SAY done]]",
        child=f"{codex.delegation(f'Look around. [[SAY {child_words}]]')} [[SAY done]]",
        usage=("[[USAGE 4321]] [[SAY ok]]", 4_321, None),
    )


def opencode_under_test(binary, model, _promise, *, name="opencode"):
    adapter, word = {
        "opencode": (OpenCodeAdapter, "serve"),
        "opencode-acp": (AcpAdapter, "acp"),
    }[name]
    permission = {"edit": "ask", "bash": "allow", "external_directory": "allow"}
    write = opencode.call("write", filePath="new.txt", content="x")
    return AgentUnderTest(
        **{**OF_ALL, "unknown_session": "ses_0000000000000000000000abcd"},
        name=name,
        adapter=adapter(agent="opencode", command=[str(binary), word]),
        environment=lambda place: opencode.opencode_environment(
            place / "home", model, permission=permission
        ),
        opaque={"UPTHREAD_NOTHING_MORE": "1"},  # its errors are always opaque
        outcomes={**OUTCOME_PROMPTS, **limited(1), Outcome.OK: "[[SAY ok]]"},
        pieces=(f"[[SAY {WORDS}]]", "lorem ipsum dolor " * 19),
        hang=opencode.command("echo started; sleep 300"),
        permission=f"{write} [[SAY done]]",
        resets=limited(1)[Outcome.RATE_LIMITED] if name == "opencode" else None,
        child=opencode.delegation("[[SAY child]]") + " [[SAY done]]",
    )


def opencode_over_acp_under_test(binary, model, promise):
    return opencode_under_test(binary, model, promise, name="opencode-acp")


UNDER_TEST = {
    "claude-code": ("claude_binary", claude_under_test),
    "codex": ("codex_binary", codex_under_test),
    "opencode": ("opencode_binary", opencode_under_test),
    "opencode-acp": ("opencode_binary", opencode_over_acp_under_test),
}


def cases():
    for name in UNDER_TEST:
        for promise in PROMISES:
            is_first, is_later = promise.name in FIRST[name], promise.name in LATER[name]
            marks = () if is_first else EXTENDED if is_later else SOAK
            yield pytest.param(name, promise, marks=marks, id=f"{name}-{promise.name}")


@pytest.mark.parametrize(("name", "promise"), list(cases()))
async def test_a_real_agent_keeps_promise(name, promise, model, request, tmp_path, record_property):
    fixture, under_test = UNDER_TEST[name]
    agent = under_test(request.getfixturevalue(fixture), model, promise)
    verdict = "BROKEN"
    try:
        verdict = await promise.run(agent, tmp_path)
    finally:
        record_property("agent promise", (promise.name, name, str(verdict)))
    if verdict is Verdict.ABSENT:
        pytest.skip(f"{name} cannot be brought to show it: no {promise.needs}")


def test_each_promise_that_is_named_here_is_a_promise_of_the_port():
    named = {name for table in (FIRST, LATER) for names in table.values() for name in names}
    assert named <= {promise.name for promise in PROMISES}
