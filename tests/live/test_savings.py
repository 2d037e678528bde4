"""What `savings` reports, beside what the model server was sent and answered, to the token."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from tests.live.agents import ADDRESS, AGENTS
from tests.live.asked import answered, tokens_in, tokens_out
from tests.live.shell import Shell, kill_tree, wait_until
from tests.support.sets import SOAK, spread

from upthread.testing.rehearsal_model import RehearsalModel

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


# --- ten kinds of delegations, three times over --------------------------------------------------

KINDS = (
    *("said", "worked", "fresh", "sub_agent", "cancelled"),
    *("said", "lost", "killed", "continued", "worked"),
)
INTERRUPTED = {"cancelled", "continued"}
"""No agent reports all tokens of these, and upthread makes nothing up for them."""


@SOAK
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", AGENTS)
def test_savings_reports_what_was_charged_or_that_it_was_not_reported(name, shell, model):
    agent = AGENTS[name]
    charged: list[tuple[str, list[int], list[int]]] = []
    for number, kind in enumerate(KINDS * 3):
        step = agent.command(f"echo {number}")
        late = f"Look.\n\n{step}\n[[SLEEP 60]] [[SAY Late.]]"
        inner = f"Look.\n\n{step}"
        prompts = {
            "worked": f"Look.\n\n{step}\n{agent.command('echo more')}\n[[SAY Done.]]",
            "sub_agent": f"Look.\n\n{agent.delegation(inner)}",
            "continued": "--continue",
        }
        words = ["tell", ADDRESS, prompts.get(kind, "Say it. [[SAY Said.]]")]
        before = len(model.requests)
        if kind == "lost":
            agent.delete_session(shell.home, shell.one("id", ADDRESS)["upstream_session_id"])
        if kind in {"cancelled", "killed"}:
            cut(shell, model, late, is_killed=kind == "killed")
        else:
            shell.lines(*words, *(["--fresh"] if kind == "fresh" else []), exit_code=None)
        sent = answered(model.requests[before:])
        read, written = list(map(tokens_in, sent)), list(map(tokens_out, sent))
        if kind == "continued":  # the same turn
            _, read_before, written_before = charged.pop()
            read, written = read_before + read, written_before + written
        charged.append((kind, read, written))
    told = shell.one("savings", "spec-42")
    assert len(told["delegations"]) == len(charged) == 27
    for one, (kind, read, written) in zip(told["delegations"], charged, strict=True):
        was_told = kind not in INTERRUPTED
        assert one["requests"] == len(read) or not was_told
        assert one["tokens_read"] == (sum(read) if was_told else None), kind
        # Claude Code does not report what each request of a sub-agent wrote.
        is_silent = not was_told or (kind == "sub_agent" and name == "claude-code")
        assert one["tokens_written"] == (None if is_silent else sum(written)), kind
    ways = Counter(each["way"] for each in told["delegations"])
    assert ways == {"first": 1, "resumed": 20, "briefed": 6}
    whole = [sum(read) for kind, read, _ in charged if kind not in INTERRUPTED]
    total = told["total"]["tokens_read"]
    assert total == {"total": sum(whole), "told": len(whole), "of": len(charged)}


def cut(shell: Shell, model: RehearsalModel, prompt: str, *, is_killed: bool) -> None:
    """Start a turn; interrupt or kill it once its step has run and the model is asked again."""
    before = len(answered(model.requests))
    process = shell.start("tell", ADDRESS, prompt)
    wait_until(lambda: len(answered(model.requests)) > before + 1, "second request of the turn")
    if is_killed:
        kill_tree(process)
    else:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
