"""Many processes that do the same at the same moment, round after round."""

import json
from pathlib import Path
from typing import Any

from tests.support.upthread_process import CONTEXT, Race
from tests.support.world import World

RACERS = 16
RACE_S = 110.0


def hold(world: World, race: Any, *, rounds: int, when_busy: str = "refuse") -> list[Any]:
    """Let all racers run their rounds and return what each wrote down."""
    given = Race(
        barrier=CONTEXT.Barrier(RACERS),
        rounds=rounds,
        directory=str(world.project),
        environment=world.environment,
        result=str(world.directory / "race"),
        when_busy=when_busy,
    )
    racers = [CONTEXT.Process(target=race, args=(given, number)) for number in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(RACE_S)
    told = [Path(f"{given.result}.{n}.stderr").read_text() for n in range(RACERS)]
    assert [racer.exitcode for racer in racers] == [0] * RACERS, told
    return [json.loads(Path(f"{given.result}.{n}").read_text()) for n in range(RACERS)]


def check_one_session_each(world: World, *, conversations: int) -> None:
    assert len(world.session_files()) == conversations
    assert len(world.log("session_new")) == conversations
    found = world.conversations()
    assert len(found) == conversations
    with world.store() as store:
        links = [store.links(each.conversation_id) for each in found]
    assert [len(each) for each in links] == [1] * conversations
    assert len({each[0].upstream_session_id for each in links}) == conversations
