"""The gate by itself: what is held back, what is kept before it runs, what a turn parks with."""

import pytest
from msgspec import structs

from upthread.agents.base import PermissionAnswer, PermissionRequest
from upthread.core.redaction.redactor import Redactor
from upthread.core.runs.stops import NOT_OFFERED
from upthread.core.turns.effects import Effect, EffectState, Settlement
from upthread.core.types import ToolCallPart, UpstreamSessionId
from upthread.runtime.permissions import ANSWERED_BY_UPTHREAD, Gate

pytestmark = pytest.mark.anyio
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


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
        tellings=(
            ToolCallPart(
                call_id="call-0",
                title=request.title,
                tool_kind=request.tool_kind,
                arguments=request.arguments,
            ),
        ),
    )


class Desk:
    """A gate, what it kept, and the person it asked."""

    def __init__(
        self, *known: Effect, rules: object = None, tree: str | None = None, **more: object
    ) -> None:
        self.kept: list[PermissionRequest] = []
        self.asked: list[PermissionRequest] = []
        self.gate = Gate(rules=rules or {}, ask_person=self.ask, tree=tree, **more)
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


async def test_what_failed_is_let_pass_and_what_was_another_is_held_until_it_is_settled():
    desk = Desk(effect_of(PUSH, EffectState.FAILED))
    assert await desk.gate.hold(PUSH) is None
    assert desk.gate.parked is None
    another = effect_of(asks_for("git push origin other"), EffectState.DONE)
    assert (await Desk(another).gate.answer(PUSH)).option_id is None
    settled = Desk(structs.replace(another, settled=Settlement.DONE))
    assert (await settled.gate.answer(PUSH)).answered_by == "ada"


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

    gate = Gate()
    gate.expect(known=(), keep=keep)
    assert (await gate.answer(PUSH)).option_id is None
    assert gate.parked.reason == "permission"
    assert kept == []
    gate.expect(known=(), keep=keep)
    assert gate.parked is None, "the next prompt is not parked by what stopped this one"


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ((("a", "allow_always"), ("no", "reject_once")), "allow_always, reject_once"),
        ((("allow_session", "allow_session"),), "allow_session"),
        ((), "none"),
    ],
)
async def test_what_the_agent_offers_no_single_yes_for_says_so_whatever_the_rules_allow(
    options: tuple[tuple[str, str], ...], offered: str
):
    gate = Gate(rules={"execute": "allow"})
    assert (await gate.answer(structs.replace(LIST, options=options))).option_id is None
    assert gate.parked.detail == f"ls (execute): {NOT_OFFERED}{offered}"


async def test_an_action_is_compared_as_it_was_recorded_without_its_secrets():
    redactor = Redactor(b"k" * 16)
    whole = asks_for(f"curl -X POST -d x https://example.org/{SECRET}/deploy")
    recorded = asks_for(redactor.redact(whole.title))
    assert recorded.title != whole.title
    known = structs.replace(effect_of(recorded, EffectState.DONE), settled=Settlement.DONE)
    desk = Desk(known, redactor=redactor)
    held = await desk.gate.hold(whole)
    assert held.answered_by == ANSWERED_BY_UPTHREAD
    bare = Desk(known)
    assert await bare.gate.hold(whole) is None


async def test_in_doubt_only_what_is_repeatable_runs(tmp_path):
    desk = Desk(effect_of(PUSH, EffectState.UNKNOWN), tree=str(tmp_path))
    for line in ("git status", "pytest -q", "echo x > a", "make test"):
        assert await desk.gate.hold(asks_for(line)) is None, line
        assert (await desk.gate.answer(asks_for(line))).answered_by == "ada", line
    assert (desk.gate.parked, desk.kept) == (None, [])
    for line in ("make deploy", "python x.py", "./x.sh", "echo x > ../a", "cd .git/hooks"):
        held = await desk.gate.hold(asks_for(line))
        assert (held.answered_by, held.ends_turn) == (ANSWERED_BY_UPTHREAD, True), line
        assert (await desk.gate.answer(asks_for(line))).option_id is None, line
    assert desk.gate.parked.detail == (
        "`cd .git/hooks` may do it again, and is held until a person has settled "
        "`git push origin main` (outcome unknown)"
    )
    assert desk.kept == []


@pytest.mark.parametrize(
    ("tool", "kind", "arguments", "is_held"),
    [
        ("Read", "read", {"file_path": "a"}, False),
        ("WebFetch", "fetch", {"url": "https://x"}, False),
        ("TodoWrite", "think", {}, False),
        ("AskUserQuestion", "other", {}, False),
        ("Edit", "edit", {"file_path": "a"}, False),
        ("Edit", "edit", {"file_path": "/etc/a"}, True),
        ("Edit", "edit", {}, True),
        ("mcp__mail__list", "other", {}, True),
        ("mcp__run__it", "other", {"command": "ls"}, True),
        ("anything", "other", {"command": "ls"}, True),
    ],
)
async def test_in_doubt_a_tool_without_a_command_is_known_by_its_kind(
    tmp_path, tool, kind, arguments, is_held
):
    desk = Desk(effect_of(PUSH, EffectState.UNKNOWN), tree=str(tmp_path))
    asked = structs.replace(asks_for(tool), tool=tool, tool_kind=kind, arguments=arguments)
    assert (await desk.gate.hold(asked) is not None) is is_held


async def test_outside_of_doubt_nothing_is_held_and_what_counts_is_kept_before_it_runs():
    desk = Desk()
    script = asks_for("./x.sh")
    assert await desk.gate.hold(script) is None
    assert desk.kept == [script]
    again = structs.replace(effect_of(PUSH, EffectState.UNKNOWN), settled=Settlement.AGAIN)
    assert await Desk(again).gate.hold(script) is None
