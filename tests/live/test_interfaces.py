"""The interactive interfaces of the real agents: what a person sees there of upthread, and what
upthread says afterwards, through a first start, a second one, and a window nearly full.
What is known after a kill is in test_killed_agents.py.

One person sits at one desk for each agent. What comes later stands on what came before, as it does
for people, so that each agent is started twice in all.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.live.agents import WAYS
from tests.live.interfaces import INTERFACES, Desk, wait_replied, wait_told
from tests.live.shell import agents_left
from tests.live.terminal import Terminal
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED

from upthread.core.decision.words import RESUME, START_FRESH, intention_in_words
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(600)]

FIRST, FULL = "spec-1", "spec-3"
"""The workstreams of the scenarios, each one's own."""


def of(agent: str):
    """A test's parameter: all of one agent's tests run in one worker, in the order of this file."""
    # OpenCode takes three seconds to start here, so its interface is for `make soak`.
    slow = [pytest.mark.soak] if agent == "opencode" else []
    return pytest.param(agent, marks=[pytest.mark.xdist_group(f"interface-{agent}"), *slow])


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a person was told of one delegation, and what its sub-agent was shown."""

    line: str
    session: str
    shown: str


@pytest.fixture(scope="module", params=[of(agent) for agent in INTERFACES])
def desk(request, tmp_path_factory) -> Iterator[Desk]:
    interface = INTERFACES[request.param]
    binary = request.getfixturevalue(WAYS[interface.agent].fixture)
    directory = tmp_path_factory.mktemp("desk")
    with RehearsalModel() as model:
        yield Desk(interface, binary, model, directory)
    assert model.violations == []
    assert agents_left(directory) == []


def told_of(
    desk: Desk, terminal: Terminal, step: str, *parts: str, answer: str, reply: str
) -> Told:
    """Have the main session take a step that delegates; see upthread's line, and both replies."""
    before = len(desk.model.model_requests)
    desk.ask(terminal, f"Go. {step} [[SAY {reply}]]")
    line = wait_told(terminal, *parts)
    wait_replied(terminal, reply)
    terminal.wait_until(lambda: desk.has_answered(answer), f"answer {answer!r}", within_s=60)
    workstream = parts[0].partition("/")[0]
    shown = [json.dumps(request.body) for request in desk.model.model_requests[before:]]
    return Told(
        line=line,
        session=desk.agent.planner(workstream, turns=1)["upstream_session_id"],
        shown="\n".join(shown),
    )


# --- a first start, and a second one -------------------------------------------------------------


@pytest.fixture(scope="module")
def first(desk) -> Told:
    with desk.at_the_agent() as terminal:
        step = desk.agent.delegate("Remember KIWI-1. [[SAY noted PEAR]]")
        told = told_of(
            desk,
            terminal,
            step,
            f"{FIRST}/planner",
            answer="noted PEAR",
            reply="the planner is done",
        )
        desk.leave(terminal)
    return told


def test_the_first_delegation_after_setup_is_told_where_the_person_looks(desk, first):
    assert first.line.split("   ")[0] == f"upthread: {FIRST}/planner (Wren-planner): STARTED"
    assert "Remember KIWI-1." in first.shown


def test_what_was_said_in_the_interface_is_on_record_when_it_was_left(desk, first):
    listed, shown = desk.says("ls"), desk.says("show", FIRST)
    assert FIRST in listed
    assert f"{FIRST}/planner" in shown
    assert first.session in shown
    assert f"last STARTED {first.session}" in desk.says("why", f"{FIRST}/planner")
    audit = desk.says("audit", FIRST)
    assert "Remember KIWI-1." in audit
    assert "noted PEAR" in audit


@pytest.fixture(scope="module")
def filled(desk, first) -> str:
    """A session at 95 % of its window, made by a command; returns what `why` says comes next."""
    prompt = f"Plan. [[USAGE {desk.interface.tokens_at_95_percent}]] [[SAY planned]]"
    desk.says("tell", f"{FULL}/planner", prompt, "--agent", desk.interface.agent)
    return desk.says("why", f"{FULL}/planner")


@pytest.fixture(scope="module")
def second(desk, first, filled) -> Iterator[Terminal]:
    """The agent, started again."""
    with desk.at_the_agent() as terminal:
        yield terminal


@pytest.fixture(scope="module")
def again(desk, first, second) -> Told:
    step = desk.interface.continue_(desk, first.session, "What was it? [[SAY it was KIWI]]")
    return told_of(
        desk,
        second,
        step,
        f"{FIRST}/planner",
        "2nd turn",
        answer="it was KIWI",
        reply="it has told again",
    )


def test_after_another_start_the_role_goes_on_as_far_as_its_agent_can(desk, first, again):
    """OpenCode and Codex open the session again; Claude Code gives a new one the briefing."""
    says = desk.interface.told_again.format(session=first.session)
    assert again.line.startswith(f"upthread: {FIRST}/planner (Wren-planner): {says}")
    assert "KIWI-1" in again.shown
    assert (again.session == first.session) is says.startswith("RESUMED")


def test_both_starts_are_on_record_as_one_conversation(desk, first, again):
    planner = desk.agent.planner(FIRST, turns=2)
    assert planner["turns"] == 2
    assert len(planner["chain"]) == (1 if again.session == first.session else 2)
    audit = desk.says("audit", FIRST)
    assert audit.index("Remember KIWI-1.") < audit.index("What was it?") < audit.index("it was")


def is_seen(words: str, line: str) -> bool:
    """Whether words stand at the end of a line that the interface may have cut short there."""
    cut = line.removesuffix("…")
    return words in line or any(cut.endswith(words[:n]) for n in range(3, len(words)))


# --- a window that is nearly full ----------------------------------------------------------------


@pytest.fixture(scope="module")
def nearly_full(desk, filled, second, again) -> Told:
    desk.agent.upthread("use", FULL)
    step = desk.interface.continue_(
        desk, desk.agent.planner(FULL, turns=1)["upstream_session_id"], "Go on. [[SAY went on]]"
    )
    return told_of(
        desk, second, step, f"{FULL}/planner", "2nd turn", answer="went on", reply="it has gone on"
    )


def test_a_session_that_a_command_left_is_gone_on_with_in_the_interface(desk, nearly_full):
    assert nearly_full.line.startswith(f"upthread: {FULL}/planner (")
    assert desk.agent.planner(FULL, turns=2)["turns"] == 2


def test_at_95_percent_the_line_says_what_why_said(desk, filled, nearly_full):
    words = "the session's context is nearly full"
    assert f"it would {intention_in_words(START_FRESH, None)}: {words}" in filled
    assert is_seen(words, nearly_full.line)
    # Codex's model names the sub-agent itself: it is not held back, and the person is told.
    done = RESUME if desk.interface.agent == "codex" else START_FRESH
    assert done in decisions_told(nearly_full.line)
