"""Turns told by the runtime to an agent in this process, which says what it was given, at once."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace
from tests.support.default_turn import AGENT, Place, prepare_turn, texts

from upthread.agents.base import Capabilities, OnEvent, OpenRequest, PromptResult
from upthread.config import load_settings
from upthread.core.events import AgentEvent
from upthread.core.names import Address
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.role import Role
from upthread.core.turns.turn import Task
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.runtime.lease import Leases
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import Conversations, OwnSessions, TellRequest
from upthread.runtime.turns.turns import Turns
from upthread.store.base import Store


class _Agent:
    """An agent and its connection. It knows one session."""

    agent = AGENT
    process = None
    late_events = 0
    capabilities = Capabilities(agent=AGENT, version="1.0.217", can_resume=True, can_load=False)

    def __init__(self, session: UpstreamSessionId) -> None:
        self.session = session
        self.events: tuple[AgentEvent, ...] = ()

    @asynccontextmanager
    async def open(self, _request: OpenRequest) -> AsyncGenerator[_Agent]:
        yield self

    def environment(self) -> dict[str, str]:
        return {}

    async def new_session(self) -> UpstreamSessionId:
        return self.session

    async def resume_session(self, session: UpstreamSessionId) -> None:
        assert session == self.session

    async def prompt(
        self, _session: UpstreamSessionId, _text: str, *, on_event: OnEvent
    ) -> PromptResult:
        for event in self.events:
            await on_event(event)
        return PromptResult(outcome=Outcome.OK)


class Telling:
    """Tells turns of one conversation. What is said in a turn is made by `prepare`."""

    def __init__(
        self,
        store: Store,
        place: Place,
        directory: Path,
        redactor: Redactor | None = None,
        *,
        system: System | None = None,
        number: int = 0,
    ) -> None:
        system = system or System()
        self._turns = Turns(store, system, Conversations(store, system, Leases(store, system)))
        # A session has one conversation: the place's own is held already.
        session = UpstreamSessionId(f"{place.link.upstream_session_id}-told")
        self._place = dataclasses.replace(
            place, link=replace(place.link, upstream_session_id=session)
        )
        self._agent = _Agent(session)
        self._open = OpenRequest(
            working_directory=str(directory), stderr_path=str(directory / "stderr")
        )
        self._settings = load_settings(directory, environment={"HOME": str(directory)})
        self._redactor = redactor
        self._workstream = f"told-{number}" if number else "told"

    def prepare(self, number: int) -> TellRequest:
        """Return turn `number`; equal texts for equal numbers, and repeated after 64."""
        self._agent.events = prepare_turn(self._place, number).events
        return TellRequest(
            project_id=self._place.conversation.key.project_id,
            address=Address(workstream=self._workstream, role="planner"),
            role=Role(name="planner", continuity="resume"),
            agent=AGENT,
            task=Task(text=texts(number)[0]),
            adapter=self._agent,
            open=self._open,
            settings=self._settings,
            own_sessions=OwnSessions(**dict.fromkeys(OwnSessions.__struct_fields__, lambda *_: "")),
            redactor=self._redactor,
        )

    async def tell(self, request: TellRequest) -> None:
        """Tell a turn, and see that it ended well."""
        told = await self._turns.tell(request)
        assert told.outcome is Outcome.OK, told
