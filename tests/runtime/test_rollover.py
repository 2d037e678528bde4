"""What each way a prompt can fail comes to: sent again once, waited out, moved on, or parked."""

import signal
import sys
from typing import Any

import anyio
import pytest
from tests.runtime.test_recovery import kill_when
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import AtCommit
from tests.support.world import SAY_REPORT, World

import upthread
from upthread.core.decision.rollover import ROLLOVER, Recovery
from upthread.core.events import PromptSent, SessionAttached, TurnIntended, TurnParked
from upthread.core.runs.stops import NOTHING_SAID
from upthread.core.types import Outcome, Speaker, TextPart, UnknownPart, UpstreamSessionId
from upthread.errors import UsageError
from upthread.runtime.record.turn_views import refusals_in_row
from upthread.runtime.turns.delegation import Listener, Notice
from upthread.store.sqlite import SqliteStore
from upthread.tasks import task_group
from upthread.testing.store_conformance import samples

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/planner"
ALWAYS = "UPTHREAD_REHEARSAL_ALWAYS"
ELSEWHERE = "elsewhere"
OTHER_AGENT = f"""
[agents.{ELSEWHERE}]
command = ["{{python}}", "-I", "-m", "upthread.agents.rehearsal"]
"""


async def tell(
    world: World, text: str, *, always: str = "", agent: str = "rehearsal", **options: Any
) -> Any:
    async with world.open(environment={ALWAYS: always}) as project:
        return await project.tell(ADDRESS, text, upthread.TellOptions(agent=agent, **options))


async def go_on(world: World, *, always: str = "", agent: str = "rehearsal", can: str = "") -> Any:
    environment = {ALWAYS: always, "UPTHREAD_REHEARSAL_CAPABILITIES": can}
    async with world.open(environment=environment) as project:
        return await project.go_on(ADDRESS, upthread.TellOptions(agent=agent))


async def causes(world: World) -> list[str | None]:
    """Why each session of the conversation ended, oldest first."""
    async with world.open() as project:
        return [link.ended_because for link in (await project.role(ADDRESS)).chain]


ONCE_FAILING = {
    Outcome.MISSING: "if_resumed lose_session",
    Outcome.EXPIRED: "if_resumed fail_as session_expired it is too old",
    Outcome.CORRUPTED: "if_resumed fail_as invalid_request tool_result blocks none match tool_use",
    Outcome.CONTEXT_FULL: "if_resumed fail_as context_full Prompt is too long",
    Outcome.RATE_LIMITED: "once rate_limit 3600",
    Outcome.CREDIT_EXHAUSTED: "once fail_as billing_error your credit balance is too low",
    Outcome.TRANSIENT: "once fail_as overloaded Busy",
    Outcome.PROCESS_DIED: "once crash",
    Outcome.BUSY: "once fail_as session_busy somebody is at work in it",
    Outcome.AUTH: "once auth",
    Outcome.UNKNOWN: "once fail nobody knows",
}
"""A directive that fails in the second prompt of the first session, and not when sent again."""


def failing(outcome: Outcome) -> str:
    return f"[[rehearse: {ONCE_FAILING[outcome]}]] {SAY_REPORT}"


def outcomes_that(*recoveries: Recovery) -> list[Outcome]:
    return [each for each in ONCE_FAILING if ROLLOVER[each].recovery in recoveries]


@EXTENDED
@pytest.mark.parametrize("outcome", spread(outcomes_that(Recovery.ROLL_OVER, Recovery.RELAY)))
async def test_a_session_that_is_lost_is_replaced_in_the_same_turn_and_told_what_was_said(
    world: World, outcome: Outcome
) -> None:
    first = await tell(world, "the magic word is KIWI-42")
    second = await tell(world, failing(outcome))
    assert (second.outcome, second.decision) == ("ok", "resume_with_replay")
    assert second.reasons[0] == outcome
    assert second.upstream_session_id != first.upstream_session_id
    assert await causes(world) == [outcome, None]
    assert "> the magic word is KIWI-42" in world.prompts()[-1]
    assert len(world.prompts()) == 3
    world.check_histories()


@pytest.mark.parametrize(
    "said",
    spread(
        [
            "MCP server jira: your login session has expired",
            "fixture 'db_session' data malformed",
            "hook test_rate_limit.py failed",
            "tool_result blocks none match pending tool_use",
            "session not found in the user's browser",
            "please run billing.sh after authentication",
        ]
    ),
)
async def test_words_end_no_session_and_make_nobody_wait(world: World, said: str) -> None:
    first = await tell(world, "the magic word is KIWI-42")
    second = await tell(world, f"[[rehearse: once fail {said}]]")
    assert (second.outcome, second.decision) == ("unknown", "resume")
    assert f"the agent said: {said}" in second.detail
    assert await causes(world) == [None]
    third = await tell(world, "go on")
    assert (third.outcome, third.upstream_session_id) == ("ok", first.upstream_session_id)


@pytest.mark.soak
@pytest.mark.parametrize("outcome", spread(outcomes_that(Recovery.RETRY_ONCE)))
async def test_an_agent_that_fails_for_the_moment_is_asked_once_more_in_the_same_session(
    world: World, outcome: Outcome
) -> None:
    await tell(world, "hello")
    notices: list[Notice] = []
    second = await tell(world, failing(outcome), listener=Listener(notice=notices.append))
    assert (second.outcome, second.decision) == ("ok", "resume")
    (said,) = (each.text for each in notices if each.kind == "taken_up_again")
    assert said.startswith(ROLLOVER[outcome].says)
    assert said.endswith("; the turn is taken up again, once")
    assert await causes(world) == [None]
    assert len(world.prompts()) == 3
    assert world.prompts()[-1].startswith("Your last turn was interrupted")
    world.check_histories()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("directive", "outcome", "is_parked"),
    [("fail_as overloaded Busy", "transient", False), ("crash", "process_died", True)],
)
async def test_an_agent_that_keeps_failing_is_asked_twice_and_no_more(
    world: World, directive: str, outcome: str, is_parked: bool
) -> None:
    result = await tell(world, "hello", always=f"[[rehearse: {directive}]]")
    assert (result.outcome, result.parked is not None) == (outcome, is_parked)
    assert len(world.prompts()) == 2
    assert world.agents() == ()


@pytest.mark.soak
@pytest.mark.parametrize("outcome", spread(outcomes_that(Recovery.WAIT, Recovery.PARK)))
async def test_what_waiting_or_a_person_can_cure_parks_the_turn_and_keeps_the_session(
    world: World, outcome: Outcome
) -> None:
    first = await tell(world, "hello")
    second = await tell(world, failing(outcome))
    assert (second.outcome, second.parked is not None) == (outcome, True)
    assert second.upstream_session_id == first.upstream_session_id
    assert await causes(world) == [None]
    again = await go_on(world)
    assert (again.outcome, again.turn_id) == ("ok", second.turn_id)
    assert len(world.session_files()) == 1
    world.check_histories()


@pytest.mark.soak
async def test_a_deadline_of_ours_parks_the_turn_and_the_session_goes_on(world: World) -> None:
    world.configure("prompt_timeout_s = 1.0\n")
    first = await tell(world, "hello")
    late = await tell(world, "[[rehearse: hang]]")
    assert (late.outcome, late.parked is not None) == ("timed_out", True)
    again = await go_on(world)
    assert (again.outcome, again.upstream_session_id) == ("ok", first.upstream_session_id)


@EXTENDED
async def test_a_limited_turn_goes_on_in_another_agent_with_its_context(world: World) -> None:
    world.configure(OTHER_AGENT.replace("{python}", sys.executable))
    await tell(world, "the magic word is KIWI-42")
    limited = await tell(world, "what was it?", always="[[rehearse: rate_limit 3600]]")
    assert limited.outcome == "rate_limited"
    moved = await go_on(world, agent=ELSEWHERE)
    assert (moved.outcome, moved.turn_id) == ("ok", limited.turn_id)
    assert (moved.decision, moved.reasons[0]) == ("resume_with_replay", "other_agent")
    assert await causes(world) == ["other_agent", None]
    assert "> the magic word is KIWI-42" in world.prompts()[-1]
    assert "what was it?" in world.prompts()[-1]
    back = await tell(world, "and now?")
    assert (back.decision, back.reasons[0]) == ("resume_with_replay", "other_agent")
    assert "KIWI-42" in world.prompts()[-1]
    world.check_histories()


@pytest.mark.soak
@pytest.mark.parametrize(("tokens_in", "is_poisoned"), [(20, True), (21, False)])
async def test_a_session_that_answers_an_interrupted_turn_from_nothing_is_replaced(
    world: World, tokens_in: int, is_poisoned: bool
) -> None:
    await tell(world, "the magic word is KIWI-42")
    await tell(world, "[[rehearse: rate_limit]]")
    text = f"[[rehearse: if_resumed tokens {tokens_in} 20]] [[rehearse: say an old answer]]"
    result = await tell(world, text)
    assert result.outcome == "ok"
    assert await causes(world) == (["poisoned", None] if is_poisoned else [None])
    assert (result.reasons[0] == "poisoned") is is_poisoned
    assert "> the magic word is KIWI-42" in world.prompts()[-1]


EMPTY_IF_RESUMED = "what was it? [[rehearse: if_resumed empty]]"


@EXTENDED
async def test_an_empty_reply_is_told_and_the_next_prompt_tells_what_was_said(world: World) -> None:
    await tell(world, "the magic word is KIWI-42")
    empty = await tell(world, EMPTY_IF_RESUMED)
    assert (empty.outcome, empty.reply, empty.detail) == ("ok", "", NOTHING_SAID)
    await tell(world, "what was it, then?")
    assert await causes(world) == [None], "an empty reply is legal: its session stands"
    assert "> the magic word is KIWI-42" in world.prompts()[-1], "and may have forgotten"


@EXTENDED
async def test_a_rate_limit_and_two_lost_sessions_later_the_fourth_turn_still_holds_the_first(
    world: World,
) -> None:
    """The field notes' conversation: limited, the agent rolls its id, and nothing is amputated."""
    first = await tell(world, "we agreed on KIWI-42")
    limited = await tell(world, "what did we agree on?", always="[[rehearse: rate_limit 1]]")
    assert limited.outcome == "rate_limited"
    assert limited.upstream_session_id == first.upstream_session_id
    lose_sessions(world)
    second = await go_on(world)
    assert (second.outcome, second.turn_id) == ("ok", limited.turn_id)
    third = await tell(world, "and who is to know?")
    assert third.upstream_session_id == second.upstream_session_id
    assert third.decision == "resume"
    lose_sessions(world)
    fourth = await tell(world, "tell it again")
    assert await causes(world) == ["missing", "missing", None]
    told = world.prompts()[-1]
    said = ["> we agreed on KIWI-42", "> what did we agree on?", "> and who is to know?"]
    assert [told.index(each) for each in said] == sorted(told.index(each) for each in said)
    assert told.endswith("tell it again")
    assert fourth.conversation.conversation_id == first.conversation.conversation_id
    world.check_histories()


@pytest.mark.soak
async def test_no_failure_ends_a_conversation_and_only_a_reset_does(world: World) -> None:
    first = await tell(world, "hello")
    for outcome in ONCE_FAILING:
        result = await tell(world, failing(outcome))
        if result.parked is not None:
            result = await go_on(world)
        assert result.conversation == first.conversation
    async with world.open() as project:
        assert (await project.role(ADDRESS)).conversation.generation == 1
        await project.reset(ADDRESS)
    after = await tell(world, "hello again")
    assert after.conversation.generation == 2
    assert after.conversation.conversation_id != first.conversation.conversation_id
    assert "hello again" in world.prompts()[-1]
    assert "> hello" not in world.prompts()[-1]


async def cut_off_and_lost(world: World) -> None:
    await tell(world, "[[rehearse: say KIWI-42]]")
    hang = "[[rehearse: if_resumed hang]]"
    kill_when(world, hang, lambda: hang in world.prompts()[-1], agent_too=True)
    lose_sessions(world)


async def test_a_turn_that_is_taken_on_in_a_new_session_tells_what_was_replied_before_it(world):
    await cut_off_and_lost(world)
    assert (await go_on(world)).outcome == "ok"
    assert "> KIWI-42" in world.prompts()[-1]


async def test_what_a_new_session_may_not_have_heard_is_said_again_whole(world: World) -> None:
    await cut_off_and_lost(world)
    sent = AtCommit(event="PromptSent", when="after")
    assert world.start("go_on", ADDRESS, at_commit=sent).exit_code == -signal.SIGKILL
    assert (await go_on(world, can="no_load")).parked.reason == "undecidable"
    assert (await go_on(world, can="no_load")).outcome == "ok"
    assert "> > KIWI-42" in world.prompts()[-1], "the past goes with the prompt"


def lose_sessions(world: World) -> None:
    for file in world.session_files():
        file.unlink()


async def test_a_prompt_that_waits_for_a_limit_is_told_that_another_one_came_first(world: World):
    waiting = upthread.TellOptions(agent="rehearsal", is_waiting=True, when_busy="wait")

    async with world.open() as first, world.open() as second, task_group() as tasks:

        async def tell() -> None:
            with pytest.raises(UsageError, match="a later prompt came first"):
                await first.tell(ADDRESS, "[[rehearse: rate_limit 2]]", waiting)

        tasks.start_soon(tell)
        await anyio.sleep(1)
        assert (await second.tell(ADDRESS, "hello", waiting)).outcome == "ok"


@pytest.mark.parametrize(
    ("kind", "counts"), [("system/informational", True), ("retry", True), ("a_new_tool", False)]
)
def test_a_notice_beside_a_refusal_is_no_work_and_an_unknown_item_may_be_some(
    tmp_path, kind, counts
):
    store, words = SqliteStore(tmp_path / "s.db"), "it cannot help: start a new session"
    own, part = samples.turn(), UnknownPart(kind=kind, raw={"content": "tried again, once"})
    events = (
        TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1),
        SessionAttached(upstream_session_id=UpstreamSessionId("s"), how="resumed", agent="x"),
        PromptSent(prompt_seq=1),
        TurnParked(reason="unknown", detail=words),
    )
    said = [samples.said(1, TextPart(text="Go.")), samples.said(2, part, speaker=Speaker.ASSISTANT)]
    store.commit([*samples.home(), *said, *own.with_events(*events)])
    assert refusals_in_row(store, own.conversation_id) == ((words,) if counts else ())
