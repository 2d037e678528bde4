"""What continues where in the real agents, with a model that follows upthread's instruction or not.

What is seen must be what docs/agents/continues.json holds, from which the README's table is made.
`UPTHREAD_WRITE_MEASURED=1` measures again.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.hooked import SET_UPS, Ran, SetUp, titles, waiting_for
from tests.support import trusting
from tests.support.sets import EXTENDED, SOAK
from tools.generate_docs import CONTINUES, WHERE

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

FIRST, SECOND = "Remember KIWI.", "What was it?"
Main = Callable[[str], Ran]


def tell(played: SetUp, prompt: str) -> None:
    words = ["tell", f"{played.used}/planner", prompt, "--agent", played.agent.name]
    played.output_of([*played.program, *words])


def delegated(played: SetUp) -> Main:
    """The role works in one main session, and is called again in another main session."""
    played.run(f"Go.\n\n{played.delegate(FIRST)}")
    return lambda step: played.run(f"Go on.\n\n{step}")


def in_same_main(played: SetUp) -> Main:
    delegated(played)
    return played.continue_main


def killed(played: SetUp) -> Main:
    """The agent is killed while its sub-agent works, and its main session is resumed."""
    step = played.delegate(f"{FIRST}\n\n[[HANG]]")
    played.stop_when(f"Go.\n\n{step}", waiting_for(played, FIRST), signal.SIGKILL)
    known = json.dumps(played.upthread("audit", played.used))
    (played.last,) = set(re.findall(r'"main_session": "([^"]+)"', known))
    return played.continue_main


def unnamed(played: SetUp) -> Main:
    played.upthread("use", "--clear")
    return delegated(played)


def handed_over(played: SetUp) -> Main:
    trusting.configure(played.project, played.own, "handover = true\n")
    return delegated(played)


def told_before(played: SetUp) -> Main:
    tell(played, FIRST)
    return lambda step: played.run(f"Go on.\n\n{step}")


CASES: dict[str, Callable[[SetUp], Main]] = {
    "same_main": in_same_main,
    "killed": killed,
    "other_main": delegated,
    "handover": handed_over,
    "unnamed": unnamed,
    "after_tell": told_before,
}
TOLD = {"tell_again": told_before, "tell_after_call": delegated}
"""The cases in which `upthread tell` speaks last."""


@pytest.fixture
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    with RehearsalModel() as model:
        made = kind(request.getfixturevalue(kind.agent.fixture), model, tmp_path)
        made.upthread("trust", "--yes")
        yield made
        for each in made.running:
            each.wait()


def how_it_continues(played: SetUp, case: str) -> str:
    """Return `always`, `followed`, or how a role begins that does not continue."""
    if case in TOLD:
        played.use("told")
        TOLD[case](played)
        before = len(played.model.model_requests)
        tell(played, SECOND)
        told = [json.dumps(each.body) for each in played.model.model_requests[before:]]
        return how_it_knows(told) or "always"
    played.use("ignoring")
    main = CASES[case](played)
    ran = main(played.delegate(SECOND))
    if not ran.by_children:  # it was refused once, with the instruction
        ran = played.continue_main(played.delegate(SECOND))
    how = how_it_knows(ran.by_children)
    if not how:
        return "always"
    played.use("following")
    main = CASES[case](played)
    ran = main("[[SAY ready]]")
    told = re.search(
        r"planner: (?:SendMessage with to:|resume_agent with id) '(\S+)'", ran.by_main[-1]
    )
    if not told:
        return how
    ran = played.continue_main(played.continue_(told[1], SECOND))
    return how_it_knows(ran.by_children) or "followed"


def how_it_knows(requests: list[str]) -> str:
    """Return how a sub-agent knows of the work before; empty where its session continues."""
    request = next(each for each in requests if SECOND in each)
    for mark, how in {"# Briefing": "briefing", "[prior context": "replay"}.items():
        before, is_there, _ = request.partition(mark)
        if is_there and FIRST not in before:
            return how
    return "" if FIRST in request else "nothing"


def cases() -> Iterator[object]:
    for agent in SET_UPS:
        for case in WHERE:
            if case != "handover" or agent == "claude-code":  # its own choice
                marks = EXTENDED if case in {"same_main", "killed", "other_main"} else SOAK
                yield pytest.param(agent, case, marks=marks, id=f"{agent}-{case}")


@pytest.mark.parametrize(("played", "case"), list(cases()), indirect=["played"])
def test_what_continues_where_is_what_the_readme_says(played, case):
    seen = how_it_continues(played, case)
    ours = ("# Briefing", "[prior context", "· upthread: ")
    assert [each for each in titles(played) if any(mark in each for mark in ours)] == []
    known = json.loads(CONTINUES.read_text())
    if os.environ.get("UPTHREAD_WRITE_MEASURED") == "1":
        known.setdefault(played.agent.name, {})[case] = seen
        CONTINUES.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    assert known[played.agent.name][case] == seen
