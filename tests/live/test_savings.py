"""What `savings` says beside what the model server was sent and answered, to the token."""

from __future__ import annotations

import subprocess

import pytest
from tests.live import claude_code, codex, pricing
from tests.live.pricing import ADDRESS, PRICED, answered, tokens_in, tokens_out

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

DELEGATION = {
    "opencode": pricing.opencode_delegation,
    "claude-code": claude_code.delegation,
    "codex": codex.delegation,
}
CACHED = 3_000


@pytest.fixture(params=PRICED)
def priced(request):
    return PRICED[request.param]


@pytest.fixture
def shell(priced, request, model, tmp_path):
    binary = request.getfixturevalue(f"{priced.agent.partition('-')[0]}_binary")
    with pricing.priced_shell(priced, binary, model, tmp_path) as shell:
        yield shell


def test_what_each_delegation_read_wrote_and_had_from_a_cache_is_what_was_charged(
    priced, shell, model
):
    charged = []
    for number, more in enumerate(([], [], ["--fresh"])):
        steps = [f"[[CACHED {CACHED}]] {priced.step(f'echo {each}')}" for each in range(number)]
        prompt = "\n".join(["Look at it.", "", *steps, f"[[CACHED {CACHED}]] [[SAY Done.]]"])
        before = len(model.requests)
        shell.lines("tell", ADDRESS, prompt, "--agent", priced.agent, *more)
        charged.append(answered(model.requests[before:]))

    told = shell.lines("savings", "spec-42")[0]
    assert [each["way"] for each in told["delegations"]] == ["first", "resumed", "briefed"]
    for each, requests in zip(told["delegations"], charged, strict=True):
        assert each["requests"] == len(requests)
        assert each["tokens_read"] == sum(map(tokens_in, requests))
        assert each["tokens_written"] == sum(map(tokens_out, requests))
        assert each["tokens_cached"] == CACHED * len(requests)
        assert each["tokens_first_read"] == tokens_in(requests[0])
        assert each["tokens_first_cached"] == CACHED
    total = told["total"]
    every = [each for requests in charged for each in requests]
    assert total["tokens_read"] == {"total": sum(map(tokens_in, every)), "told": 3, "of": 3}
    assert total["tokens_cached"]["total"] == CACHED * len(every)
    assert total["prices_compared"] == 2
    assert abs(total["price_error_median"]) <= pricing.ERROR_MAX
    # Most of the session was read anew: that is a loss, and is said to be one.
    resumed = told["delegations"][1]
    assert resumed["was_cache_gone"] is (resumed["tokens_first_read"] > 2 * CACHED)


def test_what_a_sub_agent_read_is_in_it_and_what_it_wrote_only_where_it_is_told(
    priced, shell, model
):
    inner = f"Look.\n\n{priced.step('echo sub')}"
    prompt = f"Look.\n\n{DELEGATION[priced.agent](inner)}"
    shell.lines("tell", ADDRESS, prompt, "--agent", priced.agent)
    requests = answered(model.requests)
    (told,) = shell.lines("savings", "spec-42")[0]["delegations"]
    assert told["tokens_read"] == sum(map(tokens_in, requests))
    assert told["tokens_written"] in {None, sum(map(tokens_out, requests))}


def test_three_ways_of_a_task_take_what_was_charged_for_each(priced, shell, model):
    subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "seed",
         "--allow-empty"], cwd=shell.project, check=True,
    )  # fmt: skip
    first = f"Look at it.\n\n{priced.step('echo first')}\n\n[[SAY Looked.]]"
    then = "Now the tests. [[SAY Tested.]]"
    words = ("planner", first, then, "--agent", priced.agent, "--tokens-max", "9000000", "--yes")
    (told,) = shell.lines("compare", *words)
    assert [each["fault"] for each in told["ways"]] == [None] * 3
    assert [each["decision"] for each in told["ways"]] == [
        "resume",
        "start_fresh_with_briefing",
        "first",
    ]
    charged = {sum(map(tokens_in, [request])) for request in answered(model.requests)}
    for each in told["ways"]:
        assert "Tested." in each["reply"]
        assert each["read"] in charged, "what the one request of the second prompt read"
