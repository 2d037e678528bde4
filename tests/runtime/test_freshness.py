"""Whether a session is still worth resuming, decided before anything is sent, and told."""

from __future__ import annotations

import json
import random
import shutil
import sys
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import ALLOW, World, git

import upthread
from upthread.errors import RefusedError

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
SAY = "[[rehearse: say noted]]"
FILES = tuple(f"f{number}.txt" for number in range(1, 8))
HEADING = "# What has changed since your last turn"

SPECIFICATION = """\
# Greetings
It is about {files}.
## Requirements
- R1 `hello.txt`: it says hello.
  ```
  <opening>
  ```
## Open
- OPEN opening: With which words does it open?
"""


async def tell(
    world: World, text: str = SAY, *, address: str = "spec-42/planner", **more: Any
) -> upthread.TurnResult:
    async with world.open(**more) as project:
        return await project.tell(address, text, REHEARSAL)


async def read(world: World, *names: str) -> upthread.TurnResult:
    """Have the planner's session read files that are there and committed."""
    for name in names:
        (world.project / name).write_text(f"{name}\n")
    if names:
        git(world.project, "add", "-A")
        git(world.project, "commit", "-qm", "files")
    return await tell(world, " ".join([*(f"[[rehearse: read {name}]]" for name in names), SAY]))


def change(world: World, *names: str) -> None:
    for name in names:
        (world.project / name).write_text(f"{name}, changed by somebody else\n")


def last_prompt(world: World) -> str:
    return world.prompts()[-1]


@pytest.mark.parametrize(
    ("changed", "decision", "reason"),
    [
        pytest.param(0, "resume", "unchanged", marks=EXTENDED),
        pytest.param(1, "resume_with_update", "files_changed", marks=EXTENDED),
        (5, "resume_with_update", "files_changed"),
        (6, "start_fresh_with_briefing", "many_changed"),
    ],
)
async def test_the_thresholds_are_none_five_and_more_and_the_files_are_named(
    world: World, changed: int, decision: str, reason: str
) -> None:
    first = await read(world, *FILES)
    change(world, *FILES[:changed])
    second = await tell(world)
    assert (second.decision, second.reasons[0]) == (decision, reason)
    assert (second.upstream_session_id == first.upstream_session_id) == (changed <= 5)
    told = [name for name in FILES if f"`{name}`: changed" in last_prompt(world)]
    assert told == list(FILES[:changed])
    assert (HEADING in last_prompt(world)) == (0 < changed <= 5)
    assert ("# Briefing" in last_prompt(world)) == (changed > 5)


@EXTENDED
async def test_one_critical_file_is_enough_for_a_fresh_session_with_a_briefing(world):
    world.configure('[freshness]\ncritical = ["contracts/**"]\n')
    (world.project / "contracts").mkdir()
    await read(world, "contracts/a.txt", "f1.txt")
    change(world, "contracts/a.txt")
    second = await tell(world)
    assert second.decision == "start_fresh_with_briefing"
    assert second.reasons == ("critical_changed",)
    assert "`contracts/a.txt`: changed" in last_prompt(world)


@EXTENDED
async def test_what_the_session_wrote_and_what_its_own_commands_did_it_knows(world):
    world.configure(ALLOW)
    await read(world, "f1.txt", "f2.txt")
    mine = "[[rehearse: write f1.txt mine]] [[rehearse: execute sh -c 'echo x > f2.txt']]"
    assert (await tell(world, mine)).decision == "resume"
    assert (await tell(world)).reasons == ("unchanged",)


@EXTENDED
async def test_another_branch_is_told_once_and_one_the_agent_made_itself_is_not(world):
    world.configure(ALLOW)
    await tell(world)
    git(world.project, "switch", "-qc", "theirs")
    second = await tell(world)
    assert (second.decision, second.reasons[0]) == ("resume_with_update", "branch_changed")
    assert "the branch is `theirs`; it was `main`" in last_prompt(world)
    third = await tell(world, "[[rehearse: execute git switch -qc own]]")
    assert third.reasons == ("unchanged",)
    assert (await tell(world)).reasons == ("unchanged",)


@EXTENDED
async def test_a_commit_that_touches_no_file_it_had_read_is_a_reason_and_no_news(world):
    await read(world, "f1.txt")
    (world.project / "other.txt").write_text("other")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "other")
    second = await tell(world)
    assert (second.decision, second.reasons[0]) == ("resume", "commit_changed")
    assert last_prompt(world) == SAY


@EXTENDED
async def test_new_instructions_reach_a_resumed_session_once(world: World) -> None:
    await tell(world)
    world.configure('[roles.planner]\ninstructions = "Plan in verse."\n')
    second = await tell(world)
    assert (second.decision, second.reasons) == ("resume_with_update", ("configuration_changed",))
    assert '<role name="planner">\nPlan in verse.\n</role>' in last_prompt(world)
    assert (await tell(world)).decision == "resume"
    assert "Plan in verse." not in last_prompt(world)


@EXTENDED
async def test_a_worktree_that_was_removed_takes_its_session_along(world: World) -> None:
    git(world.project, "worktree", "add", "-q", str(world.directory / "tree"))
    async with world.open(world.directory / "tree") as project:
        await project.tell("spec-42/planner", SAY, REHEARSAL)
    shutil.rmtree(world.directory / "tree")
    second = await tell(world)
    assert second.decision == "start_fresh_with_briefing"
    assert second.reasons[0] == "directory_missing"


@EXTENDED
async def test_an_agent_of_another_version_is_a_reason_and_its_session_is_resumed(world):
    for version in ("1.0", "1.1"):
        code = (
            "from upthread.agents.rehearsal import methods; "
            f"methods.VERSION = '{version}'; "
            "from upthread.agents.rehearsal.__main__ import main; main()"
        )
        command = json.dumps([sys.executable, "-I", "-c", code])
        world.configure(f"[agents.understudy]\ncommand = {command}\n")
        async with world.open() as project:
            options = upthread.TellOptions(agent="understudy")
            done = await project.tell("spec-42/planner", SAY, options)
    assert (done.decision, done.reasons) == ("resume", ("agent_changed", "unchanged"))


@pytest.mark.soak
async def test_a_nearly_full_session_is_relayed_three_times_and_then_refused(world):
    full = "[[rehearse: usage 70 100]] [[rehearse: say noted]]"
    await tell(world, full)
    relayed = [await tell(world, full) for _ in range(3)]
    assert {each.decision for each in relayed} == {"start_fresh_with_briefing"}
    assert {each.reasons[0] for each in relayed} == {"nearly_full"}
    with pytest.raises(RefusedError, match="the session is nearly full, and so were") as refused:
        await tell(world)
    assert refused.value.reasons == ("relays_used_up",)
    async with world.open() as project:
        found = await project.why("spec-42/planner")
        view = await project.role("spec-42/planner")
        kept = project.store.refusals(view.conversation.conversation_id)
    assert (found.now.decision, found.now.reasons[0]) == ("refuse", "relays_used_up")
    assert [each.reasons for each in kept] == [("relays_used_up",)]
    assert view.turns == 4
    assert (await tell(world, "fresh: " + SAY)).reasons[0] == "asked"


@EXTENDED
async def test_a_price_can_be_a_rule(world: World) -> None:
    world.configure("[freshness]\nresume_tokens_max = 1000\n")
    await tell(world, "[[rehearse: usage 1001 200000]] " + SAY)
    second = await tell(world)
    assert (second.decision, second.reasons[0]) == ("start_fresh_with_briefing", "too_big")


@EXTENDED
async def test_why_tells_what_would_be_done_and_does_nothing(world: World) -> None:
    await read(world, *FILES)
    change(world, "f1.txt")
    events = len(world.log())
    async with world.open() as project:
        before = await project.role("spec-42/planner")
        found = await project.why("spec-42/planner")
        again = await project.why("spec-42/planner")
        assert await project.role("spec-42/planner") == before
    assert (found.last.decision, found.now.decision) == ("first", "resume_with_update")
    assert found.now.reasons == again.now.reasons == ("files_changed",)
    freshness: Any = found.now.inputs["freshness"]
    price: Any = found.now.inputs["price"]
    assert [each["path"] for each in freshness["changed"]] == ["f1.txt"]
    assert freshness["examined_count"] == len(FILES)
    assert price["resume"]["count"] > 0
    assert price["resume"]["is_estimate"]
    assert len(world.log()) == events
    assert (await tell(world)).decision == found.now.decision


@pytest.mark.soak
async def test_a_run_whose_clarifier_went_stale_asks_nothing_that_was_answered(world):
    world.configure(ALLOW)
    for name in FILES:
        (world.project / name).write_text(f"{name}\n")
    specification = SPECIFICATION.format(files=", ".join(f"`{name}`" for name in FILES))
    options = upthread.RunOptions(agent="rehearsal")
    async with world.open() as project:
        view = await project.run("spec-42", specification, options)
        assert [each.question_id for each in view.open_questions] == ["opening"]
        await project.answer("spec-42", "With good day")
        await project.run("spec-42", None, options)
        await project.run("spec-42", f"{specification}\nOnce more.\n", options)
        change(world, *FILES[:6])
        asked = len(world.log("question"))
        view = await project.run("spec-42", f"{specification}\nAnd again.\n", options)
        chain = (await project.role("spec-42/clarifier")).chain
    assert [each.ended_because for each in chain] == ["many_changed", None]
    assert view.open_questions == ()
    assert len(world.log("question")) == asked
    fresh = [e for e in world.log("prompt") if e["session_id"] == chain[-1].upstream_session_id]
    assert "# Briefing" in fresh[0]["text"]
    assert "opening: With which words does it open? → " in fresh[0]["text"]
    assert "not a person's decision] With good day" in fresh[0]["text"]  # the library's caller's


TURNS = 24
"""`make soak` takes a thousand: test_soak.py."""


@EXTENDED
async def test_two_workstreams_in_one_directory_never_see_each_others_text(world: World) -> None:
    await interleave(world, turns=TURNS, seed=42)


async def interleave(world: World, *, turns: int, seed: int) -> None:
    """Take random turns on two workstreams; no text of one may be in a request of the other."""
    dice = random.Random(seed)
    world.configure(ALLOW)
    (world.project / "shared.txt").write_text("shared\n")
    owners: dict[str, str] = {}
    async with world.open() as project:
        for number in range(turns):
            name = dice.choice(("alpha", "omega"))
            role = dice.choice(("planner", "constructor", "validator"))
            extra = dice.choice(
                (
                    "[[rehearse: read shared.txt]]",
                    f"[[rehearse: write {name}.txt {name}-{number}]]",
                    "[[rehearse: usage 70 100]]",
                    "[[rehearse: if_resumed lose_session]]",
                    "",
                )
            )
            if dice.random() < 0.3:
                (world.project / "shared.txt").write_text(f"{number}\n")
            fresh = "fresh: " if dice.random() < 0.3 else ""
            text = f"{fresh}Mark {name}-{number}. {extra} [[rehearse: say {name} reply {number}]]"
            try:
                done = await project.tell(f"{name}/{role}", text, REHEARSAL)
            except RefusedError as refused:  # its last sessions were full, one after the other
                if refused.reasons != ("relays_used_up",):
                    raise
                done = await project.tell(f"{name}/{role}", f"fresh: {text}", REHEARSAL)
            assert owners.setdefault(str(done.upstream_session_id), name) == name
    strangers = {"alpha": "omega", "omega": "alpha"}
    told = world.log("prompt")
    assert len(told) >= turns
    for each in told:
        mine = {name for name in strangers if f"{name}-" in each["text"]}
        assert len(mine) == 1, each["text"]
        (name,) = mine
        assert strangers[name] not in each["text"]
