"""What `savings` reports, beside what the model server was sent and answered, to the token."""

import pytest
from tests.live.agents import AGENTS
from tests.live.asked import answered, tokens_in, tokens_out
from tests.support.sets import spread

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ERROR_MAX = 0.1
CACHED = 3_000


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_the_tokens_of_each_delegation_are_those_that_were_charged(name, shell, model):
    charged = []
    for number, more in enumerate(([], [], ["--fresh"])):
        step = AGENTS[name].command(f"echo {number}")
        steps = [f"[[CACHED {CACHED}]] {step}"] * number
        prompt = "\n".join(["Look at it.", "", *steps, f"[[CACHED {CACHED}]] [[SAY Done.]]"])
        before = len(model.requests)
        shell.tell(prompt, *more)
        charged.append(answered(model.requests[before:]))

    told = shell.one("savings", "spec-42")
    assert [each["way"] for each in told["delegations"]] == ["first", "resumed", "briefed"]
    for each, requests in zip(told["delegations"], charged, strict=True):
        assert each["requests"] == len(requests)
        assert each["tokens_read"] == sum(map(tokens_in, requests))
        assert each["tokens_written"] == sum(map(tokens_out, requests))
        assert each["tokens_cached"] == CACHED * len(requests)
        assert each["tokens_first_read"] == tokens_in(requests[0])
        assert each["tokens_first_cached"] == CACHED
    total = told["total"]
    began, resumed, briefed = (sum(map(tokens_in, x)) + sum(map(tokens_out, x)) for x in charged)
    assert total["tokens_saved"]["total"] == round((began + briefed) / 2) - resumed
    every = [each for requests in charged for each in requests]
    assert total["tokens_read"] == {"total": sum(map(tokens_in, every)), "told": 3, "of": 3}
    assert total["tokens_cached"]["total"] == CACHED * len(every)
    assert total["prices_compared"] == 2
    assert abs(total["price_error_median"]) <= ERROR_MAX
    # The agent read most of the session again: that is a loss, and is reported as a loss.
    resumed = told["delegations"][1]
    assert resumed["was_cache_gone"] is (resumed["tokens_first_read"] > 2 * CACHED)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_the_tokens_of_a_sub_agent_are_included_as_far_as_its_agent_reports_them(
    name, shell, model
):
    inner = f"Look.\n\n{AGENTS[name].command('echo sub')}"
    spent = shell.tell(f"Look.\n\n{AGENTS[name].delegation(inner)}")["tokens_spent"]
    requests = answered(model.requests)
    read, written = sum(map(tokens_in, requests)), sum(map(tokens_out, requests))
    assert spent == pytest.approx(read + written, rel=0.01)
    (told,) = shell.one("savings", "spec-42")["delegations"]
    assert told["tokens_read"] == read
    assert told["tokens_written"] in {None, written}


"""No agent reports all tokens of these, and upthread makes nothing up for them."""
