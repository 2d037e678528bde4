"""Whether a session is still worth resuming, decided before anything is sent, and told."""

from __future__ import annotations

import json
import random
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


async def test_files_read_without_a_known_name_are_a_reason_and_never_unchanged(world):
    world.configure(ALLOW)
    await read(world, "f1.txt")
    await tell(world, "[[rehearse: execute ls | xargs cat]]")
    assert [(await tell(world)).reasons for _ in range(2)] == [("files_unknown",)] * 2
    async with world.open() as project:
        found = await project.why("spec-42/planner")
        assert found.reading is not None
        assert (found.now.reasons, found.reading.files) == (("files_unknown",), 1)
        assert "- ``" not in (await project.brief("spec-42/planner")).text
    change(world, "f1.txt")
    assert (await tell(world)).reasons == ("files_changed",)


async def test_a_record_without_words_does_not_know_which_files_were_read(world):
    world.configure('record = "index"\n')
    await read(world, "f1.txt")
    assert (await tell(world)).reasons == ("files_unknown",)


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
async def test_new_instructions_reach_a_resumed_session_once(world: World) -> None:
    await tell(world)
    world.configure('[roles.planner]\ninstructions = "Plan in verse."\n')
    second = await tell(world)
    assert (second.decision, second.reasons) == ("resume_with_update", ("configuration_changed",))
    assert '<role name="planner">\nPlan in verse.\n</role>' in last_prompt(world)
    assert (await tell(world)).decision == "resume"
    assert "Plan in verse." not in last_prompt(world)


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


TURNS = 24


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
