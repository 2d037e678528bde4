"""The plug-in in the real OpenCode: `task` finds its session, whatever happened in between."""

import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.live.acp_process import AcpProcess
from tests.live.asked import tokens_in
from tests.live.hooked import PluggedOpenCode, waiting_for
from tests.live.opencode import WINDOW_TOKENS, database_of
from tests.support.sets import EXTENDED, SOAK

from upthread.testing.rehearsal_model import RehearsalModel
from upthread.testing.rehearsal_model.messages import MESSAGES

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


_NUMBERS = itertools.count(100)


@pytest.fixture(scope="module")
def plugged(
    opencode_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluggedOpenCode]:
    with RehearsalModel() as model:
        yield PluggedOpenCode(opencode_binary, model, tmp_path_factory.mktemp("plugged"))
    assert model.violations == []


@pytest.fixture(scope="module")
def agent(plugged: PluggedOpenCode) -> Iterator[AcpProcess]:
    """One OpenCode for all tests of this module that need no other."""
    with plugged.acp() as agent:
        yield agent


@dataclass(frozen=True)
class Desk:
    """A person at the OpenCode of this module, in one workstream."""

    plugged: PluggedOpenCode
    agent: AcpProcess

    def main(self) -> str:
        return self.plugged.main_session(self.agent)

    def ask(self, prompt: str, role: str = "planner", main: str = "", **named: object) -> None:
        """Have a main session, a new one without `main`, delegate a prompt."""
        delegation = self.plugged.delegate(prompt, role, **named)
        text = f"Delegate it.\n\n{delegation} [[SAY handed back]]"
        self.agent.prompt(main or self.main(), text)

    def planner(self, *, turns: int) -> Any:
        return self.plugged.planner(self.plugged.used, turns=turns)

    def last_told(self, session: str) -> str:
        """Return the texts of the last request of a session."""
        return told(self.plugged.requests_of(session)[-1])

    def delete(self, session: str) -> None:
        """Delete a session from OpenCode's store, as its own interface does."""
        with closing(sqlite3.connect(database_of(self.plugged.home))) as database:
            for table, column in (
                ("part", "session_id"),
                ("message", "session_id"),
                ("session", "id"),
            ):
                database.execute(f"DELETE FROM {table} WHERE {column} = ?", (session,))
            database.commit()

    def tasks(self) -> list[Any]:
        """Return what OpenCode has kept of its tasks, the last task last."""
        with closing(sqlite3.connect(database_of(self.plugged.home))) as database:
            kept = database.execute("SELECT data FROM part ORDER BY time_created").fetchall()
        parts = [json.loads(data) for (data,) in kept]
        return [each["state"] for each in parts if each.get("tool") == "task"]


@pytest.fixture
def desk(plugged: PluggedOpenCode, agent: AcpProcess) -> Desk:
    plugged.use(f"spec-{next(_NUMBERS)}")
    return Desk(plugged, agent)


def told(request: Any) -> str:
    return json.dumps([request.body["system"], request.body["messages"]])


def test_task_without_an_id_finds_its_session_from_another_process_and_main_session(desk):
    plugged = desk.plugged
    desk.ask("Remember KIWI-42.")
    plugged.run(plugged.delegate("What was it?"))
    child = desk.planner(turns=2)
    first, second = plugged.requests_of(child["upstream_session_id"])
    assert len(child["chain"]) == 1
    assert "KIWI-42" in told(second)
    assert MESSAGES.read(second.body).user_texts[-1] == "What was it?"
    assert first.body["system"] == second.body["system"], "the role's own instructions"
    assert first.body["tools"] == second.body["tools"], "the role's own permissions"
    assert "You are the planner." in told(second)
    audit = plugged.upthread("audit", plugged.used)
    turns = [turn for each in audit["conversations"] for turn in each["turns"]]
    ended = [each for turn in turns for each in turn["events"] if each["kind"] == "turn_ended"]
    assert [each["tokens_window"] for each in ended] == [WINDOW_TOKENS] * 2
    assert 0 < ended[0]["tokens_used"] < ended[1]["tokens_used"]
    saved = plugged.upthread("savings", plugged.used)["delegations"]
    assert [each["tokens_first_read"] for each in saved] == [tokens_in(first), tokens_in(second)]
    assert [each["tokens_first_cached"] for each in saved] == [0, 0]
    assert [each["tokens_read"] for each in saved] == [tokens_in(first), tokens_in(second)]


FAILS = "[[FAIL 400 no]]"


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param(("Remember KIWI-43.", f"Fail.\n\n{FAILS}", "What was it?"), marks=SOAK),
        pytest.param((f"Remember KIWI-43.\n\n{FAILS}", "What was it?"), marks=EXTENDED),
    ],
    ids=["later", "at once"],
)
def test_a_child_that_failed_continues_in_its_session(desk, prompts):
    for prompt in prompts:
        desk.ask(prompt)
    child = desk.planner(turns=len(prompts))
    assert len(child["chain"]) == 1
    assert "KIWI-43" in desk.last_told(child["upstream_session_id"])
    audit = desk.plugged.upthread("audit", desk.plugged.used, "--format", "json")
    outcomes = [turn["outcome"] == "ok" for turn in audit["conversations"][0]["turns"]]
    assert outcomes == [FAILS not in prompt for prompt in prompts]


@EXTENDED
def test_a_child_that_was_aborted_continues_in_its_session(desk):
    plugged = desk.plugged
    hanging = plugged.delegate("Part 0.\n\n[[HANG]]")
    plugged.stop_when(hanging, waiting_for(plugged, "Part 0."), signal.SIGINT)
    desk.ask("What was it?")
    child = desk.planner(turns=2)
    assert len(child["chain"]) == 1
    assert "Part 0." in desk.last_told(child["upstream_session_id"])


UNKNOWN = "ses_00000000000000000000000000"


@EXTENDED
def test_an_id_that_opencode_does_not_know_is_replaced_and_its_history_replayed(desk):
    desk.ask("Remember KIWI-46.")
    desk.planner(turns=1)
    desk.delete(desk.planner(turns=1)["upstream_session_id"])
    desk.ask("What was it?")
    child = desk.planner(turns=2)
    assert child["last_turn"]["decision"] == "resume_with_replay"
    assert child["last_turn"]["reasons"][0] == "missing"
    assert "KIWI-46" in desk.last_told(child["upstream_session_id"])


@EXTENDED
def test_a_session_that_the_model_names_itself_is_continued_on_record(desk):
    """OpenCode's results offer the id; for an unknown id it would make a new child, silently."""
    main = desk.main()
    desk.ask("Remember KIWI-47.", main=main)
    session = desk.planner(turns=1)["upstream_session_id"]
    desk.ask("What was it?", main=main, task_id=session)
    assert desk.planner(turns=2)["upstream_session_id"] == session
    assert "KIWI-47" in desk.last_told(session)
    assert "RESUMED" in desk.tasks()[-1]["input"]["description"]
    desk.ask("And now?", main=main, task_id=UNKNOWN)
    again = desk.planner(turns=3)
    assert (again["upstream_session_id"], len(again["chain"])) == (session, 1)
    assert "And now?" in json.dumps(desk.plugged.upthread("audit", desk.plugged.used))
    assert again["last_turn"]["reasons"] == ["unchanged", "unknown_session"]
    line = desk.tasks()[-1]["metadata"]["upthread"]
    assert f"the call named {UNKNOWN}, which the agent does not have" in line


REPLACING = """export const Another = async () => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool !== "task") return
    const copy = { ...output.args }
    delete output.args.task_id  // whichever plug-in is asked first, its own copy is what it sees
    output.args = copy
  },
})
"""


@SOAK
def test_a_plug_in_that_replaces_the_arguments_is_found_out_and_named(plugged):
    """OpenCode ignores a new `args` object and what is set in it: the child is a new child."""
    other = Path(plugged.environment["XDG_CONFIG_HOME"], "opencode", "plugin", "another.js")
    plugged.use("spec-10")
    other.write_text(REPLACING)
    try:
        with plugged.acp() as agent:
            for prompt in ("Plan.", "Go on."):
                Desk(plugged, agent).ask(prompt)
        child = plugged.planner("spec-10", turns=2)
    finally:
        other.unlink()
    assert len(child["chain"]) == 2, "reported as it was: the second child was not resumed"
    found = [each["what"] for each in plugged.upthread("doctor")["findings"]]
    assert any("does another plug-in replace `args` of `task`?" in what for what in found), found


def test_removal_leaves_nothing_behind(plugged):
    plugin = Path(plugged.environment["XDG_CONFIG_HOME"], "opencode", "plugin", "upthread.js")
    assert plugin.exists()
    plugged.upthread("setup", "opencode", "--remove", "--yes")
    assert not plugin.exists()
    assert not os.path.lexists(plugged.own / "hooks" / "installed.json")
