"""Two users' projects in one store: whatever one calls, with whatever ids, nothing of the other's.

The ids of both are known to both, the worst there can be: in logs, in bindings, in a chat.
"""

import inspect
import os
import random
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest
from msgspec import Struct, structs
from tests.support.postgres_server import as_owner, drop_database_at, migrated_database_at
from tests.support.sets import EXTENDED, SOAK
from tests.support.world import World

from upthread.client.stores import open_store
from upthread.core import commands
from upthread.core.types import ConversationKey, ProjectIdentity, RunId
from upthread.errors import UpthreadError
from upthread.runtime.record.erasure import Selection
from upthread.runtime.system import HOST_VARIABLE
from upthread.store.base import Store
from upthread.store.kinds import own_tag
from upthread.store.streams import STREAMS
from upthread.testing.store_conformance.copies import everything, recorded_in

CALLS = (500, pytest.param(10_000, marks=SOAK))
CALLS_IN_A_ROW = 250
BARE_CALLS = 10_000 if os.environ.get("UPTHREAD_SOAK") else 2_000
AGENTS_ASKED = 2
"""How many of a row's calls start an agent, which takes as long as hundreds of others."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

USERS = ("ADA", "BEA")
ONE_OF_EACH_WRITE = [
    *{type(write): write for write in everything()}.values(),
    commands.EraseRun(run_id=RunId("run")),
]
WORKSTREAMS = ("w", "spec-42", "of ADA", "of BEA", "nowhere")
READS = sorted(
    name
    for name, member in inspect.getmembers(Store, inspect.isfunction)
    if not name.startswith("_")
    and name
    not in {"commit", "scrub", "close", "acquire_lease", "heartbeat", "release_lease", "lease"}
    # These take a head or its row, which the reads of heads give of one's own streams alone.
    and name not in {"entries", "all_entries", "spoken", "place_of_message"}
    and name != "moment"
)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        (tmp_path / "shared").mkdir(mode=0o700)
        yield str(tmp_path / "shared" / "upthread.db")
    else:
        yield migrated_database_at(tmp_path)
        drop_database_at(tmp_path)


@dataclass(frozen=True)
class User:
    """Somebody with a project, and all ids that are in it."""

    name: str
    project: object
    ids: dict[str, list[str]]

    @property
    def marks(self) -> list[str]:
        """What is seen nowhere but in this user's rows."""
        kinds = ("conversation_id", "turn_id", "run_id", "upstream_session_id")
        found = [each for kind in kinds for each in self.ids[kind]]
        return [*found, self.project.project_id, said_by(self.name)]


def said_by(name: str) -> str:
    return f"a word of {name}"


@pytest.fixture
async def users(database, tmp_path):
    async with AsyncExitStack() as stack:
        worlds = {name: World(tmp_path / name, content=name) for name in USERS}
        found = []
        for name, world in worlds.items():
            specification = f"{world.take_example()}\n{said_by(name)}\n"
            world.configure('agent = "rehearsal"\n')
            project = await stack.enter_async_context(world.open(database=database))
            for address in ("w/planner", f"of {name}/planner"):
                await project.tell(address, f"[[rehearse: say {said_by(name)}]]")
            await project.run("spec-42", specification)
            found.append(User(name, project, ids_of(project, name)))
        yield found
    for world in worlds.values():
        world.close()


def ids_of(project, name):
    conversations = [
        each
        for workstream in WORKSTREAMS
        for each in project.store.conversations(project.project_id, workstream)
    ]
    ids = [each.conversation_id for each in conversations]
    turns = [turn for each in ids for turn in project.store.turns(each)]
    runs = project.store.runs(project.project_id, "spec-42")
    links = [link for each in ids for link in project.store.links(each)]
    assert all((ids, turns, runs, links)), name
    return {
        "project_id": [project.project_id],
        "conversation_id": ids,
        "turn_id": [turn.turn_id for turn in turns],
        "run_id": [run.run_id for run in runs],
        "upstream_session_id": [link.upstream_session_id for link in links],
    }


class Calls:
    """Random calls as one user, with ids of both."""

    def __init__(self, chance: random.Random, users: list[User]) -> None:
        self._chance = chance
        self._ids = {
            kind: [each for user in users for each in user.ids[kind]] for kind in users[0].ids
        }

    def read(self) -> tuple[str, tuple[object, ...], dict[str, object]]:
        """A read of the store: its name and arguments."""
        name = self._chance.choice(READS)
        positional, named = [], {}
        for parameter in list(inspect.signature(getattr(Store, name)).parameters.values())[1:]:
            is_of_key = parameter.annotation in {ConversationKey, "ConversationKey"}
            value = self._argument("conversation key" if is_of_key else parameter.name)
            if value is None and parameter.annotation in {int, "int"}:
                value = 20
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        return name, tuple(positional), named

    def _argument(self, name: str) -> object:
        one = self._chance.choice
        if name in self._ids:
            return one(self._ids[name])
        return {
            "workstream": lambda: one(WORKSTREAMS),
            "key": lambda: "push",
            "conversation key": lambda: ConversationKey(
                project_id=one(self._ids["project_id"]),
                workstream=one(WORKSTREAMS),
                role=one(["planner", "clarifier"]),
            ),
            "identity": lambda: ProjectIdentity(path="/srv", root_commit=one(["a", "b"])),
            "upstream_session_ids": lambda: self._ids["upstream_session_id"],
            "after_seq": lambda: 0,
            "kind": lambda: one(STREAMS),
            "name": lambda: one([*self._ids["conversation_id"], *self._ids["run_id"]]),
            "text": lambda: own_tag("run", one(self._ids["run_id"]), ""),
            "newest": lambda: one([1, 20]),
            "first": lambda: one([None, 1, 20]),
            "owner": lambda: one([*self._ids["conversation_id"], *self._ids["run_id"]]),
        }[name]()

    def write(self, user: User) -> commands.Write:
        """A write of any kind that names somebody else's."""
        others = {
            kind: [each for each in ids if each not in user.ids[kind]]
            for kind, ids in self._ids.items()
        }
        write = self._chance.choice(ONE_OF_EACH_WRITE)
        return with_ids(write, {kind: self._chance.choice(ids) for kind, ids in others.items()})

    async def call(self, user: User, *, is_agent_asked: bool) -> object:
        """A call of the library."""
        up, one = user.project, self._chance.choice
        workstream = one(WORKSTREAMS)
        address = f"{workstream}/{one(['planner', 'clarifier'])}"
        if is_agent_asked:
            asking = [
                lambda: up.tell(address, said_by(user.name)),
                lambda: up.go_on(address),
                lambda: up.run(workstream),
                lambda: up.adopt(address, one(self._ids["upstream_session_id"])),
            ]
            return await one(asking)()
        calls = [
            lambda: up.show(workstream),
            lambda: up.role(address),
            lambda: up.conversation(address),
            lambda: up.audit(workstream),
            lambda: up.spent_on_run(workstream),
            lambda: up.why(address),
            lambda: up.brief(address),
            up.workstreams,
            lambda: up.forgetting.held(Selection()),
            lambda: up.plan_fork(address, "forked/planner"),
            lambda: up.fork(address, f"fork {self._chance.random()}/planner"),
            lambda: up.reset(address),
            lambda: up.answer(workstream, said_by(user.name), question_id=one(["opening", "x"])),
            lambda: up.forget(Selection(workstream=workstream)),
        ]
        weights = [20] * (len(calls) - 4) + [1, 1, 20, 0.2]
        return await self._chance.choices(calls, weights)[0]()


def test_every_kind_of_write_is_tried() -> None:
    assert {type(write) for write in ONE_OF_EACH_WRITE} == set(commands.Write.__args__)


def with_ids(write, ids):
    """The write with another's ids wherever it has one."""
    inner = {"conversation": "key", "link": None}
    changed = {name: value for name, value in ids.items() if hasattr(write, name)}
    for name in inner:
        value = getattr(write, name, None)
        if value is not None:
            own = {each: ids[each] for each in ids if hasattr(value, each)}
            if name == "conversation":
                key = replaced(value.key, project_id=ids["project_id"])
                own = {"key": key, "conversation_id": ids["conversation_id"]}
            changed[name] = replaced(value, **own)
    return replaced(write, **changed)


def replaced(value, **fields):
    change = structs.replace if isinstance(value, Struct) else replace
    return change(value, **fields)


async def told_by(call):
    """What a call returns, or raises: an error may repeat what it was given."""
    try:
        return await call
    except UpthreadError as error:
        return error


def leaks(told: object, other: User) -> list[str]:
    shown = repr(told)
    return [mark for mark in other.marks if mark in shown]


@pytest.mark.parametrize("total", CALLS)
async def test_calls_show_and_change_nothing_of_another_users(users, database, total):
    chance, whole = random.Random(42), open_store(database)
    calls, refused, returned = Calls(chance, users), 0, 0
    for row in range(total // CALLS_IN_A_ROW):
        user, other = users[row % 2], users[(row + 1) % 2]
        before = list(map(repr, recorded_in(whole, other.project.project_id)))
        for number in range(CALLS_IN_A_ROW):
            kind = "call" if number < AGENTS_ASKED else chance.choice(["read", "write", "call"])
            if kind == "read":
                name, positional, named = calls.read()
                told = getattr(user.project.store, name)(*positional, **named)
                assert leaks(told, other) == [], (name, positional, named)
            elif kind == "write":
                write = calls.write(user)
                with pytest.raises(UpthreadError, match="was ever opened in this project"):
                    user.project.store.commit([write])
                refused += 1
            else:
                told = await told_by(calls.call(user, is_agent_asked=number < AGENTS_ASKED))
                if not isinstance(told, UpthreadError):
                    assert leaks(told, other) == [], told
                    returned += 1
                assert said_by(other.name) not in str(told)
        after = list(map(repr, recorded_in(whole, other.project.project_id)))
        assert after == before
        user.ids.update(ids_of(user.project, user.name))
    assert min(refused, returned) > total // 10
    for user, other in (users, users[::-1]):
        assert leaks(recorded_in(whole, user.project.project_id), other) == []
    whole.close()


@pytest.fixture
async def shared_users(tmp_path, monkeypatch, is_with_git):
    """Two users on two hosts, with one path, one database, and no superuser's rights."""
    address = as_owner(migrated_database_at(tmp_path))
    found = []
    async with AsyncExitStack() as stack:
        worlds = {name: World(tmp_path / name, content=f"{name} {tmp_path}") for name in USERS}
        for name, world in worlds.items():
            monkeypatch.setenv(HOST_VARIABLE, name)
            if not is_with_git:
                shutil.rmtree(world.project / ".git")
            specification = f"{world.take_example()}\n{said_by(name)}\n"
            world.configure('agent = "rehearsal"\n')
            shared = tmp_path / "workspace"
            world.project.rename(shared)
            project = await stack.enter_async_context(world.open(shared, database=address))
            for told in ("w/planner", f"of {name}/planner"):
                await project.tell(told, f"[[rehearse: say {said_by(name)}]]")
            await project.run("spec-42", specification)
            found.append(User(name, project, ids_of(project, name)))
            shared.rename(world.project)
        yield found, address
    for world in worlds.values():
        world.close()
    drop_database_at(tmp_path)


@pytest.mark.parametrize(
    "is_with_git", [pytest.param(True, marks=EXTENDED), False], ids=["git", "path"]
)
async def test_with_the_scope_removed_the_database_itself_refuses(shared_users):
    users, address = shared_users
    chance = random.Random(42)
    for user, other in (users, users[::-1]):
        calls, bare = Calls(chance, users), open_store(address)
        bare.act_for(user.project.project_id)
        before = recorded_of(other, address)
        shown, refused = set(), 0
        for number in range(BARE_CALLS // 2):
            if number % 10:
                name, positional, named = calls.read()
                told = getattr(bare, name)(*positional, **named)
                assert leaks(told, other) == [], (name, positional, named)
                shown |= {name} if leaks(told, user) else set()
            else:
                with pytest.raises(UpthreadError):
                    bare.commit([calls.write(user)])
                refused += 1
        assert {"messages", "turns", "links", "conversation", "owner", "run"} <= shown
        assert refused > BARE_CALLS // 40
        assert recorded_of(other, address) == before
        bare.close()


def recorded_of(user, address):
    whole = open_store(address)
    found = list(map(repr, recorded_in(whole, user.project.project_id)))
    whole.close()
    return found
