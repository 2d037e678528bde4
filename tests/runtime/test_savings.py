"""What was saved or lost is said of what was measured alone, and what was told twice is counted."""

import json
from decimal import Decimal

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import World, eventually

import upthread
from upthread.core.decision.words import NOTHING_PRICED, Price, Tokens
from upthread.core.events import Usage
from upthread.runtime.record.savings import (
    Delegation,
    Prices,
    Sum,
    delegations_of,
    grouped,
    savings_of,
)

OPTIONS = upthread.TellOptions(agent="rehearsal")
PRICES = Prices(
    read=Decimal(3), cached=Decimal("0.3"), cache_written=Decimal("3.75"), written=Decimal(15)
)


def tokens(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=False)


def price(*, resume: int, briefing: int) -> Price:
    return Price(
        resume=tokens(resume), briefing=tokens(briefing), fixed=tokens(briefing), cache="warm"
    )


def delegation(**told: object) -> Delegation:
    known: dict[str, object] = {
        "workstream": "w",
        "address": "w/planner",
        "role": "planner",
        "agent": "rehearsal",
        "turn_id": "trn_1",
        "number": 1,
        "opened_at_ms": 1_795_200_000_000,
        "decision": "resume",
        "way": "resumed",
        "price": NOTHING_PRICED,
        "usage": Usage(),
        "spent": None,
    }
    return Delegation(**{**known, **told})


def first(read: int, cached: int | None) -> Usage:
    return Usage(
        requests=1, read=read, written=10, cached=cached, first_read=read, first_cached=cached
    )


def visit(read: int, **told: object) -> Delegation:
    return delegation(usage=Usage(requests=4, read=read, written=0), **told)


def test_a_resumed_visit_saved_what_a_visit_that_began_anew_took_more_with_all_its_requests():
    each = [visit(26_140, anew=46_794), visit(26_140, anew=46_794)]
    assert [one.saved for one in each] == [20_654, 20_654]
    assert savings_of(each).saved == Sum(total=41_308, told=2, of=2)


def test_a_resumed_visit_that_took_more_is_a_loss_and_is_set_off_against_what_others_saved():
    each = [visit(50_000, anew=40_000), visit(37_000, anew=40_000)]
    assert [one.saved for one in each] == [-10_000, 3_000]
    assert savings_of(each).saved == Sum(total=-7_000, told=2, of=2)


def test_a_visit_that_began_anew_saved_nothing_and_without_one_nothing_was_saved():
    began = [visit(9, anew=9, way="first"), visit(9, anew=9, way="briefed")]
    assert [one.saved for one in [*began, visit(9)]] == [None, None, None]
    assert savings_of([*began, visit(9)]).saved == Sum(total=0, told=0, of=1)


def test_a_resume_whose_cache_was_gone_is_counted():
    each = [delegation(usage=first(41_000, cached)) for cached in (0, 40_000, None)]
    assert [one.was_cache_gone for one in each] == [True, False, None]
    assert savings_of(each).caches_gone == Sum(total=1, told=2, of=3)
    assert delegation(usage=first(9, 0), way="briefed").was_cache_gone is None


def test_where_an_agent_tells_nothing_nothing_is_said_to_be_saved_spent_or_paid():
    guess = Tokens(count=500, is_estimate=True)
    each = [
        delegation(anew=9, spent=guess),
        delegation(usage=first(41_000, None)),
    ]
    assert [one.saved for one in each] == [None, None]
    assert [one.cost(PRICES) for one in each] == [None, None]
    total = savings_of(each, PRICES)
    assert total.spent == Sum(total=0, told=0, of=2)
    assert total.saved == Sum(total=0, told=0, of=2)
    assert total.read == Sum(total=41_000, told=1, of=2)
    assert total.cached == Sum(total=0, told=0, of=2)
    assert (total.cost, total.cost_told) == (Decimal(0), 0)
    assert savings_of(each).cost is None
    assert savings_of([]).median_error is None


def test_the_price_is_held_against_what_the_first_request_read():
    each = [
        delegation(price=price(resume=expected, briefing=9), usage=first(10_000, 0))
        for expected in (9_000, 10_500, 14_000)
    ]
    total = savings_of(each)
    assert [round(error, 3) for error in total.errors] == [-0.1, 0.05, 0.4]
    assert total.median_error == pytest.approx(0.05)
    assert delegation(price=Price(resume=tokens(9), briefing=tokens(9))).expected is None


def test_a_cost_is_of_each_kind_of_tokens_at_the_price_that_was_given():
    usage = Usage(
        requests=2, read=1_000_000, written=100_000, cached=600_000, cache_written=200_000
    )
    one = delegation(usage=usage)
    assert one.cost(PRICES) == Decimal("0.6") + Decimal("0.18") + Decimal("0.75") + Decimal("1.5")
    without = delegation(usage=Usage(requests=1, read=1_000_000, written=0, cached=0))
    assert without.cost(PRICES) == Decimal(3)


def test_delegations_are_grouped_in_the_order_of_their_first():
    each = [delegation(role="b"), delegation(role="a"), delegation(role="b")]
    assert [(k, len(v)) for k, v in grouped(each, lambda one: one.role).items()] == [
        ("b", 2),
        ("a", 1),
    ]
    assert each[0].month == "2026-11"


async def found(project: upthread.Project, name: str) -> list[Delegation]:
    return list(delegations_of(await project.audit(name)))


def report(*questions: str) -> str:
    asked = [{"id": f"q{n}", "text": text} for n, text in enumerate(questions)]
    body = json.dumps({"status": "needs_input", "questions": asked})
    return f"[[rehearse: say ```upthread\n{body}\n```]]"


@pytest.mark.anyio
async def test_what_is_read_and_asked_again_is_counted_in_another_session_alone(world: World):
    (world.project / "other.txt").write_text("x")
    read = "[[rehearse: read README]]"
    async with world.open() as project:
        await project.tell("w/planner", f"{read} {read} {report('Which  word?')}", OPTIONS)
        await project.tell("w/planner", f"{read} {report('And who?')}", OPTIONS)
        fresh = upthread.TellOptions(agent="rehearsal", is_fresh=True)
        again = f"{read} {read} [[rehearse: read other.txt]] {report('which word?', 'New?')}"
        await project.tell("w/planner", again, fresh)
        await project.tell("w/auditor", f"{read} {report('Which word?')}", OPTIONS)
        one, two, three, other = await found(project, "w")
    assert [each.way for each in (one, two, three, other)] == [
        "first",
        "resumed",
        "briefed",
        "first",
    ]
    assert [len(each.files_again) for each in (one, two, three, other)] == [0, 0, 1, 0]
    assert three.files_again == ("README",)
    assert [each.questions_again for each in (one, two, three, other)] == [
        (),
        (),
        ("which word?",),
        (),
    ]


@pytest.mark.anyio
async def test_a_visit_that_did_not_come_to_its_end_saves_nothing_and_is_no_measure(world: World):
    fresh = upthread.TellOptions(agent="rehearsal", is_fresh=True)
    stopped = "[[rehearse: tokens 900 100]] [[rehearse: stop overheated]]"
    async with world.open() as project:
        await project.tell("w/planner", "[[rehearse: tokens 9000 1000]]", OPTIONS)
        await project.tell("w/planner", stopped, fresh)
        await project.tell("w/planner", stopped, OPTIONS)
        await project.tell("w/planner", "[[rehearse: tokens 3000 1000]]", OPTIONS)
        each = await found(project, "w")
    assert [one.way for one in each] == ["first", "briefed", "resumed", "resumed"]
    assert [one.saved for one in each] == [None, None, None, 6_000]


@pytest.mark.anyio
async def test_a_visit_that_gave_up_a_session_without_a_count_saves_nothing(world: World):
    full = "[[rehearse: if_resumed fail_as context_full Prompt is too long]]"
    said = f"{full} [[rehearse: tokens 900 100]]"
    async with world.open() as project:
        await project.tell("w/planner", "[[rehearse: tokens 9000 1000]]", OPTIONS)
        await project.tell("w/planner", said, OPTIONS)
        each = await found(project, "w")
    assert [one.way for one in each] == ["first", "briefed"]
    assert [one.whole for one in each] == [10_000, None]


@EXTENDED
@pytest.mark.anyio
async def test_of_a_turn_that_was_killed_and_gone_on_with_no_sum_is_told(world: World):
    async with world.open() as project:
        await project.tell("w/planner", "[[rehearse: tokens 9 1]]", OPTIONS)
    telling = world.start("tell", "w/planner", "[[rehearse: slow 200 100]]")
    eventually(lambda: len(world.prompts()) == 2)
    telling.kill()
    async with world.open() as project:
        await project.go_on("w/planner", OPTIONS)
        one, two = await found(project, "w")
    assert (one.usage, one.spent) == (Usage(read=9, written=1), tokens(10))
    assert two.usage.read is two.usage.written is two.usage.first_read is None
    assert two.spent.is_estimate
