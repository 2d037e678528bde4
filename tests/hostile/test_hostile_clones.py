"""In a hostile clone nothing of it is run, whichever way in; nothing hangs, leaks or leaves it.

`make test` makes every call of every verb and takes every other way in, in one clone of each kind.
`make test-all` enters every clone by two ways, and `make soak` every clone by every way.
"""

import pytest
from tests.hostile.entries import ADDRESS, CALLS, EVENTS, WORKSTREAM, calls
from tests.hostile.world import World
from tests.support.hostile_clones import CLONES
from tests.support.sets import SOAK, spread

from upthread.surfaces.cli.program import ALIASES, VERBS

pytestmark = [pytest.mark.xdist_group("hostile world"), pytest.mark.timeout(300)]

ONE_OF_EACH_KIND = (
    *("agents_commands", "clean_filter", "embedded_bare_repository", "ext_transport"),
    *("executables_in_the_root", "file_names", "role_of_the_person", "waiting_index"),
)
REAL_TELL = ("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
WAYS = (
    lambda world: world.hook("claude-code", world.directory, events_max=2),
    lambda world: world.hook("codex", world.directory, first=3, events_max=2),
    lambda world: world.hook("opencode", world.directory, first=2, events_max=2),
    lambda world: world.start_mcp(),
    lambda world: world.library(),
    lambda world: world.show_status_line(),
    lambda world: world.start_for_real(*REAL_TELL),
)
"""Every way in that is no verb, thin enough that a clone can be entered by each."""


@pytest.mark.parametrize(
    "number",
    spread(range(len(ONE_OF_EACH_KIND)), first=[1, 5, 7], name=ONE_OF_EACH_KIND.__getitem__),
)
def test_nothing_of_a_clone_of_each_kind_is_run_and_nothing_hangs_or_leaks(number, hostile_world):
    world = hostile_world
    world.enter(CLONES[ONE_OF_EACH_KIND[number]])
    WAYS[number % len(WAYS)](world)
    for words in calls()[number :: len(ONE_OF_EACH_KIND)]:
        world.verb(words)
    world.settle()
    assert world.breaches == []


@pytest.mark.parametrize(
    "number",
    spread(
        range(len(CLONES)),
        first=0,
        extended=range(0, len(CLONES), 6),
        name=list(CLONES).__getitem__,
    ),
)
def test_nothing_of_any_clone_is_run_and_nothing_hangs_or_leaks(number, hostile_world):
    world, every = hostile_world, calls()
    world.enter(list(CLONES.values())[number])
    for words in dict.fromkeys((("show", WORKSTREAM), every[number % len(every)])):
        world.verb(words)
    WAYS[number % len(WAYS)](world)
    world.settle()
    assert world.breaches == []


@SOAK
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CLONES)
def test_no_way_in_runs_anything_of_it(name: str, hostile_world: World) -> None:
    world = hostile_world
    world.enter(CLONES[name])
    world.start_for_real("ls")
    for agent in EVENTS:
        for directory in dict.fromkeys((world.clone, world.directory)):
            world.hook(agent, directory)
    for way in WAYS:
        way(world)
    for words in calls():
        world.verb(words)
    world.settle()
    assert world.breaches == []


def test_every_verb_is_called_and_none_that_is_not_there() -> None:
    called = {words[0] for words in calls()}
    assert called == {*VERBS, *ALIASES}
    assert CALLS.keys() <= called
