"""Agents and disks that misbehave, through the whole stack: told, nothing lost, nothing left."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs
from tests.support.sets import EXTENDED, spread
from tests.support.world import World, eventually

import upthread
from upthread.core.decision.words import RESUME_WITH_REPLAY
from upthread.errors import ConfigError, StoreError, UsageError
from upthread.integrations.durable_tell import NotToldError, tell_once
from upthread.runtime.turns.delegation import Listener, Notice, TurnStarted
from upthread.surfaces.cli.terminal.phrases import failure_in_words

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
SCRIPTED = Path(__file__).parents[1] / "agents" / "scripted_agent.py"
ADDRESS = "spec-42/planner"


def configure(world: World, *words: str, timeout_s: int = 1) -> upthread.TellOptions:
    command = json.dumps([sys.executable, "-I", str(SCRIPTED), *words])
    world.configure(f"start_timeout_s = {timeout_s}\n[agents.scripted]\ncommand = {command}\n")
    return upthread.TellOptions(agent="scripted")


def configure_refusing(world: World, timeout_s: int = 30) -> tuple[upthread.TellOptions, Path]:
    """An agent that refuses each method in the file, with the words that are there."""
    refusing = world.directory / "refusing.json"
    refusing.write_text("{}")
    return configure(world, "no_list", str(refusing), timeout_s=timeout_s), refusing


@pytest.fixture
async def refuser(world):
    """A project, such an agent's options, its file, and what it answered to the first prompt."""
    options, refusing = configure_refusing(world)
    async with world.open() as project:
        first = await project.tell(ADDRESS, "the magic word is KIWI-42", options)
        yield project, options, refusing, first


@pytest.mark.parametrize(
    ("word", "outcome", "says"),
    [
        ("dies", "process_died", "exited with code 7"),
        pytest.param("babbles", "timed_out", "not ACP, first: Welcome", marks=EXTENDED),
        ("other_version", "unknown", "99"),
    ],
)
async def test_an_agent_that_cannot_start_fails_the_turn_clearly_and_costs_nothing(
    world: World, word: str, outcome: str, says: str
) -> None:
    options = configure(world, word, timeout_s=1 if outcome == "timed_out" else 60)
    async with world.open() as project:
        result = await project.tell(ADDRESS, "hello", options)
        assert result.outcome == outcome
        assert says in result.detail
        assert result.upstream_session_id is None
        view = await project.role(ADDRESS)
        state = "interrupted" if outcome == "process_died" else "failed"
        assert (view.state, view.chain, view.turns) == (state, (), 1)
        assert world.agents() == ()
        after = await project.tell(ADDRESS, "[[rehearse: say here]]", REHEARSAL)
        assert after.outcome == "ok"


@pytest.mark.parametrize("method", spread(["initialize", "session/new", "session/resume"]))
async def test_a_wait_for_an_agent_is_told_and_ends_with_what_helps(world, method, monkeypatch):
    monkeypatch.setattr("upthread.runtime.turns.delivery.WAIT_TOLD_AT_S", (0.1,))
    notices: list[Notice] = []
    options = upthread.TellOptions(agent="scripted", listener=Listener(notice=notices.append))
    of_session = method == "session/resume"
    if of_session:
        configure(world, "well", timeout_s=60)
        async with world.open() as project:
            assert (await project.tell(ADDRESS, "hello", options)).outcome == "ok"
    configure(world, f"hangs_in_{method}", timeout_s=4)
    async with world.open() as project:
        result = await project.tell(ADDRESS, "hello", options)
    wanted = {"initialize": "start", "session/new": "make a session"}.get(
        method, "open session ses_scripted"
    )
    texts = [each.text for each in notices if each.kind == "waiting_for_agent"]
    assert texts[-1].startswith(f"waiting for scripted to {wanted}, for 0.1 s of at most")
    said, cure = failure_in_words(result)
    about = " for session ses_scripted" if of_session else ""
    assert f"scripted did not answer {method}{about} within" in said
    assert "scripted agent says hello on stderr" in said
    assert ("--fresh" in cure) is of_session
    assert "raise start_timeout_s" in cure


UNLOADABLE = {"no history": ": no history", 40: "the length of one history", "": "with code 3"}


@pytest.mark.parametrize("refusal", spread(UNLOADABLE))
async def test_a_session_that_cannot_be_loaded_is_resumed_and_said_to_be(world, refusal):
    options, refusing = configure_refusing(world)
    notices: list[Notice] = []
    async with world.open() as project:
        first = await project.tell(ADDRESS, "hello", options)
        refusing.write_text(json.dumps({"session/load": refusal}))
        heard = structs.replace(options, listener=Listener(notice=notices.append))
        second = await project.tell(ADDRESS, "go on", heard)
    assert (second.outcome, second.reasons[0]) == ("ok", "not_compared")
    assert second.upstream_session_id == first.upstream_session_id
    (said,) = (each.text for each in notices if each.kind == "not_compared")
    assert said.startswith("the agent's session could not be compared with this record: ")
    assert UNLOADABLE[refusal] in said


async def test_a_turn_whose_agent_is_not_there_has_ended_and_says_why(world: World) -> None:
    world.configure('[agents.gone]\ncommand = ["no-such-program-anywhere"]\n')
    async with world.open() as project:
        with pytest.raises(ConfigError, match="no-such-program-anywhere"):
            await project.tell(ADDRESS, "hello", upthread.TellOptions(agent="gone"))
        view = await project.role(ADDRESS)
        assert (view.state, view.chain, view.turns) == ("failed", (), 1)
        ended = view.last_turn.ended if view.last_turn else None
        assert "no-such-program-anywhere" in ended.detail
        after = await project.tell(ADDRESS, "[[rehearse: say here]]", REHEARSAL)
        assert after.outcome == "ok"
        assert after.reply.endswith("here")


async def test_an_agent_that_was_moved_is_named_with_its_session_and_another_one_goes_on(world):
    options, _ = configure_refusing(world)
    async with world.open() as project:
        session = (await project.tell(ADDRESS, "hello", options)).upstream_session_id
    world.configure('[agents.scripted]\ncommand = ["no-such-program-anywhere"]\n')
    async with world.open() as project:
        with pytest.raises(ConfigError, match=f"its session is {session}"):
            await project.tell(ADDRESS, "go on", options)
    world.configure("")
    async with world.open() as project:
        with pytest.raises(UsageError, match=f"which has the session {session}") as gone:
            await project.tell(ADDRESS, "go on")
        assert "go on with another one by --agent" in gone.value.hint
        now = await project.tell(ADDRESS, "[[rehearse: say on]]", REHEARSAL)
    assert (now.decision, now.reasons[0]) == ("resume_with_replay", "other_agent")


async def test_a_session_stays_current_when_a_new_one_is_refused_for_the_same_reason(world: World):
    refused = "[[rehearse: fail no such model]]"
    started: list[TurnStarted] = []
    hears = structs.replace(REHEARSAL, listener=Listener(started=started.append))
    async with world.open() as project:
        first = await project.tell(ADDRESS, "[[rehearse: say KIWI-42]]", REHEARSAL)
        results = [await project.tell(ADDRESS, refused, hears) for _ in range(3)]
        assert {each.decision for each in started} == {"resume"}, "no other session was taken"
        assert all(each.outcome == "unknown" for each in results)
        is_tried = ["a new session was refused" in each.detail for each in results]
        assert is_tried == [False, True, False], "not one new session for each prompt"
        now = await project.tell(ADDRESS, "[[rehearse: say here]]", REHEARSAL)
        chain = (await project.role(ADDRESS)).chain
        (third, *_) = (await project.audit("spec-42")).conversations[0].turns[2:]
    assert third.view.attached.upstream_session_id == first.upstream_session_id, "where it ended"
    assert (now.decision, now.upstream_session_id) == ("resume", first.upstream_session_id)
    assert [each.ended_because for each in chain] == ["refused", "unknown", None]


UPDATES = {
    "agent_thought_chunk": ({"content": {"type": "text", "text": "hm"}}, False),
    "plan": ({"entries": [{"content": "c", "priority": "low", "status": "pending"}]}, False),
    "current_mode_update": ({"currentModeId": "code"}, True),
    "compaction_summary_chunk": ({}, True),
    "user_message_chunk": ({"content": {"type": "text", "text": "hello"}}, True),
    "agent_message_chunk": ({"content": {"type": "text", "text": "no such model"}}, True),
    "not_known_yet": ({}, False),
    "available_commands_update": ({"availableCommands": []}, True),
    "config_option_update": ({}, True),
    "usage_update": ({"used": 1, "size": 2}, True),
    "session_info_update": ({"title": "a title"}, True),
}


@pytest.mark.parametrize("kind", spread(UPDATES))
async def test_a_refused_prompt_leaves_again_only_if_the_agent_did_nothing_first(world, kind: str):
    options, _ = configure_refusing(world)
    more, is_sent_again = UPDATES[kind]
    refused = f"[[refused_after {json.dumps({'sessionUpdate': kind, **more})}]]"
    async with world.open() as project:
        await project.tell(ADDRESS, "hello", options)
        results = [await project.tell(ADDRESS, refused, options)]
        results += [await project.go_on(ADDRESS, options)]
        results += [await project.tell(ADDRESS, refused, options)]
        chain = (await project.role(ADDRESS)).chain
    assert all(each.parked and "no such model" in each.detail for each in results)
    assert ["a new session" in each.detail for each in results] == [False, is_sent_again, False]
    assert len(chain) == (3 if is_sent_again else 1)


MAY_PASS = ["the model profile 'fetch' is not there"] * 3
REFUSED = [["no model 1", "no model 2"], ["no model", "no mode", "nothing"], MAY_PASS]


@pytest.mark.parametrize("words", spread(REFUSED))
@pytest.mark.parametrize("way", ["tell", "go_on"])
async def test_a_prompt_that_is_refused_again_goes_to_a_new_session_once(world, words, way) -> None:
    options, refusing = configure_refusing(world)
    started: list[TurnStarted] = []
    hears = structs.replace(options, listener=Listener(started=started.append))
    async with world.open() as project:
        await project.tell(ADDRESS, "the magic word is KIWI-42", options)
        for number, said in enumerate(words):
            hint = (await project.why(ADDRESS)).now.hint
            assert ("asks the agent for a new session" in hint) is (number > (words == MAY_PASS))
            refusing.write_text(json.dumps({"old session/prompt": said}))
            is_continued = number and way == "go_on"
            asked = project.go_on(ADDRESS, hears) if is_continued else None
            now = await (asked or project.tell(ADDRESS, "go on", hears))
    assert [each.decision for each in started].count(RESUME_WITH_REPLAY) == 1
    assert (now.outcome, now.decision) == ("ok", RESUME_WITH_REPLAY)
    assert "KIWI-42" in now.reply
    assert now.reply.endswith("go on")


async def test_a_step_whose_prompt_is_refused_again_goes_to_a_new_session(refuser) -> None:
    project, options, refusing, _ = refuser
    refusing.write_text(json.dumps({"old session/prompt": "no such model"}))
    with pytest.raises(NotToldError, match="no such model") as caught:
        await tell_once(project, "step-1", ADDRESS, "go on", options)
    assert caught.value.is_retried
    told = await tell_once(project, "step-1", ADDRESS, "go on", options)
    assert told["decision"] == RESUME_WITH_REPLAY
    assert "KIWI-42" in told["reply"]


@pytest.mark.parametrize("method", ["old session/prompt", "session/resume"])
@pytest.mark.parametrize("words", ["the session is busy", "it is locked by another process"])
async def test_a_session_in_use_stays_and_a_person_reads_how_to_leave_it(refuser, method, words):
    project, options, refusing, _ = refuser
    refusing.write_text(json.dumps({method: words}))
    for _ in range(4):
        result = await project.tell(ADDRESS, "go on", options)
        said, cure = failure_in_words(result)
        assert words in said
        assert "else tell it with --fresh, which begins a new session" in cure
        standing = (await project.why(ADDRESS)).standing
        assert words in standing.detail
        assert "--fresh" in standing.cure
    assert len((await project.role(ADDRESS)).chain) == 1
    fresh = await project.tell(ADDRESS, "hello", structs.replace(options, is_fresh=True))
    assert fresh.outcome == "ok"


async def test_a_step_whose_session_is_in_use_names_it_each_time_and_ends(refuser) -> None:
    project, options, refusing, _ = refuser
    refusing.write_text('{"old session/prompt": "the session is busy"}')
    ends: list[bool] = []
    while not ends or (ends[-1] and len(ends) < 20):
        with pytest.raises(NotToldError, match="the session is busy") as caught:
            await tell_once(project, "step-1", ADDRESS, "go on", options)
        assert "--fresh" in caught.value.hint
        ends.append(caught.value.is_retried)
    assert ends == [True] * 9 + [False]


async def test_each_continue_sends_a_refused_prompt_once_to_each_session(world: World) -> None:
    async with world.open() as project:
        first = await project.tell(ADDRESS, "[[rehearse: say KIWI-42]]", REHEARSAL)
    refusing = {"UPTHREAD_REHEARSAL_ALWAYS": "[[rehearse: fail no such model]]"}
    async with world.open(environment=refusing) as project:
        for _ in range(2):
            await project.tell(ADDRESS, "go on", REHEARSAL)
        sent = len(world.prompts())
        for number in (1, 2):
            parked = await project.go_on(ADDRESS, REHEARSAL)
            assert parked.parked
            assert parked.upstream_session_id == first.upstream_session_id
            assert len(world.prompts()) == sent + 2 * number


@pytest.mark.parametrize(
    ("words", "is_replaced"), [("Invalid session identifier", True), ("please sign in", False)]
)
async def test_a_code_for_signing_in_does_not_hide_words_of_a_session(refuser, words, is_replaced):
    project, options, refusing, _ = refuser
    refusing.write_text(json.dumps({"session/resume": [-32000, words]}))
    results = [await project.tell(ADDRESS, "go on", options) for _ in range(3)]
    assert ("KIWI-42" in results[1].reply) is is_replaced
    assert ([each.outcome for each in results] == ["auth"] * 3) is not is_replaced


async def test_words_end_a_session_without_a_list_only_if_they_name_it(refuser) -> None:
    project, options, refusing, _ = refuser
    refusing.write_text('{"session/resume": "session not found"}')
    result = await project.tell(ADDRESS, "go on", options)
    chain = (await project.role(ADDRESS)).chain
    assert (result.outcome, result.decision, len(chain)) == ("unknown", "resume", 1)


async def test_a_turn_parks_when_its_session_and_a_new_one_are_refused(refuser) -> None:
    project, options, refusing, first = refuser
    refusing.write_text('{"session/resume": "row 7", "session/new": "no model"}')
    kept: list[Notice] = []
    hears = structs.replace(options, listener=Listener(notice=kept.append))
    results = [await project.tell(ADDRESS, "go on", hears) for _ in range(4)]
    assert [each.parked is not None for each in results] == [False, True, False, True]
    assert {each.about["session"] for each in kept if each.kind == "session_kept"} == {
        first.upstream_session_id
    }
    said = results[-1].detail
    assert "row 7" in said
    assert "a new session was refused, too: scripted refused session/new: no model" in said
    refusing.write_text('{"session/resume": "another chapter"}')
    still = await project.go_on(ADDRESS, options)
    assert still.parked is not None, "it waits for the person as before"
    refusing.write_text("{}")
    now = await project.go_on(ADDRESS, options)
    assert (now.decision, now.turn_id, now.outcome) == ("resume", results[-1].turn_id, "ok")
    assert now.upstream_session_id == first.upstream_session_id


async def test_an_agent_that_says_nothing_to_a_prompt_is_told_of(world, monkeypatch):
    monkeypatch.setattr("upthread.runtime.turns.delivery.SILENCE_TOLD_AT_S", (0.1,))
    notices: list[Notice] = []
    options = configure(world, "hangs_in_session/prompt", timeout_s=30)
    given_up = anyio.CancelScope()

    def hear(notice: Notice) -> None:
        notices.append(notice)
        if notice.about.get("setting") == "prompt_timeout_s":
            given_up.cancel()

    options = structs.replace(options, listener=Listener(notice=hear))
    async with world.open() as project:
        with given_up:
            await project.tell(ADDRESS, "hello", options)
    assert notices[-1].text == "waiting for scripted to answer, for 0.1 s of at most 3600 s"


async def test_an_agent_that_opens_no_session_again_may_give_each_process_the_same_id(world):
    options = configure(world, "no_resume", timeout_s=30)
    async with world.open() as project:
        for address in (ADDRESS, "spec-42/auditor", ADDRESS, "spec-42/auditor"):
            result = await project.tell(address, "the magic word is KIWI-42", options)
            assert (result.outcome, result.upstream_session_id) == ("ok", "ses_scripted")
        await project.reset(ADDRESS)
        assert (await project.tell(ADDRESS, "and again", options)).outcome == "ok"


async def test_a_session_that_is_refused_twice_is_made_anew_under_the_same_id(refuser) -> None:
    project, options, refusing, first = refuser
    refusing.write_text(json.dumps({"session/resume": "row 7", "id": first.upstream_session_id}))
    await project.tell(ADDRESS, "go on", options)
    now = await project.tell(ADDRESS, "go on", options)
    assert (now.decision, now.outcome) == (RESUME_WITH_REPLAY, "ok")
    assert now.upstream_session_id == first.upstream_session_id
    assert "KIWI-42" in now.reply


@EXTENDED
async def test_why_foretells_the_next_new_session_where_one_came_too_late(world) -> None:
    options, refusing = configure_refusing(world, timeout_s=3)
    async with world.open() as project:
        await project.tell(ADDRESS, "hello", options)
        refusing.write_text('{"session/resume": "row 7", "session/new": "hangs"}')
        await project.tell(ADDRESS, "go on", options)
        parked = await project.tell(ADDRESS, "go on", options)
        assert parked.outcome == "timed_out"
        refusing.write_text('{"session/resume": "row 7"}')
        foretold = (await project.why(ADDRESS)).now.hint
        now = await project.go_on(ADDRESS, options)
    assert "asks the agent for a new session" in foretold
    assert now.decision == RESUME_WITH_REPLAY


@pytest.mark.parametrize("changed", [False, True])
async def test_a_turn_that_is_gone_on_with_asks_for_a_new_session_again(refuser, changed) -> None:
    project, options, refusing, first = refuser
    refusing.write_text('{"session/resume": "row 7", "session/new": "no model"}')
    await project.tell(ADDRESS, "go on", options)
    await project.tell(ADDRESS, "go on", options)
    still = await project.go_on(ADDRESS, options)
    assert still.detail.startswith("scripted refused session/resume")
    assert "a new session was refused, too: scripted refused session/new" in still.detail
    refusing.write_text(json.dumps({"session/resume": "a page" if changed else "row 8"}))
    if changed:
        assert (await project.go_on(ADDRESS, options)).parked, "these words are told first"
    now = await project.go_on(ADDRESS, options)
    assert (now.decision, now.turn_id, now.outcome) == (RESUME_WITH_REPLAY, still.turn_id, "ok")
    assert "KIWI-42" in now.reply
    (old, new) = (await project.role(ADDRESS)).chain
    assert (old.upstream_session_id, old.ended_because) == (first.upstream_session_id, "refused")
    assert new.ended_because is None


async def test_a_secret_that_never_left_is_not_gone_on_with_as_it_is_kept(world, monkeypatch):
    monkeypatch.setattr("upthread.runtime.turns.delivery.WAIT_TOLD_AT_S", (0.1,))
    configure(world, "hangs_in_session/new", timeout_s=60)
    given_up = anyio.CancelScope()
    listener = Listener(notice=lambda _: given_up.cancel())
    options = upthread.TellOptions(agent="scripted", listener=listener)
    async with world.open() as project:
        with given_up:
            await project.tell(ADDRESS, "log in with password=Tr0ub4dor-horse", options)
        assert given_up.cancelled_caught
        with pytest.raises(UsageError, match="the last one has ended"):
            await project.go_on(ADDRESS, configure(world, "well", timeout_s=30))


@pytest.mark.parametrize("refusal", [[-32002, "Resource not found"], "session {} not found"])
@pytest.mark.timeout(60)
async def test_a_session_that_is_gone_stays_current_until_there_is_another(
    refuser, refusal
) -> None:
    project, options, refusing, first = refuser
    session = first.upstream_session_id
    words = refusal.format(session) if isinstance(refusal, str) else refusal
    # In the very words that tell of a session that is gone: nobody asks for new ones for ever.
    refusing.write_text(json.dumps({"session/resume": words, "session/new": words}))
    parked = await project.tell(ADDRESS, "go on", options)
    assert parked.parked is not None
    assert "a new session was refused, too: scripted refused session/new" in parked.detail
    assert session in parked.detail
    assert "session/resume" in parked.detail
    now = await project.why(ADDRESS)
    assert (now.now.decision, await project.agent_for(ADDRESS)) == ("resume", "scripted")
    assert (await project.go_on(ADDRESS, options)).parked is not None
    assert (await project.tell(ADDRESS, "go on", options)).parked is not None
    refusing.write_text("{}")
    back = await project.tell(ADDRESS, "and now?", upthread.TellOptions())
    assert (back.decision, back.upstream_session_id) == ("resume", session)
    refusing.write_text(json.dumps({"session/resume": words, "session/new": "disk full"}))
    parked = await project.tell(ADDRESS, "go on", options)
    refusing.write_text(json.dumps({"session/resume": words}))
    now = await project.go_on(ADDRESS, options)
    assert (now.outcome, now.reasons[0], now.turn_id) == ("ok", "missing", parked.turn_id)
    assert "KIWI-42" in now.reply
    chain = (await project.role(ADDRESS)).chain
    assert [each.ended_because for each in chain] == ["missing", None]


async def test_prompts_that_were_refused_are_told_to_the_session_once_it_opens(refuser) -> None:
    project, options, refusing, first = refuser
    refusing.write_text('{"session/resume": "busy one", "session/new": "disk full"}')
    assert not (await project.tell(ADDRESS, "the word is PLUM-3", options)).parked
    refusing.write_text('{"session/resume": "busy two", "session/new": "disk full"}')
    assert not (await project.tell(ADDRESS, "the colour is MAUVE-7", options)).parked
    refusing.write_text("{}")
    now = await project.tell(ADDRESS, "and now?", options)
    assert (now.upstream_session_id, now.reasons[0]) == (first.upstream_session_id, "unheard")
    assert "PLUM-3" in now.reply
    assert "MAUVE-7" in now.reply
    assert (await project.tell(ADDRESS, "next", options)).reasons[0] == "unchanged"


async def test_a_spoilt_session_ends_at_once_and_its_agent_still_goes_on(refuser) -> None:
    project, options, refusing, _ = refuser
    refusing.write_text('{"session/new": "disk full"}')
    full = '[[error -32603 ["Prompt is too long", {"errorKind": "context_full"}]]]'
    failed = await project.tell(ADDRESS, full, options)
    assert "a new session was refused, too" in failed.detail
    assert failed.parked is None
    (old,) = (await project.role(ADDRESS)).chain
    assert old.ended_because == "context_full"
    refusing.write_text("{}")
    now = await project.tell(ADDRESS, "go on", upthread.TellOptions())
    assert now.decision == RESUME_WITH_REPLAY


HANGS = pytest.param("hangs", "did not answer session/resume", marks=EXTENDED)


@pytest.mark.parametrize(("does", "says"), [("", "with code 3"), (40, "one history"), HANGS])
async def test_a_session_that_ends_its_agent_twice_or_hangs_is_replaced(world, does, says) -> None:
    options, refusing = configure_refusing(world, timeout_s=6 if does == "hangs" else 30)
    async with world.open() as project:
        first = await project.tell(ADDRESS, "the magic word is KIWI-42", options)
        for refused in ("row 7", does):  # the third refusal counts, too, where it may pass
            refusing.write_text(json.dumps({"session/resume": refused}))
            failed = await project.tell(ADDRESS, "go on", options)
        assert says in failed.detail
        assert str(first.upstream_session_id) in failed.detail
        now = await project.tell(ADDRESS, "go on", options)
        assert (now.outcome, now.decision) == ("ok", "resume_with_replay")
        assert "KIWI-42" in now.reply
        assert (await project.role(ADDRESS)).chain[0].ended_because == "refused"


async def test_a_session_whose_load_is_refused_is_resumed_before_another_one_is_asked_for(world):
    options, refusing = configure_refusing(world)
    load = {"session/load": "no replay"}
    async with world.open() as project:
        first = await project.tell(ADDRESS, "hello", options)
        for resume in ({"session/resume": "one"}, {"session/resume": "two"}, {}):
            refusing.write_text(json.dumps({**load, **resume}))
            last = await project.tell(ADDRESS, "go on", options)
    assert (last.outcome, last.upstream_session_id) == ("ok", first.upstream_session_id)


@pytest.mark.parametrize(
    ("refused", "hint"),
    [("initialize", ""), ("session/resume", "asks the agent for a new session")],
)
async def test_why_foresees_a_new_session_only_where_the_session_is_refused(refuser, refused, hint):
    project, options, refusing, _ = refuser
    refusing.write_text(json.dumps({refused: "row 7"}))
    await project.tell(ADDRESS, "go on", options)
    now = (await project.why(ADDRESS)).now
    assert now.decision == "resume"
    assert (hint in now.hint) if hint else not now.hint


async def test_an_agent_that_did_not_start_has_not_refused_the_session(refuser) -> None:
    project, options, refusing, first = refuser
    for words in ({"initialize": "a"}, {"initialize": "a"}, {"session/resume": "b"}, {}):
        refusing.write_text(json.dumps(words))
        last = await project.tell(ADDRESS, "go on", options)
    assert (last.outcome, last.upstream_session_id) == ("ok", first.upstream_session_id)


KILLED = """
import os, pathlib, signal, sys
left = pathlib.Path(sys.argv[1])
number = int(left.read_text())
left.write_text(str(max(number - 1, 0)))
if number:
    os.kill(os.getpid(), signal.SIGKILL)
os.execv(sys.executable, [sys.executable, "-I", "-m", "upthread.agents.rehearsal"])
"""


def configure_killed(world: World, times: int) -> Path:
    """An agent that is killed while it starts, so many times; the file says how many are left."""
    left, program = world.directory / "left", world.directory / "killed.py"
    left.write_text(str(times))
    program.write_text(KILLED)
    command = json.dumps([sys.executable, str(program), str(left)])
    world.configure(f"[agents.rehearsed]\ncommand = {command}\n")
    return left


@pytest.mark.soak
async def test_an_agent_that_is_killed_while_it_starts_is_started_once_more_and_that_is_said(world):
    configure_killed(world, 1)
    notices: list[Notice] = []
    listener = Listener(notice=notices.append)
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsed", listener=listener)
        result = await project.tell(ADDRESS, "[[rehearse: say here]]", options)
    assert result.outcome == "ok"
    assert result.reply.endswith("here")
    (said,) = (each.text for each in notices if each.kind == "started_again")
    assert said.endswith("was ended by signal 9 during initialize; it is started once more")
    assert len(world.prompts()) == 1


@EXTENDED
async def test_an_agent_that_is_killed_again_while_it_starts_fails_the_turn(world: World) -> None:
    left = configure_killed(world, 5)
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsed")
        result = await project.tell(ADDRESS, "hello", options)
        assert result.outcome == "process_died"
        assert "was ended by signal 9 during initialize; it was started twice" in result.detail
    assert left.read_text() == "3", "twice, and not again"
    assert world.prompts() == []


# --- a store that fails in the middle ----------------------------------------------------------


def fill_the_disk(project: upthread.Project) -> None:
    connection = project.store.behind.database.connection  # type: ignore[attr-defined]
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", str(pages + 1))


def free_the_disk(project: upthread.Project) -> None:
    project.store.behind.database.connection.pragma("max_page_count", str(2**30))  # type: ignore[attr-defined]


def forbid_writing(project: upthread.Project) -> None:
    project.store.behind.database.connection.pragma("query_only", "1")  # type: ignore[attr-defined]


def allow_writing(project: upthread.Project) -> None:
    project.store.behind.database.connection.pragma("query_only", "0")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("breaks", "mends"),
    [
        pytest.param(fill_the_disk, free_the_disk, id="full disk"),
        pytest.param(forbid_writing, allow_writing, id="read-only", marks=EXTENDED),
    ],
)
async def test_a_store_that_fails_in_the_middle_fails_the_turn_and_works_again_afterwards(
    world: World, breaks: Any, mends: Any
) -> None:
    async with world.open() as project:
        await project.tell(ADDRESS, "[[rehearse: say first]]", REHEARSAL)
        before = await project.conversation(ADDRESS)

        async def break_soon() -> None:
            await anyio.to_thread.run_sync(lambda: eventually(lambda: len(world.prompts()) == 2))
            breaks(project)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(break_soon)
            with pytest.raises(StoreError):
                await project.tell(
                    ADDRESS, "[[rehearse: slow 200 10]] [[rehearse: big 200000]]", REHEARSAL
                )
            tasks.cancel_scope.cancel()
        assert world.agents() == ()
        mends(project)
        kept = await project.conversation(ADDRESS)
        assert kept[: len(before)] == before
        assert kept[len(before)].text.startswith("[[rehearse: slow")
        result = await project.tell(ADDRESS, "[[rehearse: say again]]", REHEARSAL)
        assert (result.outcome, result.reply) == ("ok", "again")
    world.check_histories()
