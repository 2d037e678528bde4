"""What continues where in the real agents, with a model that follows upthread's instruction or not.

What is seen must be what docs/agents/continues.json holds, from which the README's table is made.
`UPTHREAD_WRITE_MEASURED=1` measures again.
"""

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

LIKELY = {"same_main", "killed", "other_main", "handover"}
FIRST, SECOND = "Remember KIWI.", "What was it?"


def tell(played: SetUp, prompt: str) -> None:
    agent = ("--agent", played.agent.name)
    played.output_of([*played.program, "tell", f"{played.used}/planner", prompt, *agent])


def begin(played: SetUp, case: str, workstream: str) -> Callable[[str], Ran]:
    """Let the role work once; returns how the main session is prompted that calls it again."""
    played.use(workstream)
    if case == "unnamed":
        played.upthread("use", "--clear")
    if case == "handover":
        trusting.configure(played.project, played.own, "handover = true\n")
    if case in {"tell_again", "after_tell"}:
        tell(played, FIRST)
    elif case == "killed":
        step = played.delegate(f"{FIRST}\n\n[[HANG]]")
        played.stop_when(f"Go.\n\n{step}", waiting_for(played, FIRST), signal.SIGKILL)
        known = json.dumps(played.upthread("audit", workstream))
        (played.last,) = set(re.findall(r'"main_session": "([^"]+)"', known))
    else:
        played.run(f"Go.\n\n{played.delegate(FIRST)}")
    is_same = case in {"same_main", "killed"}
    return played.continue_main if is_same else lambda step: played.run(f"Go on.\n\n{step}")


@pytest.fixture
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    with RehearsalModel() as model:
        made = kind(request.getfixturevalue(kind.agent.fixture), model, tmp_path)
        made.upthread("trust", "--yes")
        yield made


def how_it_continues(played: SetUp, case: str) -> str:
    """Return `always`, how a new session begins, or both ways of a model: `followed/briefing`."""
    main = begin(played, case, "ignoring")
    if case.startswith("tell"):
        before = len(played.model.model_requests)
        tell(played, SECOND)
        told = [json.dumps(each.body) for each in played.model.model_requests[before:]]
        return how_it_knows(told) or "always"
    ran = main(played.delegate(SECOND))
    if not ran.by_children:  # it was denied once, with the instruction
        ran = played.continue_main(played.delegate(SECOND))
    how = how_it_knows(ran.by_children)
    if not how:
        return "always"
    ran = begin(played, case, "following")("[[SAY ready]]")
    tools = "SendMessage with to:|resume_agent with id"
    told = re.search(rf"planner: (?:{tools}) '(\S+)'", ran.by_main[-1])
    if not told:
        return how
    ran = played.continue_main(played.continue_(told[1], SECOND))
    return how_it_knows(ran.by_children) or f"followed/{how}"


def how_it_knows(requests: list[str]) -> str:
    """Return how a sub-agent knows of the work before; empty where its session continues."""
    request = next(each for each in requests if SECOND in each)
    for mark, how in {"# Briefing": "briefing", "[prior context": "replay"}.items():
        before, is_there, _ = request.partition(mark)
        if is_there and FIRST not in before:
            return how
    return "" if FIRST in request else "nothing"


CASES = [
    pytest.param(agent, case, marks=EXTENDED if case in LIKELY else SOAK, id=f"{agent}-{case}")
    for agent in SET_UPS
    for case in WHERE
    if case != "handover" or agent == "claude-code"  # its own choice
]


@pytest.mark.parametrize(("played", "case"), CASES, indirect=["played"])
def test_what_continues_where_is_what_the_readme_says(played, case):
    seen = how_it_continues(played, case)
    ours = ("# Briefing", "[prior context", "· upthread: ")
    assert [each for each in titles(played) if any(mark in each for mark in ours)] == []
    known = json.loads(CONTINUES.read_text())
    if os.environ.get("UPTHREAD_WRITE_MEASURED") == "1":
        known.setdefault(played.agent.name, {})[case] = seen
        CONTINUES.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    assert known[played.agent.name][case] == seen
