"""A step that tells: once for an activity, and gone on with after a kill."""

import asyncio
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tests.support.world import eventually

from upthread.client.project_opener import open_project
from upthread.core.turns.turn import SENDS_MAX, is_continuation
from upthread.errors import NoOpenTurnError, UsageError
from upthread.integrations import durable_tell
from upthread.integrations.durable_tell import NotToldError, is_final, tell_once
from upthread.integrations.temporal import Tell, upthread_tell
from upthread.runtime.record.erasure import Selection
from upthread.runtime.record.turn_views import turn_view
from upthread.runtime.system import now_ms
from upthread.runtime.turns import turns as runtime_turns
from upthread.runtime.turns.delegation import Listener, TellOptions
from upthread.tasks import task_group

WORKFLOW = """
import json, os, sys
from dbos import DBOS
from upthread.client.project_opener import open_project
from upthread.integrations.durable_tell import tell_once
from upthread.runtime.turns.delegation import TellOptions

directory, system_database, database, killed_in = sys.argv[1:]
DBOS(config={"name": "steps", "system_database_url": f"sqlite:///{system_database}"})

@DBOS.step()
async def told(number: int) -> str:
    async with open_project(directory, database=database) as up:
        prompt = f"[[rehearse: say line-{number}]]"
        key = f"dbos:{DBOS.workflow_id}:{number}"
        result = await tell_once(up, key, "spec/planner", prompt, TellOptions(agent="rehearsal"))
    if number == int(killed_in):
        os.kill(os.getpid(), 9)
    return result["turn_id"]

@DBOS.workflow()
async def ten_steps() -> list:
    return [await told(number) for number in range(10)]

DBOS.launch()
from dbos import SetWorkflowID
import asyncio
async def main():
    with SetWorkflowID("one"):
        handle = await DBOS.start_workflow_async(ten_steps)
    print(json.dumps(await handle.get_result()))
asyncio.run(main())
"""


STEP = """
import asyncio, sys
from upthread.client.project_opener import open_project
from upthread.integrations.durable_tell import tell_once
from upthread.runtime.turns.delegation import TellOptions

async def step(directory, database, text):
    async with open_project(directory, database=database) as up:
        await tell_once(up, "key", "spec/planner", text, TellOptions(agent="rehearsal"))

asyncio.run(step(*sys.argv[1:]))
"""


def tell_of(place, text, address="spec/planner"):
    return Tell(address, text, str(place.repository), place.database, "rehearsal")


SECRET_TEXT = "[[rehearse: slow 2 60000]] with AKIAQ7RX2JZ5KMWN4TPL"


def turns(place):
    shown = json.loads(place.upthread("show", "spec", "--json"))
    return shown["roles"][0]["turns"]


def told_in(place, key, text, address="spec/planner", *, before=None, **more):
    """Tell once; `before` is what was begun under the key and has no end."""

    async def tell():
        async with open_project(place.repository, database=place.database) as up:
            if before is not None:
                await begin(up, key, before)
            return await tell_once(up, key, address, text, TellOptions(agent="rehearsal", **more))

    return asyncio.run(tell())


async def begin(up, key, before):
    await before(up)
    with anyio.CancelScope() as begun:

        async def stop():
            begun.cancel()
            await anyio.sleep_forever()

        await up.once(key, stop)


async def cut_off(tell, *words, is_answered=False, **more):
    """Tell somebody, and go at the first word of the agent, if no answer is waited for."""
    heard = anyio.CancelScope()
    listener = Listener(event=lambda *_: is_answered or heard.cancel())
    with heard:
        await tell(*words, TellOptions(agent="rehearsal", listener=listener, **more))


def interruptions(home):
    told = "An earlier turn of yours was interrupted"
    return home.upthread("audit", "spec", "--json").count(told)


def continued(home, text, before):
    """What a step returns that was begun: the same each time."""
    told = told_in(home, "key", text, before=before)
    assert told_in(home, "key", text) == told
    return told


def sent(home):
    """The prompts that the agents got."""
    log = map(json.loads, (home.directory / "agents.jsonl").read_text().splitlines())
    return [each for each in log if each["event"] == "prompt"]


def kill_step(home, program, text, is_at_work):
    """Run a step in a process of its own, and kill it and its agent at work."""
    (home.directory / "step.py").write_text(program)
    words = [home.directory / "step.py", home.repository, home.database, text]
    victim = subprocess.Popen([sys.executable, *map(str, words)], start_new_session=True)
    eventually(is_at_work)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()


def run(tell):
    return asyncio.run(ActivityEnvironment().run(upthread_tell, tell))


def refused(tell, match=None):
    with pytest.raises(ApplicationError, match=match) as error:
        run(tell)
    return error.value


def test_an_activity_that_runs_again_gets_the_first_reply_and_tells_nobody(home):
    tell = tell_of(home, "[[rehearse: say hello]]")
    first = run(tell)
    assert run(tell) == first
    assert "hello" in first["reply"]
    assert turns(home) == 1


def run_as(tell, **info):
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, **info)
    return asyncio.run(environment.run(upthread_tell, tell))


def test_an_activity_of_the_same_id_scheduled_later_is_another_one(home):
    tell = tell_of(home, "[[rehearse: say next]]")
    at = [datetime(2026, 11, 28, 18, minute, tzinfo=UTC) for minute in (0, 0, 1)]
    first, retried, second = (run_as(tell, scheduled_time=each) for each in at)
    assert first == retried
    assert second["turn_id"] != first["turn_id"]
    # A local one has a new time after its worker was killed.
    local, again = (run_as(tell, scheduled_time=each, is_local=True) for each in at[1:])
    assert local == again
    assert turns(home) == 3


OLDER = "temporal:{0.namespace}:{0.workflow_id}:{0.workflow_run_id}:{0.activity_id}"
OLDEST = "temporal:{0.workflow_id}:{0.activity_id}"


@pytest.mark.parametrize("key", [OLDER, OLDEST])
def test_an_activity_begun_by_an_older_version_keeps_its_key(home, key):
    text = "[[rehearse: say next]]"
    info = ActivityEnvironment().info
    begun = datetime.fromtimestamp(now_ms() / 1000, UTC)
    before = told_in(home, key.format(info), text)
    assert run_as(tell_of(home, text), scheduled_time=begun) == before
    later = run_as(tell_of(home, text), scheduled_time=begun + timedelta(hours=1))
    assert later["turn_id"] != before["turn_id"]


@pytest.mark.parametrize("key", [OLDER, OLDEST])
def test_an_activity_that_was_killed_under_an_older_version_is_continued(home, key, monkeypatch):
    log, text = home.directory / "agents.jsonl", "[[rehearse: slow 2 60000]]"
    monkeypatch.setenv("UPTHREAD_REHEARSAL_LOG", str(log))
    begun = datetime.fromtimestamp(now_ms() / 1000, UTC)
    # No turn had the key of its step then.
    told = 'up.tell("spec/planner", text, TellOptions(agent="rehearsal"))'
    step = f"await up.once({key.format(ActivityEnvironment().info)!r}, lambda: {told})"
    program = re.sub(r"await tell_once\(.*\)", lambda _: step, STEP)
    kill_step(home, program, text, lambda: log.exists() and '"prompt"' in log.read_text())
    assert run_as(tell_of(home, text), scheduled_time=begun)["outcome"] == "ok"
    prompts = [each["text"] for each in sent(home)]
    assert ["Go on from where you stopped" in each for each in prompts] == [False, True]


def test_a_workflow_id_of_any_length_can_be_told(home):
    tell = tell_of(home, "[[rehearse: say long]]")
    ids = [f"{'注' * 320}{end}" for end in "aab"]
    one, again, other = (run_as(tell, workflow_id=each)["turn_id"] for each in ids)
    assert one == again != other
    with pytest.raises(UsageError, match=r"'kkk.* no key for an action: it has 1001 bytes"):
        told_in(home, "k" * 1001, "hi")


def test_it_heartbeats_often_enough_for_the_timeout_that_it_was_given(home):
    beats, environment = [], ActivityEnvironment()
    limit = timedelta(seconds=0.4)
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=limit)
    environment.on_heartbeat = lambda *told: beats.append(told)
    asyncio.run(environment.run(upthread_tell, tell_of(home, "[[rehearse: slow 15 100]]")))
    assert len(beats) > 4
    assert set(beats) == {("spec/planner",)}


def test_a_role_that_another_process_holds_is_reported_with_its_holder(home):
    beats, environment = [], ActivityEnvironment()
    limit = timedelta(seconds=1)
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=limit)
    seen = anyio.Event()

    def beat(*told):
        beats.append(told)
        if len(told) > 1:
            seen.set()

    environment.on_heartbeat = beat

    async def held():
        async with open_project(home.repository, database=home.database) as up:
            begun = anyio.Event()
            listener = Listener(started=lambda _: begun.set())
            options = TellOptions(agent="rehearsal", listener=listener)
            async with task_group() as tasks:
                tasks.start_soon(up.tell, "spec/planner", "[[rehearse: hang]]", options)
                await begun.wait()
                tasks.start_soon(environment.run, upthread_tell, tell_of(home, "hi"))
                await seen.wait()
                tasks.cancel_scope.cancel()

    asyncio.run(held())
    assert re.search(rf"waits: pid {os.getpid()} on .* holds it", str(beats[-1]))
    assert turns(home) == 1


def test_an_address_that_is_none_is_not_tried_again(home):
    assert refused(tell_of(home, "hi", "no-address"), "WORKSTREAM/ROLE").non_retryable


def test_ten_steps_of_a_durable_engine_killed_in_the_fifth_are_told_once_each(home, tmp_path):
    program = tmp_path / "workflow.py"
    program.write_text(WORKFLOW)

    def run(killed_in):
        words = [home.repository, tmp_path / "dbos.db", home.database, killed_in]
        return subprocess.run(
            [sys.executable, program, *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, **home.environment},
            check=False,
        )

    killed = run(5)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    deadline = time.monotonic() + 60
    while (done := run(-1)).returncode != 0:
        assert time.monotonic() < deadline, done.stderr[-2000:]
    assert len(set(json.loads(done.stdout.splitlines()[-1]))) == 10
    assert turns(home) == 10


def test_a_step_that_was_stopped_before_it_told_anybody_tells(home):
    looked = {"before": lambda up: up.workstreams()}
    told = told_in(home, "key", "[[rehearse: say hello]]", **looked)
    assert told["reply"].endswith("hello")


def test_a_step_that_was_stopped_goes_on_also_where_another_one_took_its_role_meanwhile(home):
    text = "[[rehearse: slow 2 60000]]"

    async def before(up):
        await cut_off(up.tell, "spec/planner", text, key="key")
        await up.tell("spec/planner", "And now?", TellOptions(agent="rehearsal"))

    continued(home, text, before)
    assert interruptions(home) == 1
    assert turns(home) == 3


def test_a_step_that_was_stopped_is_not_begun_anew_where_a_restore_has_lost_its_turn(home):
    text = "[[rehearse: slow 2 60000]]"
    told_in(home, "before", "[[rehearse: say hello]]")
    home.upthread("backup", str(home.directory / "backup.db"))

    async def lost():
        async with open_project(home.repository, database=home.database) as up:
            await begin(up, "key", lambda up: cut_off(up.tell, "spec/planner", text, key="key"))

    asyncio.run(lost())
    home.upthread("restore", str(home.directory / "backup.db"), "--yes")
    told_in(home, "key", text)
    assert interruptions(home) == 1


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_step_that_was_stopped_in_a_sibling_is_continued_there(home, monkeypatch, is_answered):
    monkeypatch.setenv("UPTHREAD_REHEARSAL_LOG", str(home.directory / "agents.jsonl"))
    text = "[[rehearse: say hello]]" if is_answered else "[[rehearse: slow 2 60000]]"

    async def before(up):
        async def divert():
            more = {"key": "key", "when_busy": "sibling", "is_answered": is_answered}
            await cut_off(up.tell, "spec/planner", text, **more)
            main.cancel()

        begun = Listener(started=lambda _: tasks.start_soon(divert))
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as main:
                options = TellOptions(agent="rehearsal", listener=begun)
                await up.tell("spec/planner", "[[rehearse: slow 9 60000]]", options)

    assert continued(home, text, before)["address"] == "spec/planner"
    own = [each for each in sent(home) if "slow 9" not in each["text"]]
    assert [is_continuation(each["text"]) for each in own] == [False] + [True] * (not is_answered)
    assert len({each["session_id"] for each in own}) == 1


def test_a_step_is_not_begun_again_in_a_release_that_is_another_project(
    place, tmp_path, monkeypatch
):
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    tell = tell_of(place, "[[rehearse: say hello]]")
    first = run(tell)
    moved = dataclasses.replace(tell, directory=str(tmp_path))
    run_as(moved, activity_id="another")
    error = refused(moved, "is another one")
    assert not error.non_retryable
    (project,) = re.findall("UPTHREAD_PROJECT=(prj_[0-9a-f]+)", str(error))
    monkeypatch.setenv("UPTHREAD_PROJECT", project)
    assert run(moved) == first
    assert turns(place) == 1


def test_a_parked_step_goes_on_also_where_another_prompt_took_its_place(home):
    text = "[[rehearse: once auth]] [[rehearse: say done]]"

    async def parked(up):
        options = TellOptions(agent="rehearsal", key="key")
        assert (await up.tell("spec/planner", text, options)).parked
        await up.tell("spec/planner", "And now?", TellOptions(agent="rehearsal"))

    continued(home, text, parked)
    assert interruptions(home) == 1
    assert turns(home) == 3


@pytest.mark.parametrize(
    ("address", "text"), [("spec/auditor", SECRET_TEXT), ("spec/planner", "Write a poem.")]
)
def test_a_step_of_another_address_or_text_is_an_error_before_there_is_a_reply(home, address, text):
    async def begun():
        async with open_project(home.repository, database=home.database) as up:
            await cut_off(tell_once, up, "key", "spec/planner", SECRET_TEXT)

    asyncio.run(begun())
    with pytest.raises(
        UsageError, match=r"begun about something else: 'another prompt to spec/planner'"
    ):
        told_in(home, "key", text, address)
    assert turns(home) == 1
    assert "reply" in told_in(home, "key", SECRET_TEXT)
    assert turns(home) <= 3


def test_a_key_of_once_is_none_of_a_step_and_a_step_s_is_none_of_once(home):
    async def done(up):
        await up.once("of once", anyio.lowlevel.checkpoint)

    with pytest.raises(UsageError, match="that of an action of `once`") as caught:
        told_in(home, "of once", "hello", before=done)
    assert is_final(caught.value)

    async def once_as_told(up):
        with pytest.raises(
            UsageError, match="about something else: 'another prompt to spec/planner'"
        ):
            await up.once("told", anyio.lowlevel.checkpoint)

    told_in(home, "told", "hello")
    told_in(home, "next", "hello", before=once_as_told)


@pytest.mark.parametrize(
    ("directive", "said"),
    [
        ("say not I]] [[rehearse: stop refusal", "declined to go on: .*; it said: .*not I"),
        ("empty", "the agent answered nothing"),
    ],
)
def test_a_step_that_was_declined_or_answered_with_nothing_has_no_reply(home, directive, said):
    for _ in range(2):
        with pytest.raises(NotToldError, match=f"gave no reply: .*{said}.*ask in other") as error:
            told_in(home, "key", f"[[rehearse: {directive}]]")
        assert is_final(error.value)
    assert turns(home) == 1


def test_a_step_that_was_killed_in_an_outward_call_returns_what_is_in_doubt(home, monkeypatch):
    allow_all(home, monkeypatch)
    monkeypatch.delenv("UPTHREAD_REHEARSAL_ALWAYS")
    text, pushed = "[[rehearse: execute git push origin main]]", home.directory / "pushed"
    git = home.directory / "git"
    git.write_text(
        f"#!/bin/sh\n[ $1 != push ] && exec /usr/bin/git $@\necho >> {pushed}; sleep 60\n"
    )
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home.directory}:{os.environ['PATH']}")
    kill_step(
        *(home, STEP, text),
        lambda: any(b"allow_once" in f.read_bytes() for f in home.directory.glob("record.db*")),
    )
    told = told_in(home, "key", text)
    assert told["outcome"] == "ok"
    (doubt,) = told["in_doubt"]
    assert told_in(home, "key", text) == told
    home.upthread("effects", "spec", "not-done", doubt)
    assert told_in(home, "key", text) == {**told, "in_doubt": []}
    assert pushed.read_text() == "\n"


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_step_whose_role_was_reset_is_not_told_its_prompt_again(home, is_answered):
    text = "[[rehearse: say hello]]" if is_answered else "[[rehearse: slow 2 60000]]"

    async def before(up):
        more = {"key": "key", "is_answered": is_answered}
        await cut_off(up.tell, "spec/planner", text, **more)
        await up.reset("spec/planner")

    continued(home, text, before)
    assert interruptions(home) == (not is_answered)
    assert turns(home) == (not is_answered)


@pytest.mark.parametrize(
    "more", [("spec",), ("spec", "--role", "planner"), ("--before", "2999-01-31")]
)
def test_a_reply_that_was_forgotten_is_in_no_file_and_its_prompt_is_not_sent_again(home, more):
    text = "[[rehearse: say Quixotic zebra]]"

    async def forgotten(up):
        await up.tell("spec/planner", text, TellOptions(agent="rehearsal", key="no receipt"))
        await up.forget(Selection(workstream="spec"))

    told_in(home, "receipt", text)
    home.upthread("forget", *more, "--yes")
    files = home.directory.rglob("record.db*")
    assert [each for each in files if b"Quixotic" in each.read_bytes()] == []
    for key, before in (("receipt", None), ("no receipt", forgotten)):
        with pytest.raises(UsageError, match=f"told under the key '{key}' was forgotten"):
            told_in(home, key, text, before=before)
    assert turns(home) == 2


def test_another_text_or_address_under_a_key_is_an_error(home):
    text = "[[rehearse: say hello]]"
    told_in(home, "key", text)
    for other in ({"text": "else"}, {"text": text, "address": "spec/auditor"}):
        with pytest.raises(UsageError, match="something else was told, to spec/planner"):
            told_in(home, "key", **other)


def test_a_parked_turn_of_a_step_waits_for_a_person_at_each_attempt(home):
    text = "[[rehearse: auth]]"

    async def parked(up):
        await up.tell("spec/planner", text, TellOptions(agent="rehearsal", key="key"))

    for before in (parked, None):
        with pytest.raises(NotToldError, match="waits for a person") as error:
            told_in(home, "key", text, before=before)
        assert is_final(error.value)
    assert turns(home) == 1


def allow_all(home, monkeypatch):
    """Let agents act, log their prompts, and be overloaded at the end of each."""
    monkeypatch.setattr(runtime_turns, "RETRY_AFTER_S", 0)
    monkeypatch.setenv("UPTHREAD_REHEARSAL_ALWAYS", "[[rehearse: fail_as overloaded Busy]]")
    monkeypatch.setenv("UPTHREAD_REHEARSAL_LOG", str(home.directory / "agents.jsonl"))
    (home.directory / "home").mkdir(mode=0o700)
    allowed = '[permissions]\nedit = "allow"\nexecute = "allow"\n'
    (home.directory / "home" / "config.toml").write_text(allowed)


@pytest.mark.parametrize("is_taken_meanwhile", [False, True])
def test_an_agent_that_acts_and_is_overloaded_each_time_goes_on_and_is_asked_ten_times(
    home, monkeypatch, is_taken_meanwhile
):
    allow_all(home, monkeypatch)
    tell = tell_of(home, "[[rehearse: write a.txt x]]")
    errors = []
    for _ in range(SENDS_MAX):
        errors.append(refused(tell))
        if is_taken_meanwhile and len(errors) == 1:
            with pytest.raises(NotToldError):
                told_in(home, "other", "[[rehearse: say other]]")
    assert [each.non_retryable for each in errors] == [*[False] * (SENDS_MAX - 1), True]
    assert "none of 10 attempts got a reply (mend that" in str(errors[-1])
    own = [each["text"] for each in sent(home) if "say other" not in each["text"]]
    assert sum("\n> " not in each for each in own) == 1
    for each in own[1:]:
        assert is_continuation(each)
        assert "a.txt: done" in each
        assert each.count("Its prompt was:") <= 2
    if is_taken_meanwhile:
        assert own[2].startswith("An earlier turn of yours was interrupted")


def errors_until_final(tell):
    errors: list[ApplicationError] = []
    while not any(each.non_retryable for each in errors):
        errors.append(refused(tell))
    return errors


@pytest.mark.parametrize("end", ["crash", "fail terminated by SIGTERM", "stop cancelled"])
def test_an_agent_that_is_stopped_each_time_is_continued_until_ten_prompts_left(
    home, monkeypatch, end
):
    allow_all(home, monkeypatch)
    monkeypatch.setenv("UPTHREAD_REHEARSAL_ALWAYS", f"[[rehearse: {end}]]")
    errors = errors_until_final(tell_of(home, "[[rehearse: execute sh -c 'echo x >> acts']]"))
    assert "interrupted, and the next attempt continues it" in str(errors[0])
    told = [is_continuation(each["text"]) for each in sent(home)]
    assert told == [False] + [True] * (SENDS_MAX - 1)
    assert len({each["session_id"] for each in sent(home)}) == turns(home) == 1
    assert (home.repository / "acts").read_text() == "x\n"


def test_an_agent_that_refuses_each_prompt_is_asked_for_a_new_session_and_then_a_person(
    home, monkeypatch
):
    allow_all(home, monkeypatch)
    monkeypatch.setenv("UPTHREAD_REHEARSAL_ALWAYS", "[[rehearse: fail nobody knows why]]")
    errors = errors_until_final(tell_of(home, "[[rehearse: execute sh -c 'echo x >> acts']]"))
    assert "a new session was refused, too" in str(errors[-1])
    sessions = [each["session_id"] for each in sent(home)]
    assert [sessions.count(each) for each in dict.fromkeys(sessions)] == [3, 1]
    assert (home.repository / "acts").read_text() == "x\n"


def test_the_error_of_a_step_that_is_held_back_names_what_settles_it(home, monkeypatch):
    allow_all(home, monkeypatch)
    for _ in range(2):
        with pytest.raises(NotToldError, match="waits for a person") as error:
            told_in(home, "key", "[[rehearse: execute git push origin main]]")
        ways = "upthread effects spec, then upthread tell spec/planner --continue, then begin"
        assert ways in str(error.value)
    shown = home.upthread("show", "spec/planner")
    assert "upthread effects spec\n" in shown
    assert "then go on: upthread tell spec/planner --continue\n" in shown


def broken_agent(home, monkeypatch):
    """Put an agent on PATH that cannot start."""
    program = home.directory / "programs" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho broken-install >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("agent", "timeout_s", "cause"),
    [("claude-code", 60, "broken-install"), ("acp:/bin/sleep 9999", 1, "did not answer")],
)
def test_an_agent_that_cannot_start_is_asked_ten_times_and_then_a_person_is(
    home, monkeypatch, agent, timeout_s, cause
):
    broken_agent(home, monkeypatch)
    (home.repository / "upthread.toml").write_text(f"start_timeout_s = {timeout_s}\n")
    tell = dataclasses.replace(tell_of(home, "hi"), agent=agent)

    assert not any(refused(tell, cause).non_retryable for _ in range(9))
    last = refused(tell, cause)
    assert last.non_retryable
    assert "none of 10 attempts reached the agent" in str(last)
    assert "mend that; this activity returns no reply any more" in str(last)


def test_a_program_that_is_not_there_is_for_a_person(home):
    tell = dataclasses.replace(tell_of(home, "hi"), agent="acp:no-such-program")
    assert refused(tell, "was not found on PATH").non_retryable


def test_a_limit_that_has_an_end_is_tried_again_then_in_the_turn_that_it_stopped(home, monkeypatch):
    tell = tell_of(home, "[[rehearse: rate_limit 3600]]")
    hour = timedelta(hours=1)
    for _ in range(2):  # the second attempt is too early
        error = refused(tell, r"until 20.* UTC.*rate limit")
        assert not error.non_retryable
        assert timedelta() < error.next_retry_delay <= hour
    later_ms = now_ms() + 2 * hour // timedelta(milliseconds=1)
    monkeypatch.setattr(durable_tell, "now_ms", lambda: later_ms)
    told = run(tell)
    assert told["outcome"] == "ok"
    assert told["address"] == "spec/planner"
    assert turns(home) == 1


def test_a_step_that_was_killed_while_it_waited_for_a_limit_waits_again(home):
    text = "[[rehearse: rate_limit 2]]"
    with pytest.raises(NotToldError, match="is limited until"):
        told_in(home, "key", text)
    assert told_in(home, "key", text, is_waiting=True)["outcome"] == "ok"
    assert turns(home) == 1


def test_of_two_steps_that_wait_for_the_limit_of_one_role_each_gets_its_reply(home):
    found = {}

    async def step(key, text):
        options = TellOptions(agent="rehearsal", is_waiting=True, when_busy="wait")
        async with open_project(home.repository, database=home.database) as up:
            found[key] = await tell_once(up, key, "spec/planner", text, options)

    async def both():
        async with task_group() as tasks:
            tasks.start_soon(step, "first", "[[rehearse: rate_limit 3]]")
            await anyio.sleep(1.5)
            tasks.start_soon(step, "second", "[[rehearse: say two]]")

    asyncio.run(both())
    assert [found[key]["outcome"] for key in ("first", "second")] == ["ok", "ok"]
    assert "two" in found["second"]["reply"]


def test_of_two_steps_that_were_killed_in_the_wait_for_a_limit_each_gets_its_reply(home):
    texts = {key: f"[[rehearse: rate_limit 5]] {key}" for key in ("first", "second")}
    for key, text in texts.items():
        with pytest.raises(NotToldError, match="is limited until"):
            told_in(home, key, text)
    found = {}

    async def step(key, text):
        options = TellOptions(agent="rehearsal", is_waiting=True, when_busy="wait")
        async with open_project(home.repository, database=home.database) as up:
            found[key] = await tell_once(up, key, "spec/planner", text, options)
            view = turn_view(up.store, found[key]["conversation_id"], found[key]["turn_id"])
            assert view.intended.key == key

    async def both():
        async with open_project(home.repository, database=home.database) as up:
            with pytest.raises(NoOpenTurnError, match="a later prompt came first"):
                await up.go_on("spec/planner", TellOptions(agent="rehearsal", key="first"))
        async with task_group() as tasks:
            for key, text in texts.items():
                tasks.start_soon(step, key, text)
                await anyio.sleep(0.7)

    asyncio.run(both())
    assert [found[key]["outcome"] for key in texts] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("directive", "cause", "cure"),
    [
        ("auth", "the agent is not signed in", "sign in with the agent's own command"),
        ("write a.txt x", "it needs a permission", "allow it at the terminal"),
        ("fail_as context_full x", "the session's context is full", "start fresh with --fresh"),
    ],
)
def test_the_error_of_a_step_says_what_helps_at_each_attempt(home, directive, cause, cure):
    # A continuation only quotes the text, and what is quoted is not carried out.
    text = f"[[rehearse: {directive}]]"
    for _ in range(1 if "context_full" in directive else 2):
        with pytest.raises(NotToldError, match=cause) as error:
            told_in(home, "key", text)
        assert f"({cure}" in str(error.value)
        is_parked = "waits for a person" in str(error.value)
        assert ("upthread tell spec/planner --continue" in str(error.value)) is is_parked
        assert "upthread show spec/planner" in str(error.value)


def test_a_step_whose_attempts_are_each_shorter_than_its_turn_is_told_so(home, monkeypatch):
    monkeypatch.setenv("UPTHREAD_REHEARSAL_ALWAYS", "[[rehearse: slow 2 60000]]")
    address = "spec/planner"

    async def before(up):
        await cut_off(up.tell, address, "hi", key="key")
        for _ in range(SENDS_MAX - 1):
            await cut_off(up.go_on, address, key="key")

    with pytest.raises(NotToldError, match="each of its prompts was cut off") as error:
        told_in(home, "key", "hi", before=before)
    assert "start_to_close_timeout" in str(error.value)
    assert is_final(error.value)


def test_a_step_whose_attempts_end_before_its_agent_has_started_is_told_so_and_can_go_on(home):
    address = "spec/planner"

    async def tried(for_s, agent):
        async with open_project(home.repository, database=home.database) as up:
            with anyio.move_on_after(for_s):
                await tell_once(up, "key", address, "hi", TellOptions(agent=agent))

    errors = []
    for tries in range(60):
        try:
            asyncio.run(tried(0.3 * 1.1**tries, "acp:/bin/sleep 9999"))
        except NotToldError as error:
            errors.append(error)
            if len(errors) == 2:
                break
    for error in errors:
        assert "did not answer in time: 10 attempts were cut off" in str(error)
        assert "start_to_close_timeout" in str(error)
        assert is_final(error)
    assert turns(home) == 1
    home.upthread("tell", address, "--continue", "--agent", "rehearsal")
    assert "hi" in told_in(home, "key", "hi")["reply"]
    assert turns(home) == 1


def test_a_limit_without_an_end_is_for_a_person(home):
    tell = tell_of(home, "[[rehearse: rate_limit]]")
    error = refused(tell, "waits for a person")
    assert error.non_retryable
    # Temporal cannot begin an activity again.
    assert "--continue; this activity returns no reply any more" in str(error)
