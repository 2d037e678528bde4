"""The wall clock jumps, or two processes disagree about it: nothing is reordered, nothing is lost.

Order is by number everywhere and lives are judged by the observer's own monotonic clock, so that no
time of day decides anything. Each test sees to it that the recorded times do go the wrong way.
"""

from functools import partial
from typing import Any

import pytest
from tests.support.sets import spread
from tests.support.world import World, eventually

import upthread
from upthread.client import project_opener
from upthread.core.types import Message, Speaker
from upthread.errors import LeaseHeldError
from upthread.runtime import system

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
ADDRESS = "spec-42/planner"
HOUR_MS = 3_600_000
SKEW_MS = 5_000
RACERS = 2
PROMPTS = 4


class Clock:
    """The wall clock, set ahead by so many milliseconds, or back."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return system.now_ms() + self.ahead_ms


def keep_time_by(monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    monkeypatch.setattr(project_opener, "System", partial(system.System, now_ms=clock))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    keep_time_by(monkeypatch, made)
    return made


async def tell(world: World, text: str, **options: Any) -> Any:
    async with world.open() as project:
        chosen = upthread.TellOptions(agent="rehearsal", **options)
        return await project.tell(ADDRESS, f"[[rehearse: say {text}]]", chosen)


def prompts(messages: tuple[Message, ...]) -> list[str]:
    said = [message.text for message in messages if message.speaker is Speaker.USER]
    return [text.removeprefix("[[rehearse: say ").removesuffix("]]") for text in said]


def goes_back(messages: tuple[Message, ...]) -> bool:
    times = [message.recorded_at_ms for message in messages]
    return times != sorted(times)


@pytest.mark.soak
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
async def test_a_jump_between_turns_changes_neither_order_nor_session(world, clock, jump_ms):
    first = await tell(world, "one")
    clock.ahead_ms = jump_ms
    second = await tell(world, "two")
    clock.ahead_ms = 0
    third = await tell(world, "three")
    assert [each.decision for each in (first, second, third)] == ["first", "resume", "resume"]
    assert len({each.upstream_session_id for each in (first, second, third)}) == 1
    messages = world.messages(ADDRESS)
    assert prompts(messages) == ["one", "two", "three"]
    assert goes_back(messages)
    world.check_histories()
    async with world.open() as project:
        view = await project.role(ADDRESS)
        why = await project.why(ADDRESS)
    assert (view.state, view.turns) == ("done", 3)
    assert (why.last.decision, why.now.decision) == ("resume", "resume")


@pytest.mark.soak
async def test_processes_five_seconds_apart_lose_and_reorder_nothing(world: World) -> None:
    """They take turns as they come: each one's prompts are in its order, the agent's are ours."""
    for number in range(PROMPTS):
        racers = [
            world.start(
                "tell",
                ADDRESS,
                f"[[rehearse: say {racer}-{number}]]",
                when_busy="wait",
                clock_ahead_ms=racer * SKEW_MS,
            )
            for racer in range(RACERS)
        ]
        for racer in racers:
            assert racer.result["outcome"] == "ok"
    messages = world.messages(ADDRESS)
    told = prompts(messages)
    assert sorted(told) == sorted(f"{r}-{n}" for r in range(RACERS) for n in range(PROMPTS))
    for racer in range(RACERS):
        mine = [text for text in told if text.startswith(f"{racer}-")]
        assert mine == sorted(mine)
    received = [
        text.rpartition("[[rehearse: say ")[2].removesuffix("]]") for text in world.prompts()
    ]
    assert received == told
    assert goes_back(messages)
    world.check_histories()


@pytest.mark.soak
@pytest.mark.parametrize("ahead_ms", spread([-HOUR_MS, HOUR_MS, SKEW_MS]))
async def test_a_living_holder_is_not_taken_for_dead_by_another_clock(world, clock, ahead_ms):
    holder = world.start("tell", ADDRESS, "[[rehearse: hang]]", clock_ahead_ms=ahead_ms)
    eventually(world.prompts)
    async with world.open() as project:
        for jump_ms in (0, HOUR_MS, -HOUR_MS):
            clock.ahead_ms = jump_ms
            with pytest.raises(LeaseHeldError, match=f"pid {holder.pid}"):
                await project.tell(ADDRESS, "me too", REHEARSAL)
    assert len(world.prompts()) == 1
