"""What reaches the disk: searched byte by byte, in every file that upthread wrote."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from tests.core.redaction.secrets_of import planted
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import AtCommit
from tests.support.world import SAY_REPORT, World

import upthread
from upthread.client.file_permissions import logs
from upthread.core.types import ErasedPart, Speaker
from upthread.errors import ConfigError, LeaseHeldError
from upthread.runtime.record.erasure import Selection
from upthread.runtime.turns.delegation import Listener, TurnStarted
from upthread.surfaces.formats import json as shape
from upthread.surfaces.formats import md as markdown

pytestmark = pytest.mark.anyio
LEAKING = Path(__file__).parents[1] / "support" / "leaking_agent.py"
REHEARSAL = upthread.TellOptions(agent="rehearsal")
LEAKY = upthread.TellOptions(agent="leaking")
ADDRESS = "spec-42/planner"
PLACES = (
    *("text", "reasoning", "title", "arguments", "location", "result", "diff", "plan"),
    *("unknown", "stderr", "error"),
)
SECRETS_PLANTED = 209
SECRET = planted(7)[6][1]


def configure(world: World, more: str = "") -> None:
    command = f'["{sys.executable}", "-I", "{LEAKING}"]'
    world.configure(f"{more}\n[agents.leaking]\ncommand = {command}\n")


def give(world: World, leaks: list[tuple[str, str]]) -> None:
    told = [{"where": where, "text": text} for where, text in leaks]
    (world.project / "leaks.json").write_text(json.dumps(told))


def files(world: World) -> dict[str, bytes]:
    """Every file upthread wrote, as it is on the disk."""
    found = [path for path in world.home.rglob("*") if path.is_file()]
    return {str(path.relative_to(world.home)): path.read_bytes() for path in found}


def holding(world: World, word: str) -> list[str]:
    """The files that hold a word, as it is or within JSON."""
    forms = {word.encode(), json.dumps(word)[1:-1].encode()}
    return [name for name, content in files(world).items() if any(f in content for f in forms)]


@EXTENDED
async def test_planted_secrets_are_in_no_file_and_in_no_export(world, capsys):
    configure(world)
    secrets = planted(SECRETS_PLANTED)
    leaks = [(PLACES[n % len(PLACES)], text) for n, (_, _, text) in enumerate(secrets)]
    give(world, leaks)
    sent = "\n".join(text for _, _, text in secrets[:40])
    async with world.open() as project:
        failed = await project.tell(ADDRESS, sent, LEAKY)
        give(world, [leak for leak in leaks if leak[0] != "error"])
        spoken = await project.tell(ADDRESS, "and once more", LEAKY)
        await project.once("deploy", lambda: _receipt(secrets[0][1]))
        exported = "".join(markdown.in_pieces(await project.audit("spec-42")))
        exported += "".join(shape.in_pieces(shape.whole(await project.audit("spec-42")), dict))
        database = files(world)  # with its log, before a checkpoint
    assert (failed.outcome, spoken.outcome) == ("unknown", "ok")
    assert secrets[0][1] in spoken.reply
    found = [(family, name) for family, word, _ in secrets for name in holding(world, word)]
    in_log = [f for f, word, _ in secrets for c in database.values() if word.encode() in c]
    in_export = [family for family, word, _ in secrets if word in exported]
    families = {family for family, _, _ in secrets}
    with capsys.disabled():
        print(  # noqa: T201  # the figure that is promised
            f"\n{len(secrets)} secrets of {len(families)} families in {len(PLACES)} places:"
            f" {len(found)} found in {sorted(files(world))}, {len(in_export)} exported"
        )
    assert (found, in_log, in_export) == ([], [], [])
    assert len(families) >= 20
    assert sum(content.count(b"[redacted:") for content in files(world).values()) >= 400
    assert any(name.startswith("agent-stderr/leaking-") for name in files(world))


async def _receipt(secret: str) -> dict[str, str]:
    return {"token": secret}


@EXTENDED
async def test_the_agent_gets_the_prompt_as_it_was_written(world: World) -> None:
    async with world.open() as project:
        await project.tell(ADDRESS, f"use {SECRET} for it", REHEARSAL)
    assert f"use {SECRET} for it" in world.prompts()[0]
    assert holding(world, SECRET) == []
    assert "[redacted:" in world.messages(ADDRESS)[0].text


@EXTENDED
@pytest.mark.parametrize("record", spread(["redacted", "full"]))
@pytest.mark.parametrize(
    ("more", "at", "becomes"),
    [
        ("", AtCommit(when="before", event="TurnEnded"), ["complete"]),
        (
            "[[rehearse: say and more]] [[rehearse: once crash]]",
            AtCommit(when="before", event="RecoveryStarted"),
            ["incomplete"],
        ),
    ],
    ids=["answered", "cut off"],
)
async def test_a_turn_with_a_secret_is_recognised_after_a_crash(world, record, more, at, becomes):
    world.configure(f'record = "{record}"\n')
    text = SAY_REPORT.replace("did it", f"the key is {SECRET}") + more
    assert world.start("tell", ADDRESS, text, at_commit=at).exit_code == -signal.SIGKILL
    prompts = len(world.prompts())
    told: list[TurnStarted] = []
    listener = Listener(started=told.append)
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsal", listener=listener)
        result = await project.go_on(ADDRESS, options)
    assert [each.recognition for each in told] == becomes
    assert result.outcome == "ok"
    assert len(world.prompts()) == prompts + (becomes == ["incomplete"])
    assert (holding(world, SECRET) == []) is (record == "redacted")
    replies = [m.text for m in world.messages(ADDRESS) if m.speaker is Speaker.ASSISTANT]
    assert "".join(replies).count("the key is") == 1
    world.check_histories()


@EXTENDED
async def test_a_prompt_that_was_not_kept_whole_is_not_sent_altered(world: World) -> None:
    at = AtCommit(when="before", event="SessionAttached")
    died = world.start("tell", ADDRESS, f"use {SECRET}", at_commit=at)
    assert died.exit_code != 0
    async with world.open() as project:
        result = await project.go_on(ADDRESS, REHEARSAL)
    assert result.outcome == "unknown"
    assert "not all was kept" in result.detail
    assert world.prompts() == []


@EXTENDED
async def test_index_keeps_no_word_and_the_outline(world: World) -> None:
    configure(world, 'record = "index"')
    words = {place: f"Quixotic{n}zebra" for n, place in enumerate(PLACES)}
    give(world, [(place, word) for place, word in words.items() if place != "error"])
    async with world.open() as project:
        await project.tell(ADDRESS, "Promptword asks", LEAKY)
        give(world, [("text", words["text"]), ("error", words["error"])])
        failed = await project.tell(ADDRESS, "Promptword again", LEAKY)
        before = files(world)
    assert words["error"] in failed.detail
    for word in (*words.values(), "Promptword"):
        assert holding(world, word) == []
        assert not [name for name, content in before.items() if word.encode() in content]
    messages = world.messages(ADDRESS)
    assert {type(part) for message in messages for part in message.parts} == {ErasedPart}
    assert {part.kind for message in messages for part in message.parts} >= {
        *("text", "reasoning", "tool_call", "tool_result", "unknown")
    }
    world.check_histories()
    assert logs(world.home) == ()


async def test_a_child_is_recorded_no_more_fully_than_its_caller_whatever_its_role_chose(world):
    roles = '[roles.planner]\nrecord = "index"\n[roles.explore]\nrecord = "full"\n'
    world.configure(f'record = "full"\n{roles}')
    children = "[[rehearse: child explore Childword]] [[rehearse: child helper Helperword]]"
    async with world.open() as project:
        await project.tell(ADDRESS, f"{children} Plannerword", REHEARSAL)
        await project.tell("spec-42/explore", "Ownword", REHEARSAL)
        with pytest.raises(ConfigError, match="of planner no text is recorded"):
            await project.run("spec-42", "a specification")
    for word in ("Plannerword", "Childword", "Helperword"):
        assert holding(world, word) == []
    assert holding(world, "Ownword") == ["upthread.db"]


@pytest.mark.parametrize("rule", ['bad = "("', '"Not A Name" = "x"'])
async def test_a_rule_that_is_none_is_refused_before_anything_is_written(world, rule):
    world.configure(f"[redaction.rules]\n{rule}\n")
    with pytest.raises(ConfigError):
        async with world.open():
            pass
    assert files(world) == {}


# --- forgetting ----------------------------------------------------------------------------------


@EXTENDED
async def test_after_forgetting_no_file_holds_what_was_said(world: World) -> None:
    configure(world)
    give(world, [(place, "Quixotic zebra") for place in PLACES if place != "error"])
    async with world.open() as project:
        await project.tell(ADDRESS, "Quixotic zebra asks", LEAKY)
        await project.tell("other/planner", "Someone else", REHEARSAL)
        before = await project.audit("other")
        await project.forget(Selection(workstream="spec-42"))
        assert [name for name in holding(world, "Quixotic") if "stderr" not in name] == []
        after = await project.audit("other")
        forgotten = await project.audit("spec-42")
    assert after == before
    assert forgotten.faults == ()
    assert forgotten.conversations[0].messages > 0
    assert "Quixotic" not in repr(forgotten)


@EXTENDED
async def test_a_run_that_is_forgotten_is_over(world: World) -> None:
    specification = world.take_example()
    async with world.open() as project:
        options = upthread.RunOptions(agent="rehearsal", steps_max=1)
        await project.run("spec-42", specification, options)
        found = await project.forget(Selection(workstream="spec-42"))
        view = await project.show("spec-42")
    assert [held.is_over for each in found for held in each.runs] == [False]
    assert view.status == "idle"
    assert holding(world, "Requirements") == []


async def test_nothing_is_forgotten_under_a_turn_that_runs(world: World) -> None:
    async with world.open() as project, anyio.create_task_group() as tasks:
        await project.tell(ADDRESS, "Quixotic", REHEARSAL)
        tasks.start_soon(project.tell, ADDRESS, "[[rehearse: hang]]", REHEARSAL)
        while not (await project.role(ADDRESS)).holder:  # noqa: ASYNC110  # another task's turn
            await anyio.sleep(0.01)
        with pytest.raises(LeaseHeldError):
            await project.forget(Selection(workstream="spec-42"))
        assert (await project.conversation(ADDRESS))[0].text == "Quixotic"
        tasks.cancel_scope.cancel()


# --- at rest -------------------------------------------------------------------------------------


@EXTENDED
async def test_a_home_that_others_could_enter_is_narrowed_and_the_person_told(world: World) -> None:
    world.home.mkdir()
    world.home.chmod(0o755)
    before = os.umask(0)
    try:
        async with world.open() as project:
            await project.tell(ADDRESS, "hello", REHEARSAL)
            notices = project.notices
    finally:
        os.umask(before)
    assert len(notices) == 1
    assert "now 0700" in notices[0]
    modes = {str(p): oct(p.stat().st_mode & 0o777) for p in (world.home, *world.home.rglob("*"))}
    assert set(modes.values()) == {"0o700", "0o600"}, modes


async def test_a_home_behind_a_link_is_refused(world: World) -> None:
    elsewhere = world.directory / "elsewhere"
    elsewhere.mkdir()
    world.home.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="symbolic link"):
        async with world.open():
            pass
    assert list(elsewhere.iterdir()) == []


async def test_a_home_that_is_somebody_elses_is_refused(world: World) -> None:
    world.home.mkdir()
    os.chown(world.home, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to user 12345"):
        async with world.open():
            pass


@pytest.mark.parametrize("fault", ["short", "link", "foreign"])
async def test_a_key_that_is_none_is_refused(world: World, fault: str) -> None:
    async with world.open():
        pass
    key = world.home / "upthread.db.key"
    assert (len(key.read_bytes()), key.stat().st_mode & 0o777) == (32, 0o600)
    if fault == "short":
        key.write_bytes(b"short")
    elif fault == "link":
        key.rename(world.home / "elsewhere")
        key.symlink_to(world.home / "elsewhere")
    else:
        os.chown(key, 12345, 12345)
    with pytest.raises(ConfigError, match=r"upthread\.db\.key"):
        async with world.open():
            pass
