"""The prices and the spending that are told, beside what the model server was really sent.

The long form measures thirty delegations an agent; `UPTHREAD_WRITE_MEASURED=1` keeps its table in
docs/agents/prices.json, which `make docs` shows in docs/performance.md.
"""

from __future__ import annotations

import os

import pytest
from tests.live import claude_code, codex, pricing
from tests.live.pricing import ADDRESS, ERROR_MAX, PRICED, tokens_in, tokens_out
from tests.live.shell import only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

DELEGATION = {
    "opencode": pricing.opencode_delegation,
    "claude-code": claude_code.delegation,
    "codex": codex.delegation,
}


@pytest.fixture(params=PRICED)
def priced(request):
    return PRICED[request.param]


@pytest.fixture
def shell(priced, request, model, tmp_path):
    binary = request.getfixturevalue(f"{priced.agent.partition('-')[0]}_binary")
    with pricing.priced_shell(priced, binary, model, tmp_path) as shell:
        yield shell


def sent(model):
    return pricing.answered(model.requests)


def test_both_prices_and_what_was_spent_are_what_the_model_server_was_sent(priced, shell, model):
    done = list(pricing.delegations(priced, shell, model, count=4))
    assert [each.requests for each in done] == [1, 2, 3, 4]
    assert {each.way for each in done} == {"first", "resume", "start_fresh_with_briefing"}
    assert [each.spent for each in done] == [each.all for each in done]
    assert not any(each.is_spent_estimated or each.is_said_estimated for each in done)
    assert max(each.price_error for each in done[1:]) <= ERROR_MAX, done


def test_a_new_workstream_knows_what_the_agent_reads_first_in_this_project(priced, shell, model):
    shell.lines("tell", "one/planner", "Look at it.", "--agent", priced.agent)
    first = only(
        shell.lines("tell", "two/planner", "Look at it.", "--agent", priced.agent), "turn_started"
    )
    read = tokens_in(sent(model)[-1])
    assert first["tokens_to_brief"] == pytest.approx(read, rel=ERROR_MAX)
    fixed = first["tokens_fixed"]
    before = len(model.requests)
    too_little = ["--agent", priced.agent, "--tokens-max", str(fixed - 1)]
    shell.lines("tell", "three/planner", "Look at it.", *too_little, exit_code=5)
    assert len(model.requests) == before


def test_no_session_is_thrown_away_for_a_briefing_that_reads_as_much(priced, shell, model):
    shell.configure("[freshness]\nbrief_if_times_cheaper = 2\n")
    for _ in range(2):
        shell.lines("tell", ADDRESS, "Look at it.", "--agent", priced.agent)
    now = shell.lines("why", ADDRESS)[0]["now"]
    assert now["tokens_to_resume"] < 2 * now["tokens_to_brief"]
    assert now["tokens_fixed"] <= now["tokens_to_brief"]


def test_what_a_sub_agent_took_is_in_what_was_spent(priced, shell, model):
    inner = f"Look.\n\n{priced.step('echo sub')}"
    prompt = f"Look.\n\n{DELEGATION[priced.agent](inner)}"
    told = only(shell.lines("tell", ADDRESS, prompt, "--agent", priced.agent), "turn_ended")
    took = sum(tokens_in(each) + tokens_out(each) for each in sent(model))
    assert told["tokens_spent"] == pytest.approx(took, rel=0.01)


def test_what_may_be_spent_is_never_passed_by_more_than_one_request(priced, shell, model):
    shell.lines("tell", "first/planner", "Look at it.", "--agent", priced.agent)
    one = tokens_in(sent(model)[-1])
    most = int(3.5 * one)
    before = len(sent(model))
    steps = "\n".join(priced.step(f"echo {number}") for number in range(8))
    words = [ADDRESS, f"Look at it.\n\n{steps}", "--agent", priced.agent, "--tokens-max", str(most)]
    ended = only(shell.lines("tell", *words, exit_code=4), "result")
    requests = sent(model)[before:]
    took = sum(tokens_in(each) + tokens_out(each) for each in requests)
    assert took - tokens_in(requests[-1]) - tokens_out(requests[-1]) <= most
    assert len(requests) in {3, 4}
    assert (ended["status"], ended["parked"]["reason"]) == ("parked", "tokens_max")
    assert f"of at most {most} tokens are used" in ended["parked"]["detail"]
    why = shell.lines("why", ADDRESS)[0]
    assert "--tokens-max" in why["standing"]["cure"]

    again = ["tell", ADDRESS, "--continue", "--agent", priced.agent]
    anew = ["tell", ADDRESS, "And now?", "--agent", priced.agent]
    for refused in (again, anew):
        shell.lines(*refused, "--tokens-max", str(most), exit_code=5)
    assert sent(model)[before:] == requests
    assert only(shell.lines(*again), "result")["status"] == "done"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_over_thirty_delegations_no_median_error_is_above_a_tenth(priced, shell, model):
    done = list(pricing.delegations(priced, shell, model, count=pricing.LONG))
    found = pricing.errors(done)
    assert max(found.resume, found.briefing, found.spent) <= ERROR_MAX, found
    if os.environ.get("UPTHREAD_WRITE_MEASURED") == "1":
        pricing.keep(priced.agent, pricing.version_of(priced.agent), found)
