"""A session that replaces another knows what was asked, what was forbidden, and the plan.

However many steps a turn took, on the real agents: the test reads the first request that the new
session sends to the model.
"""

import json

import pytest
from tests.live.agents import ADDRESS, AGENTS
from tests.support.sets import EXTENDED, SOAK

pytestmark = [pytest.mark.live, pytest.mark.timeout(1_800)]

ASKED = "Write the export of the ledger as CSV."
NEVER = "Never touch main, and nothing below infra/."
ONCE_MORE = "Amounts stay in cents."
PLAN = "My plan: 1. read the ledger, 2. write the rows, 3. test them with umlauts."
GO_ON = "Go on as planned, and keep to Python 3.11."
RESULT = "The rows are written; the umlauts are left to test."
STATUSES = {
    "read the ledger": "completed",
    "write the rows": "completed",
    "test the umlauts": "pending",
}


def plan_step(name: str) -> str:
    """Return the step by which an agent writes its plan. Codex keeps one only for known models."""
    if name == "codex":
        return AGENTS[name].command("true")
    todos = [{"content": entry, "status": status} for entry, status in STATUSES.items()]
    if name == "claude-code":
        return f"[[CALL TodoWrite {json.dumps({'todos': [_claude(each) for each in todos]})}]]"
    todos = [{**each, "id": each["content"], "priority": "high"} for each in todos]
    return f"[[CALL todowrite {json.dumps({'todos': todos})}]]"


def _claude(todo: dict[str, str]) -> dict[str, str]:
    return {**todo, "activeForm": todo["content"]}


def first_request(model, before: int) -> str:
    """Return the first request of the new session as one text."""
    body = model.model_requests[before].body
    return "\n".join(_texts(body.get("messages") or body.get("input")))


def _texts(value) -> list[str]:
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value
    return [text for each in members or () for text in _texts(each)] if value else []


def sets_of(name: str, steps: int):
    """Two hundred steps took 75 s with Claude Code, 110 s with Codex, 400 s with OpenCode."""
    is_extended = (name, steps) in {("codex", 24), ("claude-code", 1)}
    return pytest.param(name, steps, marks=EXTENDED if is_extended else SOAK)


@pytest.mark.parametrize(
    ("name", "steps"), [sets_of(name, steps) for name in AGENTS for steps in (1, 24, 200)]
)
def test_however_many_steps_a_turn_took_the_person_and_the_plan_are_in_the_first_request(
    name, shell, model, steps
):
    shell.patience_s = 1_200
    model.answer_next(f"[[SAY {PLAN}]]")
    shell.tell(f"{ASKED} {NEVER}")
    model.answer_next("[[SAY Cents it is.]]")
    shell.tell(ONCE_MORE)
    narrated = "".join(
        f"[[TELL Step {number}: I look at row {number}.]] {AGENTS[name].command('true')} "
        for number in range(1, steps)
    )
    model.answer_next(f"[[TELL First the list.]] {plan_step(name)} {narrated}[[SAY {RESULT}]]")
    assert shell.tell(GO_ON)["reply"].endswith(RESULT)

    AGENTS[name].delete_session(shell.home, shell.one("id", ADDRESS)["upstream_session_id"])
    before = len(model.model_requests)
    assert shell.tell("What is left?")["decision"] == "resume_with_replay"
    told = first_request(model, before)
    for said in (ASKED, NEVER, ONCE_MORE, GO_ON, PLAN, "Cents it is.", RESULT):
        assert told.count(said) == 1, said
    places = [told.index(said) for said in (ASKED, PLAN, ONCE_MORE, GO_ON, RESULT)]
    assert places == sorted(places)
    assert (told.count("The user said:"), told.count("You replied:")) == (3, 3)
    entries = [f"> - {entry} ({status})" for entry, status in STATUSES.items()]
    assert all(entry in told for entry in entries) == (name != "codex")
    if steps > 1:
        assert f"Step {steps - 1}: I look" in told
        assert "In that turn you called, last:" in told
    assert len(told) < 60_000
