"""Over thirty delegations of every kind, `savings` says what was charged, or that nobody told."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.live import claude_code, codex, pricing
from tests.live.pricing import ADDRESS, PRICED, answered, tokens_in, tokens_out
from tests.live.shell import Shell, kill_tree

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.timeout(1_800)]

DELEGATION = {
    "opencode": pricing.opencode_delegation,
    "claude-code": claude_code.delegation,
    "codex": codex.delegation,
}
KINDS = (
    *("said", "worked", "fresh", "sub_agent", "cancelled"),
    *("said", "lost", "killed", "continued", "worked"),
)
"""Ten kinds of delegations in this order, three times over."""
CUT_OFF = {"cancelled", "continued"}
"""Of these no agent told all that they took; nothing is made up for it."""


@pytest.fixture(params=PRICED)
def priced(request):
    return PRICED[request.param]


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def shell(priced, request, model, tmp_path):
    binary = request.getfixturevalue(f"{priced.agent.partition('-')[0]}_binary")
    with pricing.priced_shell(priced, binary, model, tmp_path) as shell:
        yield shell


def lose(agent: str, home: Path) -> None:
    """Take all sessions away from an agent, as its own clean-up does."""
    if agent == "opencode":
        (database,) = home.rglob("opencode.db")
        with closing(sqlite3.connect(database)) as opened, opened:
            for table in ("part", "message", "session"):
                opened.execute(f"DELETE FROM {table}")  # names of ours
        return
    for file in home.rglob("*.jsonl"):
        if file.parent.name != "plugins":
            file.unlink()


def cut(shell: Shell, model: RehearsalModel, words: list[str], end: Callable[..., None]) -> None:
    """Start a turn, and end it in its own way once the model has been asked what hangs."""
    before = sum(1 for each in model.requests if each.response.get("kind") == "reply")
    process = shell.start(*words)
    ends = time.monotonic() + 60
    while sum(1 for each in model.requests if each.response.get("kind") == "reply") <= before:
        assert time.monotonic() < ends
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(1.5)  # the step has run, and the next request is under way
    end(process)
    if process.stdout is not None and not process.stdout.closed:
        process.communicate(timeout=60)


def test_what_savings_says_is_what_was_charged_or_that_it_was_not_told(priced, shell, model, home):
    charged: list[tuple[str, list[int], list[int]]] = []
    for number, kind in enumerate(KINDS * 3):
        step = priced.step(f"echo {number}")
        prompts = {
            "worked": f"Look.\n\n{step}\n{priced.step('echo more')}\n[[SAY Done.]]",
            "sub_agent": f"Look.\n\n{DELEGATION[priced.agent](f'Look.{chr(10)}{chr(10)}{step}')}",
            "cancelled": f"Look.\n\n{step}\n[[SLEEP 60]] [[SAY Late.]]",
            "killed": f"Look.\n\n{step}\n[[SLEEP 60]] [[SAY Late.]]",
        }
        words = ["tell", ADDRESS, prompts.get(kind, "Say it. [[SAY Said.]]")]
        before = len(model.requests)
        if kind == "lost":
            lose(priced.agent, home)
        if kind == "cancelled":
            cut(
                shell,
                model,
                [*words, "--agent", priced.agent],
                lambda p: p.send_signal(signal.SIGINT),
            )
        elif kind == "killed":
            cut(shell, model, [*words, "--agent", priced.agent], kill_tree)
        elif kind == "continued":
            words = ["tell", ADDRESS, "--continue", "--agent", priced.agent]
            shell.lines(*words, exit_code=None)
        else:
            more = ["--fresh"] if kind == "fresh" else []
            shell.lines(*words, "--agent", priced.agent, *more, exit_code=None)
        sent = answered(model.requests[before:])
        read, written = list(map(tokens_in, sent)), list(map(tokens_out, sent))
        if kind == "continued":  # the same turn
            _, read_before, written_before = charged.pop()
            read, written = read_before + read, written_before + written
        charged.append((kind, read, written))
    told = shell.lines("savings", "spec-42")[0]
    assert len(told["delegations"]) == len(charged) == 27
    for one, (kind, read, written) in zip(told["delegations"], charged, strict=True):
        was_told = kind not in CUT_OFF
        assert one["requests"] == len(read) or not was_told
        assert one["tokens_read"] == (sum(read) if was_told else None), kind
        # Claude Code does not tell of each request of a sub-agent what it wrote.
        is_silent = not was_told or (kind == "sub_agent" and priced.agent == "claude-code")
        assert one["tokens_written"] == (None if is_silent else sum(written)), kind
    ways = Counter(each["way"] for each in told["delegations"])
    assert ways == {"first": 1, "resumed": 20, "briefed": 6}
    total = told["total"]["tokens_read"]
    whole = [sum(read) for kind, read, _ in charged if kind not in CUT_OFF]
    assert total == {"total": sum(whole), "told": len(whole), "of": len(charged)}
