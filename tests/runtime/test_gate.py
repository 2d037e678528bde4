"""The gate by itself: what is held back, what is kept before it runs, what a turn parks with."""

from __future__ import annotations

import pytest
from msgspec import structs

from upthread.agents.base import PermissionAnswer, PermissionRequest
from upthread.core.redaction.redactor import Redactor
from upthread.core.turns.effects import Effect, EffectState, Settlement
from upthread.core.types import UpstreamSessionId
from upthread.runtime.permissions.gate import ANSWERED_BY_UPTHREAD, Gate
from upthread.runtime.permissions.policy import PermissionPolicy

pytestmark = pytest.mark.anyio
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asks_for(command: str, *, call_id: str | None = "call-1") -> PermissionRequest:
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId("ses_a"),
        call_id=call_id,
        title=command,
        tool_kind="execute",
        arguments={"command": command},
        locations=(),
        options=(("yes", "allow_once"), ("no", "reject_once")),
    )


PUSH = asks_for("git push origin main")
LIST = asks_for("ls")


def effect_of(request: PermissionRequest, state: EffectState) -> Effect:
    """What was recorded of a call."""
    return Effect(
        seq=1,
        call_id="call-0",
        tool_kind=request.tool_kind,
        title=request.title,
        state=state,
        actions=request.foreseen.actions(()),
    )


class Desk:
    """A gate, what it kept, and the person it asked."""

    def __init__(self, *known: Effect, rules: object = None, **more: object) -> None:
        self.kept: list[PermissionRequest] = []
        self.asked: list[PermissionRequest] = []
        policy = PermissionPolicy(rules=rules or {}, ask_person=self.ask)
        self.gate = Gate(policy, outward_patterns=(), **more)
        self.gate.expect(known=known, keep=self.keep)

    async def keep(self, request: PermissionRequest) -> None:
        self.kept.append(request)

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(request)
        return PermissionAnswer(option_id="yes", answered_by="ada")


@pytest.mark.parametrize("state", [EffectState.DONE, EffectState.UNKNOWN, EffectState.INTENT])
async def test_a_second_action_is_held_back_where_it_is_asked_about_and_where_it_is_not(state):
    desk = Desk(effect_of(PUSH, state))
    answer = await desk.gate.answer(PUSH)
    assert (answer.option_id, answer.answered_by) == (None, ANSWERED_BY_UPTHREAD)
    held = await desk.gate.hold(PUSH)
    assert (held.answered_by, held.runs, held.ends_turn) == (ANSWERED_BY_UPTHREAD, False, True)
    assert desk.gate.parked.reason == "held_back"
    assert "git push origin main" in desk.gate.parked.detail
    assert (desk.asked, desk.kept) == ([], [])


async def test_what_a_person_said_was_done_is_refused_and_the_agent_goes_on_without_it():
    looked_at = structs.replace(effect_of(PUSH, EffectState.DONE), settled=Settlement.DONE)
    desk = Desk(looked_at)
    held = await desk.gate.hold(PUSH)
    assert (held.answered_by, held.runs, held.ends_turn) == (ANSWERED_BY_UPTHREAD, False, False)
    assert "a person has looked" in held.why
    answer = await desk.gate.answer(PUSH)
    assert (answer.option_id, answer.answered_by) == ("no", ANSWERED_BY_UPTHREAD)
    assert desk.gate.parked is None
    assert (desk.asked, desk.kept) == ([], [])
    assert (await desk.gate.answer(structs.replace(PUSH, options=()))).option_id is None
    assert desk.gate.parked is not None, "an agent that lets nobody refuse is stopped"


async def test_of_two_that_are_alike_the_one_that_nobody_has_spoken_of_parks():
    looked_at = structs.replace(effect_of(PUSH, EffectState.DONE), settled=Settlement.DONE)
    desk = Desk(looked_at, effect_of(PUSH, EffectState.UNKNOWN))
    held = await desk.gate.hold(PUSH)
    assert held.ends_turn
    assert desk.gate.parked is not None


async def test_what_failed_and_what_was_another_is_let_pass():
    desk = Desk(effect_of(PUSH, EffectState.FAILED))
    assert await desk.gate.hold(PUSH) is None
    other = Desk(effect_of(asks_for("git push origin other"), EffectState.DONE))
    assert (await other.gate.answer(PUSH)).answered_by == "ada"
    assert desk.gate.parked is other.gate.parked is None


async def test_an_outward_action_is_kept_once_before_it_runs_and_no_other_is():
    desk = Desk()
    assert await desk.gate.hold(PUSH) is None
    assert desk.kept == [PUSH]
    assert (await desk.gate.answer(PUSH)).option_id == "yes"
    assert desk.kept == [PUSH], "kept when it was about to run"
    await desk.gate.hold(LIST)
    await desk.gate.answer(asks_for("ls", call_id="call-2"))
    assert desk.kept == [PUSH]
    again = asks_for("git push origin main", call_id="call-3")
    await desk.gate.answer(again)
    assert desk.kept == [PUSH, again]


async def test_what_a_script_runs_beyond_this_machine_is_kept_before_the_script_runs():
    texts = {"./ship.sh": "git push origin main", "./build.sh": "cc -c x.c"}
    desk = Desk(look=lambda: texts.get)
    for script in texts:
        assert await desk.gate.hold(asks_for(script, call_id=script)) is None
    (kept,) = desk.kept
    assert (kept.title, kept.runs) == ("./ship.sh", ("git push origin main",))
    await desk.gate.answer(asks_for("./ship.sh", call_id="call-3"))
    assert desk.kept[-1].runs == ("git push origin main",), "also of an agent that only asks"


async def test_calls_without_an_id_are_kept_each():
    desk = Desk()
    nameless = structs.replace(PUSH, call_id=None)
    await desk.gate.hold(nameless)
    await desk.gate.hold(nameless)
    assert desk.kept == [nameless, nameless]


async def test_what_nobody_could_answer_parks_and_is_no_intent():
    kept: list[PermissionRequest] = []

    async def keep(request: PermissionRequest) -> None:
        kept.append(request)

    gate = Gate(PermissionPolicy(), outward_patterns=())
    gate.expect(known=(), keep=keep)
    assert (await gate.answer(PUSH)).option_id is None
    assert gate.parked.reason == "permission"
    assert kept == []
    gate.expect(known=(), keep=keep)
    assert gate.parked is None, "the next prompt is not parked by what stopped this one"


async def test_an_action_is_compared_as_it_was_recorded_without_its_secrets():
    redactor = Redactor(b"k" * 16)
    whole = asks_for(f"curl -X POST -d x https://example.org/{SECRET}/deploy")
    recorded = asks_for(redactor.redact(whole.title))
    assert recorded.title != whole.title
    desk = Desk(effect_of(recorded, EffectState.DONE), redactor=redactor)
    held = await desk.gate.hold(whole)
    assert held.answered_by == ANSWERED_BY_UPTHREAD
    bare = Desk(effect_of(recorded, EffectState.DONE))
    assert await bare.gate.hold(whole) is None


def knowing(files: dict[str, str], *known: Effect) -> Desk:
    return Desk(*known, look=lambda: files.get)


async def test_what_a_call_runs_is_looked_into_while_something_is_held():
    files = {"./two.sh": "./push.sh", "./push.sh": "git push origin main"}
    desk = knowing(files, effect_of(PUSH, EffectState.UNKNOWN))
    held = await desk.gate.hold(asks_for("./two.sh"))
    assert (held.answered_by, held.ends_turn) == (ANSWERED_BY_UPTHREAD, True)
    assert desk.gate.parked.detail == (
        "may repeat `git push origin main`: "
        "it runs `./two.sh`, whose commands hold `git push origin main`"
    )
    answer = await desk.gate.answer(asks_for("make push"))
    assert (answer.option_id, answer.answered_by) == (None, ANSWERED_BY_UPTHREAD)
    assert desk.kept == []


async def test_what_is_looked_into_runs_where_nothing_is_held_of_it():
    free = knowing({"./push.sh": "git push origin main"})
    assert await free.gate.hold(asks_for("./push.sh")) is None
    again = structs.replace(effect_of(PUSH, EffectState.UNKNOWN), settled=Settlement.AGAIN)
    let_go = knowing({"./push.sh": "git push origin main"}, again)
    assert await let_go.gate.hold(asks_for("./push.sh")) is None
    for desk in (free, let_go):
        assert [each.runs for each in desk.kept] == [("git push origin main",)]


async def test_a_way_to_do_what_a_person_found_done_is_refused_with_what_it_runs():
    looked_at = structs.replace(effect_of(PUSH, EffectState.UNKNOWN), settled=Settlement.DONE)
    desk = knowing({"Makefile": "all:\n\tgit push\n"}, looked_at)
    held = await desk.gate.hold(asks_for("make"))
    assert not held.ends_turn
    assert "it runs `make`" in held.why
    assert "a person has looked" in held.why


async def test_a_call_that_is_no_command_is_not_looked_into():
    desk = knowing({}, effect_of(PUSH, EffectState.UNKNOWN))
    reading = structs.replace(
        asks_for("./push.sh"), tool_kind="read", arguments={"path": "./push.sh"}
    )
    assert await desk.gate.hold(reading) is None
    titled = structs.replace(asks_for("`./push.sh`"), arguments=None)
    assert await desk.gate.hold(titled) is not None
