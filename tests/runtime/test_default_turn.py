"""The turn that figures are given for is the one the runtime writes."""

from contextlib import asynccontextmanager

import anyio
import pytest
from tests.support.default_turn import (
    AGENT,
    USER,
    commits_of,
    open_place,
    prepare_turn,
    record_turn,
)

from upthread.agents.base import Capabilities, OpenRequest, PromptResult
from upthread.config import load_settings
from upthread.core.names import Address
from upthread.core.roles.role import Role
from upthread.core.turns.turn import Task
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.runtime.lease import Leases
from upthread.runtime.record.project_store import ProjectStore
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import Conversations, OwnSessions, TellRequest
from upthread.runtime.turns.recording import FLUSH_EVERY_S
from upthread.runtime.turns.turns import Turns
from upthread.store.sqlite import SqliteStore

pytestmark = pytest.mark.extended


class ToolTakingAgent:
    """An agent in this process that says a prepared turn, and takes its time for each tool call."""

    agent = AGENT
    process = None
    late_events = 0
    environment = dict
    capabilities = Capabilities(agent=AGENT, version="1.0.217", can_resume=True, can_load=False)

    def __init__(self, upstream, events) -> None:
        self.upstream = upstream
        self.events = events

    @asynccontextmanager
    async def open(self, _request):
        yield self

    async def new_session(self):
        return UpstreamSessionId(self.upstream)

    async def resume_session(self, upstream):
        assert upstream == self.upstream

    async def prompt(self, _upstream, _text, *, on_event):
        for number, event in enumerate(self.events, 1):
            await on_event(event)
            if number % 3 == 0:  # text, call, result
                await anyio.sleep(1.2 * FLUSH_EVERY_S)
        return PromptResult(outcome=Outcome.OK)


class NotingStore(SqliteStore):
    """A store that notes what is committed."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.commits = []

    def commit(self, writes, **leases):
        self.commits.append(tuple(writes))
        super().commit(writes, **leases)


def shape(commits):
    """Return for each commit what it writes, and how durably."""
    return [
        [
            (
                type(write).__name__,
                write.durability,
                [type(part).__name__ for part in getattr(write, "parts", ())],
                type(getattr(write, "event", None)).__name__,
            )
            for write in writes
        ]
        for writes in commits
        if writes
    ]


def test_it_is_written_in_the_commits_of_the_runtime(tmp_path):
    ours = SqliteStore(tmp_path / "default-turn.db")
    place = open_place(ours, "spec-42")
    record_turn(ours, place, prepare_turn(place, 1))
    expected = shape(commits_of(place, prepare_turn(place, 2)))
    ours.close()

    noting = NotingStore(tmp_path / "runtime.db")
    system = System()
    project_id = place.conversation.key.project_id
    store = ProjectStore(noting, project_id, by_user=USER, now_ms=system.now_ms)
    turns = Turns(store, system, Conversations(store, system, Leases(store, system)))
    upstream = place.link.upstream_session_id

    def tell(events):
        request = TellRequest(
            project_id=project_id,
            address=Address(workstream="spec-42", role="planner"),
            role=Role(name="planner", continuity="resume"),
            agent=AGENT,
            task=Task(text="Go on."),
            adapter=ToolTakingAgent(upstream, events),
            open=OpenRequest(working_directory=str(tmp_path), stderr_path=str(tmp_path / "err")),
            settings=load_settings(tmp_path, environment={"HOME": str(tmp_path)}),
            own_sessions=OwnSessions(**dict.fromkeys(OwnSessions.__struct_fields__, lambda *_: "")),
        )
        return anyio.run(turns.tell, request)

    first = tell(prepare_turn(place, 1).events)
    assert first.outcome is Outcome.OK
    noting.commits.clear()
    second = tell(prepare_turn(place, 2).events)
    assert (second.outcome, second.decision) == (Outcome.OK, "resume")
    assert shape(noting.commits) == expected
    store.close()
