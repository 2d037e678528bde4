"""Outward actions: kept before they are done, and never done again by themselves."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.sets import EXTENDED
from tests.support.world import (
    ALLOW,
    SAY_REPORT,
    SMALL_PIPELINE,
    SMALL_SPECIFICATION,
    World,
    eventually,
)

import upthread
from upthread.core.turns.effects import EffectState, Settlement, effects_of
from upthread.errors import UsageError
from upthread.runtime.record.erasure import Selection
from upthread.runtime.record.turn_views import RecordedEffect

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/constructor"
ALWAYS = "UPTHREAD_REHEARSAL_ALWAYS"
CAPABILITIES = "UPTHREAD_REHEARSAL_CAPABILITIES"
DEPLOY = "[[rehearse: execute sh deploy.sh]]"
TEST = "[[rehearse: execute sh check.sh]]"
CRASH = "[[rehearse: crash]]"


@pytest.fixture
def world(world: World) -> World:
    world.configure(ALLOW)
    for name in ("deploy", "check"):
        (world.project / f"{name}.sh").write_text(f"echo {name} >> done.log\n")
    return world


def done(world: World) -> list[str]:
    log = Path(world.project / "done.log")
    return log.read_text().split() if log.exists() else []


async def call(
    world: World, name: str, *arguments: str, always: str = "", capabilities: str = ""
) -> Any:
    environment = {ALWAYS: always, CAPABILITIES: capabilities}
    async with world.open(environment=environment) as project:
        options = upthread.TellOptions(agent="rehearsal")
        return await getattr(project, name)(ADDRESS, *arguments, options)


async def held(world: World) -> Sequence[RecordedEffect]:
    async with world.open() as project:
        return await project.effects_held(ADDRESS.partition("/")[0])


async def effects(world: World) -> Sequence[RecordedEffect]:
    async with world.open() as project:
        found = project.store.conversations(project.project_id, ADDRESS.partition("/")[0])
        return await project.effects(found)


async def settle(world: World, said: Settlement, effect_id: str | None = None) -> None:
    async with world.open() as project:
        await project.settle_effect(ADDRESS.partition("/")[0], said, effect_id)


@pytest.mark.soak
async def test_an_outward_action_that_was_done_is_held_back_until_a_person_says_so(world):
    first = await call(world, "tell", f"{DEPLOY} {CRASH}", always=DEPLOY)
    assert (first.outcome, done(world)) == ("unknown", ["deploy"])
    assert first.parked.reason == "held_back"
    assert "deploy.sh" in first.parked.detail
    again = await call(world, "go_on", always=DEPLOY)
    assert (again.parked.reason, done(world)) == ("held_back", ["deploy"]), "going on says nothing"
    await settle(world, Settlement.AGAIN)
    again = await call(world, "go_on", always=DEPLOY)
    assert (again.outcome, done(world)) == ("ok", ["deploy", "deploy"])
    world.check_histories()


@pytest.mark.soak
async def test_a_new_prompt_after_a_turn_that_was_cut_off_does_not_do_again_what_was_done(world):
    await call(world, "tell", f"{DEPLOY} {CRASH}", always=DEPLOY)
    second = await call(world, "tell", f"Go on. {DEPLOY}")
    assert (second.parked.reason, done(world)) == ("held_back", ["deploy"])
    assert (await call(world, "tell", "And now?")).outcome == "ok"
    result = await call(world, "tell", f"Again, please. {DEPLOY}")
    assert (result.parked.reason, done(world)) == ("held_back", ["deploy"])


@pytest.mark.parametrize("line", ["sh deploy.sh", "frob"])
async def test_what_was_done_before_a_kill_is_held_also_when_its_turn_was_taken_to_its_end(
    world, line
):
    frob = world.project / "frob"
    frob.write_text("#!/bin/sh\necho frob >> done.log\n")
    frob.chmod(0o755)
    line = line.replace("frob", "./frob")
    victim = world.start("tell", ADDRESS, f"[[rehearse: execute {line}]] [[rehearse: hang]]")
    while not any(e.effect.state is EffectState.DONE for e in await effects(world)):  # noqa: ASYNC110
        await anyio.sleep(0.05)
    victim.kill()
    first = done(world)
    assert (await call(world, "go_on")).outcome == "ok"
    assert (await call(world, "tell", "And now?")).outcome == "ok"
    for again in (line, f"nohup {line}", "./other"):
        result = await call(world, "tell", f"[[rehearse: execute {again}]]")
        assert (result.parked.reason, done(world)) == ("held_back", first), again
    await settle(world, Settlement.AGAIN)
    assert (await call(world, "tell", f"[[rehearse: execute {line}]]")).outcome == "ok"
    assert done(world) == [*first, *first]


@pytest.mark.parametrize("way", ["reset", "fresh", "adopt"])
async def test_what_was_done_before_a_kill_is_held_and_told_however_its_role_goes_on(world, way):
    victim = world.start("tell", ADDRESS, f"{DEPLOY} [[rehearse: hang]]")
    while not any(e.effect.state is EffectState.DONE for e in await effects(world)):  # noqa: ASYNC110
        await anyio.sleep(0.05)
    victim.kill()
    (session,) = world.session_files()
    other = session.with_name("ses_other.jsonl")
    other.write_text(session.read_text().replace(session.stem, other.stem))
    async with world.open() as project:
        if way == "reset":
            await project.reset(ADDRESS)
        if way == "adopt":
            await project.adopt(ADDRESS, other.stem, agent="rehearsal")
        options = upthread.TellOptions(agent="rehearsal", is_fresh=way == "fresh")
        result = await project.tell(ADDRESS, f"Again. {DEPLOY}", options)
        with pytest.raises(UsageError, match="an action that is held back would be forgotten"):
            await project.forget(Selection(workstream="spec-42"))
    assert (result.parked.reason, done(world)) == ("held_back", ["deploy"])
    assert "- Run sh deploy.sh: done" in world.prompts()[-1]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_where_nothing_stands_in_the_way_the_turn_parks_before_it_goes_on(world, is_lost):
    """The agent asks nobody: what it may have done it would do again, unseen."""
    slow = "[[rehearse: execute sh -c 'sh deploy.sh && sleep 60']]"
    victim = world.start("tell", ADDRESS, slow, environment={CAPABILITIES: "no_ask"})
    eventually(lambda: done(world) == ["deploy"])
    while is_lost and not await effects(world):  # noqa: ASYNC110  # else nobody knows of it
        await anyio.sleep(0.05)
    victim.send(signal.SIGSTOP)  # the agent goes first, and has no time to say how its call ended
    for pid in world.agents():
        os.kill(pid, signal.SIGKILL)
    victim.kill()
    for session in world.session_files() if is_lost else ():
        session.unlink()
    parked = await call(world, "go_on", always=DEPLOY, capabilities="no_ask")
    assert (parked.parked.reason, done(world)) == ("held_back", ["deploy"])
    parked = await call(world, "go_on", always=DEPLOY, capabilities="no_ask")
    assert (parked.parked.reason, done(world)) == ("held_back", ["deploy"])
    if is_lost:
        return  # a new session would get the slow prompt again, too
    await settle(world, Settlement.NOT_DONE)
    await call(world, "go_on", always=DEPLOY, capabilities="no_ask")
    assert done(world) == ["deploy", "deploy"]


@pytest.mark.soak
async def test_what_a_person_lets_be_done_again_is_the_action_that_was_named_and_no_other(world):
    (world.project / "deploy_mail.sh").write_text("echo mail >> done.log\n")
    mail = "[[rehearse: execute sh deploy_mail.sh]]"
    first = await call(world, "tell", f"{DEPLOY} {mail} {CRASH}", always=f"{DEPLOY} {mail}")
    assert "deploy.sh" in first.parked.detail
    deploy, _mail = await held(world)
    await settle(world, Settlement.AGAIN, deploy.effect_id)
    second = await call(world, "go_on", always=f"{DEPLOY} {mail}")
    assert (second.parked.reason, done(world)) == ("held_back", ["deploy", "mail", "deploy"])
    assert "deploy_mail.sh" in second.parked.detail


@pytest.mark.soak
async def test_a_local_action_is_simply_done_again(world: World) -> None:
    local = "[[rehearse: execute touch checked]]"
    result = await call(world, "tell", f"{local} {CRASH}", always=local)
    assert (result.outcome, (world.project / "checked").exists()) == ("ok", True)


async def test_an_agent_that_died_after_a_script_is_not_started_again_by_itself(world: World):
    result = await call(world, "tell", f"{TEST} {CRASH}", always=TEST)
    assert (result.parked.reason, done(world)) == ("held_back", ["check"])
    assert result.parked.detail == (
        "the agent's process died, and sending again may repeat `Run sh check.sh` (done)"
    )
    assert len(world.log("prompt")) == 1


@pytest.mark.soak
async def test_the_projects_own_patterns_are_outward_too(world: World) -> None:
    world.configure(f'{ALLOW}[effects]\noutward = ["*check*"]\n')
    result = await call(world, "tell", f"{TEST} {CRASH}", always=TEST)
    assert (result.parked.reason, done(world)) == ("held_back", ["check"])


@pytest.mark.soak
async def test_an_agent_that_shows_no_history_is_told_what_is_on_record_when_a_person_goes_on(
    world: World,
) -> None:
    first = await call(world, "tell", f"{TEST} {DEPLOY} {CRASH}", capabilities="no_load")
    assert (first.outcome, first.parked.reason) == ("unknown", "held_back")
    again = await call(world, "go_on", capabilities="no_load")
    assert (again.outcome, done(world)) == ("ok", ["check", "deploy"])
    assert "- Run sh check.sh: done" in world.prompts()[-1]
    assert "- Run sh deploy.sh: done" in world.prompts()[-1]


@pytest.mark.soak
async def test_the_intent_of_an_outward_action_is_kept_before_it_is_done(world: World) -> None:
    (world.project / "deploy.sh").write_text("kill -9 $PPID\n")
    result = await call(world, "tell", DEPLOY)
    (effect,) = effects_of(world.messages(ADDRESS))
    assert (bool(effect.actions), effect.was_asked) == (True, True)
    assert str(effect.state) == "unknown"
    assert result.parked.reason == "held_back", "the agent is not started again by itself"


async def test_a_step_that_was_cancelled_after_an_outward_action_is_not_sent_again(world: World):
    task = f"{DEPLOY} [[rehearse: once hang]] {SAY_REPORT}"
    world.configure(f"{ALLOW}[[pipeline.steps]]\nrole = 'constructor'\ntask = '''{task}'''\n")
    victim = world.start("run", "spec-42", SMALL_SPECIFICATION)
    eventually(lambda: done(world) == ["deploy"])
    victim.interrupt()
    for _ in range(2):
        again = world.start("run", "spec-42").result
        assert (again["status"], done(world)) == ("parked", ["deploy"])
    (prompt,) = world.prompts()
    assert DEPLOY in prompt
    (effect,) = await held(world)
    await settle(world, Settlement.DONE, effect.effect_id)
    assert world.start("run", "spec-42").result["status"] == "done"
    assert done(world) == ["deploy"], "refused, and the agent continued without it"


RELEASED = f"""{SMALL_SPECIFICATION}
## Check
```sh
sh check.sh
```
## Release
```sh
sh deploy.sh
```
"""


@EXTENDED
async def test_a_verdict_of_an_agent_that_nobody_could_answer_any_more_sends_nobody_back(world):
    """What was built is released once, also when the validator outlives its upthread."""
    world.configure(ALLOW + SMALL_PIPELINE)
    environment = {CAPABILITIES: "outlives", "UPTHREAD_REHEARSAL_PACE_MS": "300"}
    # A script would be held: it is not known to be repeatable.
    specification = RELEASED.replace("sh check.sh", "touch checked")
    victim = world.start("run", "spec-42", specification, environment=environment)
    eventually(lambda: [each for each in world.log("read") if each["role"] == "validator"])
    victim.send(signal.SIGKILL)  # before it asks whether it may run the check
    assert victim.exit_code == -signal.SIGKILL
    eventually(lambda: [each for each in world.log("reply") if each["role"] == "validator"])
    assert "the client has gone" in [each["answer"] for each in world.log("permission")]
    again = world.start("run", "spec-42")
    assert again.result["status"] == "approved"
    assert (done(world), (world.project / "checked").exists()) == (["deploy"], True)
    world.check_histories()
