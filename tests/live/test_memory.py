"""A session that takes another's place knows what was asked, what was forbidden, and the plan.

However many steps a turn took, on the real agents: looked at in the first request that their new
session sends to the model.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.shell import Shell, agents_left, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(500)]

ADDRESS = "spec-42/planner"
ASKED = "Write the export of the ledger as CSV."
NEVER = "Never touch main, and nothing below infra/."
ONCE_MORE = "Amounts stay in cents."
PLAN = "My plan: 1. read the ledger, 2. write the rows, 3. test them with umlauts."
GO_ON = "Go on as planned, and keep to Python 3.11."
RESULT = "The rows are written; the umlauts are left to test."
ENTRIES = ("read the ledger", "write the rows", "test the umlauts")
STATUSES = ("completed", "completed", "pending")


def _lose_opencode(home: Path, session: str) -> None:
    (database,) = home.glob("**/opencode.db")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        gone = connection.execute("DELETE FROM session WHERE id = ?", (session,))
        assert gone.rowcount == 1


def _lose_claude(home: Path, session: str) -> None:
    (transcript,) = (home / ".claude" / "projects").glob(f"*/{session}.jsonl")
    transcript.unlink()


def _lose_codex(home: Path, session: str) -> None:
    (rollout,) = codex.rollouts(home, session)
    rollout.unlink()


def _todos(tool: str) -> str:
    todos = [
        {"id": entry, "content": entry, "status": status, "priority": "high", "activeForm": entry}
        for entry, status in zip(ENTRIES, STATUSES, strict=True)
    ]
    if tool == "TodoWrite":
        todos = [{k: v for k, v in each.items() if k not in {"id", "priority"}} for each in todos]
    return f"[[CALL {tool} {json.dumps({'todos': todos})}]]"


@dataclass(frozen=True, kw_only=True)
class Driven:
    """One agent: its binary, its environment, a step that runs a line, a plan, a session lost."""

    binary: str
    environment: Callable[..., dict[str, str]]
    step: Callable[[str], str]
    plan: str
    lose: Callable[[Path, str], None]


DRIVEN = {
    "claude-code": Driven(
        binary="claude",
        environment=claude_code.claude_environment,
        step=claude_code.command,
        plan=_todos("TodoWrite"),
        lose=_lose_claude,
    ),
    "opencode": Driven(
        binary="opencode",
        environment=opencode.opencode_environment,
        step=lambda line: f"[[CALL bash {json.dumps({'command': line, 'description': 'x'})}]]",
        plan=_todos("todowrite"),
        lose=_lose_opencode,
    ),
    "codex": Driven(
        binary="codex",
        environment=codex.codex_environment,
        step=codex.command,
        plan=codex.command("true"),  # it keeps a plan only with models that it knows
        lose=_lose_codex,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Desk:
    """An agent on PATH in a repository of its own, upthread beside it."""

    name: str
    driven: Driven
    shell: Shell
    home: Path

    def tell(self, *words: str) -> dict:
        told = self.shell.lines("tell", ADDRESS, *words, "--agent", self.name)
        ended = only(told, "turn_ended")
        assert ended["outcome"] == "ok", ended
        return {**only(told, "turn_started"), **ended}

    def lose(self) -> None:
        """Delete the session as a person would who tidies up the agent's own store."""
        self.driven.lose(self.home, self.shell.lines("id", ADDRESS)[0]["upstream_session_id"])


@pytest.fixture(params=DRIVEN)
def desk(request, model, tmp_path):
    driven = DRIVEN[request.param]
    binaries, home, project = tmp_path / "bin", tmp_path / "home", tmp_path / "project"
    binaries.mkdir()
    binary = request.getfixturevalue(f"{request.param.partition('-')[0]}_binary")
    (binaries / driven.binary).symlink_to(binary)
    environment = {
        **driven.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    Path(environment["UPTHREAD_HOME"]).mkdir(mode=0o700)
    own = Path(environment["UPTHREAD_HOME"]) / "config.toml"
    own.write_text('[permissions]\nexecute = "allow"\nother = "allow"\n')
    own.chmod(0o600)
    yield Desk(name=request.param, driven=driven, shell=Shell(project, environment), home=home)
    assert agents_left(tmp_path) == []


def first_request(model, before: int) -> str:
    """What the new session asked the model first, as one text."""
    body = model.model_requests[before].body
    return "\n".join(_texts(body.get("messages") or body.get("input")))


def _texts(value) -> list[str]:
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value
    return [text for each in members or () for text in _texts(each)] if value else []


@pytest.mark.parametrize("steps", [1, 24])
def test_however_many_steps_a_turn_took_the_person_and_the_plan_are_in_the_first_request(
    desk, model, steps
):
    look_at_the_first_request(desk, model, steps)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_after_two_hundred_steps_the_person_and_the_plan_are_in_the_first_request(desk, model):
    """On two busy cores 75 s with Claude Code, 110 s with Codex, up to 400 s with OpenCode."""
    desk.shell.patience_s = 1_200
    look_at_the_first_request(desk, model, 200)


def look_at_the_first_request(desk, model, steps: int) -> None:
    model.answer_next(f"[[SAY {PLAN}]]")
    desk.tell(f"{ASKED} {NEVER}")
    model.answer_next("[[SAY Cents it is.]]")
    desk.tell(ONCE_MORE)
    narrated = "".join(
        f"[[TELL Step {number}: I look at row {number}.]] {desk.driven.step('true')} "
        for number in range(1, steps)
    )
    model.answer_next(f"[[TELL First the list.]] {desk.driven.plan} {narrated}[[SAY {RESULT}]]")
    assert desk.tell(GO_ON)["reply"].endswith(RESULT)

    desk.lose()
    before = len(model.model_requests)
    assert desk.tell("What is left?")["decision"] == "resume_with_replay"
    told = first_request(model, before)
    for said in (ASKED, NEVER, ONCE_MORE, GO_ON, PLAN, "Cents it is.", RESULT):
        assert told.count(said) == 1, said
    places = [told.index(said) for said in (ASKED, PLAN, ONCE_MORE, GO_ON, RESULT)]
    assert places == sorted(places)
    assert (told.count("The user said:"), told.count("You replied:")) == (3, 3)
    entries = [f"> - {each} ({is_})" for each, is_ in zip(ENTRIES, STATUSES, strict=True)]
    assert all(entry in told for entry in entries) == (desk.name != "codex")
    if steps > 1:
        assert f"Step {steps - 1}: I look" in told
        assert "In that turn you called, last:" in told
    assert len(told) < 60_000
