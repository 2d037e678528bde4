"""The prices and the spending that upthread reports, beside what the model server was sent.

The long form measures thirty delegations of each agent; with `UPTHREAD_WRITE_MEASURED=1` it writes
docs/agents/prices.json, which `make docs` shows in docs/performance.md.
"""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from subprocess import Popen

import pytest
from tests.live.agents import ADDRESS, AGENTS
from tests.live.asked import answered, tokens_in, tokens_out
from tests.live.shell import Shell, kill_tree, wait_until
from tests.support.sets import SOAK, spread

from upthread.runtime.turns.recording import FLUSH_EVERY_S
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ERROR_MAX = 0.1
"""The largest share by which a price may be off."""
LONG = 30
MEASURED = Path(__file__).resolve().parents[2] / "docs" / "agents" / "prices.json"
ONLY_CODEX = spread(AGENTS, first=0, extended=["codex"])


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """One delegation: `price` and `spent` as upthread reports them, `first` and `all` as charged.

    `price` is None where none was reported; `first` is what the first request read, `all` what all
    requests read and wrote, in tokens.
    """

    decision: str
    requests: int
    price: int | None
    first: int
    spent: int
    all: int
    is_estimated: bool

    @property
    def price_error(self) -> float:
        """How far the price was off, as a share of what was read."""
        assert self.price is not None, self
        return abs(self.price - self.first) / self.first


def delegations(
    name: str, shell: Shell, model: RehearsalModel, *, count: int
) -> Iterator[Delegation]:
    """Ask the price, then delegate with zero to five calls; every third delegation is fresh."""
    command = AGENTS[name].command
    for number in range(count):
        is_fresh = number % 3 == 2
        now = shell.one("why", ADDRESS)["now"] if number else {}
        before = len(model.requests)
        steps = [command(f"echo {number} {each} {'word ' * 2}") for each in range(number % 6)]
        prompt = "\n".join(["Look at it.", "", *steps, f"[[SAY Done, {'as said ' * 4}.]]"])
        told = shell.tell(prompt, *(["--fresh"] if is_fresh else []))
        assert told["outcome"] == "ok", told
        sent = answered(model.requests[before:])
        assert len(sent) > number % 6, [each.path for each in model.requests[before:]]
        yield Delegation(
            decision=told["decision"],
            requests=len(sent),
            price=now.get("tokens_to_brief" if is_fresh else "tokens_to_resume"),
            first=tokens_in(next(each for each in sent if not each.is_side_request)),
            spent=told["tokens_spent"],
            all=charged_for(sent),
            is_estimated=bool(
                now.get("tokens_are_estimated") or told["tokens_spent_are_estimated"]
            ),
        )


def charged_for(requests: Sequence) -> int:
    return sum(tokens_in(each) + tokens_out(each) for each in requests)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_both_prices_and_what_was_spent_are_what_the_model_server_was_sent(name, shell, model):
    done = list(delegations(name, shell, model, count=4))
    assert [each.requests for each in done] == [1, 2, 3, 4]
    assert {each.decision for each in done} == {"first", "resume", "start_fresh_with_briefing"}
    assert [each.spent for each in done] == [each.all for each in done]
    assert not any(each.is_estimated for each in done)
    assert max(each.price_error for each in done[1:]) <= ERROR_MAX, done


def told_and_read(shell: Shell, model: RehearsalModel, *options: str) -> tuple[int | None, int]:
    """Return the price of the next prompt, and what its first request then read."""
    now, before = shell.one("why", ADDRESS)["now"], len(model.requests)
    shell.tell("And now?", *options)
    sent = answered(model.requests[before:])
    told = now["tokens_to_brief" if options else "tokens_to_resume"]
    return told, tokens_in(next(each for each in sent if not each.is_side_request))


def call_after_much(name: str, shell: Shell, model: RehearsalModel, *options: str) -> Popen[str]:
    """Start a turn that reads much; return once that is on record and the next call runs."""
    much, before = "head -c 9000 /dev/zero | tr '\\0' x", len(model.requests)
    calls = (AGENTS[name].command(each) for each in (*[much] * 3, "sleep 60"))
    running = shell.start_call("\n\n".join(("Wait a while.", *calls)), *options, calls=4)
    wait_until(lambda: len(answered(model.requests[before:])) > 3, "fourth request")
    time.sleep(2 * FLUSH_EVERY_S)
    return running


@pytest.mark.parametrize(
    "name", spread(AGENTS, first=["codex"], extended=["claude-code", "opencode"])
)
def test_what_a_turn_read_before_it_was_cut_is_in_its_price_and_takes_nothing_from_any(
    name, shell, model
):
    running = call_after_much(name, shell, model)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=shell.patience_s)
    cut = told_and_read(shell, model)
    kill_tree(call_after_much(name, shell, model, "--fresh"))
    resumed = told_and_read(shell, model)
    kill_tree(call_after_much(name, shell, model))
    again = told_and_read(shell, model)
    briefed = told_and_read(shell, model, "--fresh")
    for told, read in (cut, resumed, again, briefed):
        assert told is not None
        assert abs(told - read) <= ERROR_MAX * read, (cut, resumed, again, briefed)


@pytest.mark.parametrize("name", ONLY_CODEX)
def test_a_limit_on_tokens_is_never_passed_by_more_than_one_request(name, shell, model):
    shell.tell("Look at it.", address="first/planner")
    most = int(3.5 * tokens_in(answered(model.requests)[-1]))
    before = len(answered(model.requests))
    steps = "\n".join(AGENTS[name].command(f"echo {number}") for number in range(8))
    limit = ("--tokens-max", str(most))
    ended = shell.tell(f"Look at it.\n\n{steps}", *limit, exit_code=4)
    requests = answered(model.requests)[before:]
    assert charged_for(requests[:-1]) <= most
    assert len(requests) in {3, 4}
    assert ended["parked"]["reason"] == "tokens_max"
    assert f"of at most {most} tokens are used" in ended["parked"]["detail"]
    assert "--tokens-max" in shell.one("why", ADDRESS)["standing"]["cure"]

    for refused in ("--continue", "And now?"):
        shell.lines("tell", ADDRESS, refused, *limit, exit_code=5)
    assert answered(model.requests)[before:] == requests
    assert shell.tell("--continue")["outcome"] == "ok"


@SOAK
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", AGENTS)
def test_over_thirty_delegations_no_median_error_is_above_a_tenth(name, shell, model):
    done = list(delegations(name, shell, model, count=LONG))
    briefed = [each for each in done if each.decision == "start_fresh_with_briefing"]
    resumed = [each for each in done if each.decision.startswith("resume")]
    errors = {
        "resume": median(each.price_error for each in resumed),
        "briefing": median(each.price_error for each in briefed),
        "spent": median(abs(each.spent - each.all) / each.all for each in done),
    }
    assert max(errors.values()) <= ERROR_MAX, errors
    if os.environ.get("UPTHREAD_WRITE_MEASURED") == "1":
        measured = json.loads(MEASURED.read_text())
        measured[name] = {
            "version": AGENTS[name].version,
            "delegations": len(done),
            "requests": sum(each.requests for each in done),
            "tokens": sum(each.all for each in done),
            **errors,
        }
        MEASURED.write_text(json.dumps(dict(sorted(measured.items())), indent=2) + "\n")
