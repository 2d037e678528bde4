"""No way in starts what PATH finds in the clone: by an empty entry, a relative one, or its path.

One clone has a program of every name that anybody looks up, in each folder such a PATH names; what
is started under another name is seen by the driver, which writes down each start.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.entries import ADDRESS, EVENTS, calls
from tests.hostile.world import World
from tests.support.hostile_clones import CLONES, Canary, HostileClone
from tests.support.sets import EXTENDED, SOAK

pytestmark = [pytest.mark.xdist_group("hostile world"), pytest.mark.timeout(300)]

HERE = "{clone}"
FORMS: Mapping[str, tuple[str, ...]] = {
    "relative": ("", ".", "bin", "./bin", "../clone", "node_modules/.bin"),
    "absolute": (HERE, f"{HERE}/bin", f"{HERE}/docs/../bin"),
}
"""What stands before everything else in PATH."""

TELL = ("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
ONE_CALL_OF_EACH_VERB = tuple({words[0]: words for words in reversed(calls())}.values())[::-1]


def build(directory: Path, canary: Canary) -> None:
    for name in ("executables_in_the_root", "executables_in_bin", "node_executables"):
        CLONES[name].build(directory, canary)


CLONE = HostileClone(
    name="path_lookup", group="", attacks="programs wherever PATH looks", build=build
)


@pytest.fixture(params=FORMS)
def world(request: pytest.FixtureRequest, hostile_world: World) -> World:
    """A careless person's world: PATH leads into the clone before it leads anywhere else."""
    hostile_world.enter(CLONE)
    entries = FORMS[request.param]
    hostile_world.careless_path = tuple(e.format(clone=hostile_world.clone) for e in entries)
    return hostile_world


def check_settled(world: World, *, starts_min: int) -> None:
    world.settle()
    assert world.breaches == []
    assert world.started >= starts_min, "git and agents were started, and seen to be"


@SOAK
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(ONE_CALL_OF_EACH_VERB, id="one of each verb", marks=EXTENDED),
        pytest.param(calls(), id="all", marks=SOAK),
    ],
)
def test_no_call_of_a_verb_and_none_of_the_library_does(world: World, every: Any) -> None:
    for words in every:
        world.verb(words)
    world.library()
    check_settled(world, starts_min=len(every))


@EXTENDED
def test_no_hook_server_or_status_line_does(world: World) -> None:
    for agent in EVENTS:
        world.hook(agent, world.clone, events_max=3)
    world.start_mcp()
    world.show_status_line()
    world.start_for_real(*TELL)
    check_settled(world, starts_min=0)


@SOAK
def test_no_call_does_in_a_home_that_is_the_clone_where_only_the_entry_tells(hostile_world):
    """Whoever keeps their home in git: what lies in there is theirs, but not by a relative name."""
    world = hostile_world
    world.enter(CLONE)
    world.careless_path = FORMS["relative"]
    world.more_environment = {"HOME": str(world.clone)}
    for words in (("show", "spec-42"), TELL, *((verb, ADDRESS) for verb in ("why", "open"))):
        world.verb(words)
    world.verb(("brief", ADDRESS, "--edit"))
    world.library()
    check_settled(world, starts_min=1)
