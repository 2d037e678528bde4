"""The real agents, killed at random moments of a delegation: what their stores have is on record.

`UPTHREAD_KILLS` is how many kills there are for each agent, `UPTHREAD_SEED` where they begin.
"""

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.live.hooked import SET_UPS, SetUp
from tests.support.sets import SOAK

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, SOAK, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("UPTHREAD_KILLS", "8"))
SEED = int(os.environ.get("UPTHREAD_SEED", "1"))
CHILD_LIVES_S = 0.02
"""Half of the kills come so soon after the first request of the sub-agent."""
TRUE_AFTER_S = 2.0
PATIENCE_S = 30.0


@pytest.fixture(params=SET_UPS)
def played(request, tmp_path: Path) -> Iterator[SetUp]:
    kind = SET_UPS[request.param]
    binary = request.getfixturevalue(f"{kind.agent.program}_binary")
    with RehearsalModel() as model:
        made = kind(binary, model, tmp_path)
        made.upthread("trust", "--yes")
        yield made


def in_store_of_sub_agent(played: SetUp, word: str) -> str:
    """Return what the agent's own store has of the sub-agent that was asked for a word."""
    if played.agent.program == "opencode":
        (path,) = played.home.rglob("opencode.db")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT part.data FROM part JOIN session ON session.id = part.session_id "
                "WHERE session.parent_id IS NOT NULL ORDER BY part.time_created, part.id"
            ).fetchall()
        texts = ["\n".join(str(data) for (data,) in rows if word in str(data))]
    elif played.agent.program == "codex":
        # Its main session begins with "Go."
        texts = [path.read_text(errors="replace") for path in played.home.rglob("rollout-*.jsonl")]
        texts = [text for text in texts if '"Go.' not in text]
    else:
        paths = played.home.glob(".claude/projects/*/*/subagents/agent-*.jsonl")
        texts = [path.read_text(errors="replace") for path in paths]
    return "\n".join(text for text in texts if word in text)


def moment(played: SetUp, word: str, chosen: random.Random, whole_s: float) -> Callable[[], None]:
    """Return what waits for the moment of a kill."""
    begun = len(played.model.model_requests)

    def is_child_at_work() -> bool:
        return any(
            "Go." not in (text := json.dumps(each.body)) and word in text
            for each in list(played.model.model_requests)[begun:]
        )

    def wait() -> None:
        if chosen.random() < 0.5:
            time.sleep(chosen.uniform(0, whole_s))
            return
        until_s = time.monotonic() + PATIENCE_S
        while not is_child_at_work() and time.monotonic() < until_s:
            time.sleep(0.002)
        time.sleep(chosen.uniform(0, CHILD_LIVES_S))

    return wait


def test_after_a_kill_all_that_the_agents_store_has_is_on_record_and_nothing_is_untrue(played):
    chosen = random.Random(f"{SEED} {played.agent.name}")
    whole_s, in_store = 8.0, 0
    for number in range(KILLS):
        word, workstream = f"KIWI-{number}-X", f"w-{number}"
        deeds = played.project.parent / f"deeds-{number}"
        steps = " ".join(played.shell(f"echo {step} >> {deeds}") for step in ("one", "two"))
        prompt = f"Remember {word}.\n\n{steps} [[SAY noted]]"
        main = f"Go.\n\n{played.delegate(prompt)}"
        played.use(workstream)
        played.kill_when(main, moment(played, word, chosen, whole_s))
        time.sleep(TRUE_AFTER_S)
        check(played, workstream, word, deeds)
        in_store += bool(in_store_of_sub_agent(played, word))
    print(f"{played.agent.name}: {KILLS} kills, {in_store} after the agent stored its sub-agent")  # noqa: T201
    assert in_store, "each came before there was anything to lose"


def check(played: SetUp, workstream: str, word: str, deeds: Path) -> None:
    stored = in_store_of_sub_agent(played, word)
    listed = [
        each for each in played.upthread("ls")["workstreams"] if each["workstream"] == workstream
    ]
    if not listed:
        assert not stored, f"{workstream} is on no record, and its agent has: {stored[:2000]}"
        return
    record = played.upthread("audit", workstream)
    kept = json.dumps(record)
    turns = [turn for each in record["conversations"] for turn in each["turns"]]
    done = deeds.read_text().split() if deeds.exists() else []
    assert word in kept or not stored, kept
    assert listed[0]["state"] != "running", "its agent is dead"
    effects = played.upthread("show", workstream, "--effects")["effects"]
    for step in ("one", "two"):
        of_step = [each for each in effects if f"echo {step} " in each["title"]]
        assert len(of_step) <= 1, effects
        # The store has the call, so the record has it; and what it says of it is true.
        assert of_step or f"echo {step} " not in calls_in(stored), (effects, stored)
        for each in of_step:
            assert each["state"] != "done" or step in done, effects
            assert each["state"] != "failed" or step not in done, effects
    if any(turn["outcome"] == "ok" for turn in turns):
        assert done == ["one", "two"], kept


def calls_in(stored: str) -> str:
    """Return the lines of a store but for the prompt, which has the words of each call too."""
    return "\n".join(line for line in stored.splitlines() if "KIWI" not in line)
