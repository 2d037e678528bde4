"""An agent brought into a case: started, prompted, killed, and asked what it still knows.

It talks to the agent through its adapter only, and learns what reached the model from the model.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from tests.support.continuity.measured import History

from upthread.agents.base import (
    AgentAdapter,
    AgentConnection,
    OnEvent,
    OpenRequest,
    PermissionAnswer,
    PermissionRequest,
    PromptResult,
)
from upthread.core.events import AgentEvent
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.testing.agent_conformance.trial import attach
from upthread.testing.rehearsal_model import RecordedRequest, RehearsalModel
from upthread.testing.rehearsal_model.engine import PROTOCOLS
from upthread.testing.rehearsal_model.protocol import Conversation

START_TIMEOUT_S = 90.0
PROMPT_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.05
NOTE_CHARACTERS_MAX = 160

_IDENTITIES = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?:ses|msg|prt|call|toolu|req|err)_\w+"
    r'|(?<="nickname":")[^"]+|(?<=Wall time: )[\d.]+'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAgent:
    """An agent, one way of driving it, and how it is brought into the cases.

    `name` is the file the measurements are kept under, `driven_by` the way in words. `environment`
    gives the variables for a trial in a directory and must keep what the agent stores below it.
    `command` makes the step of a prompt that runs a shell line, `delegation` the one that gives a
    prompt to a sub-agent. `delete_session` removes a session from the agent's store while no agent
    runs.
    """

    name: str
    driven_by: str
    adapter: AgentAdapter
    environment: Callable[[Path, RehearsalModel], Mapping[str, str]]
    command: Callable[[str], str]
    delegation: Callable[[str], str]
    delete_session: Callable[[Path, UpstreamSessionId], None]
    unknown_session: str


@dataclass(slots=True, kw_only=True)
class Trial:
    """One case on trial, in a directory of its own. `said` are the marks of prompts so far."""

    agent: MeasuredAgent
    model: RehearsalModel
    place: Path
    version: str = ""
    said: list[str] = field(default_factory=list[str])

    @property
    def work(self) -> Path:
        """The working directory."""
        return self._made("work")

    @property
    def elsewhere(self) -> Path:
        """Another working directory."""
        return self._made("elsewhere")

    def _made(self, name: str) -> Path:
        (self.place / name).mkdir(exist_ok=True)
        return self.place / name

    # --- the agent -----------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(
        self, directory: Path | None = None, *, prompt_timeout_s: float = PROMPT_TIMEOUT_S
    ) -> AsyncGenerator[AgentConnection]:
        """Start the agent in a working directory, its own one without being told."""
        request = OpenRequest(
            working_directory=str(directory or self.work),
            stderr_path=str(self.place / "log" / "stderr"),
            answer_permission=_allow,
            environment=dict(self.agent.environment(self.place, self.model)),
            start_timeout_s=START_TIMEOUT_S,
            prompt_timeout_s=prompt_timeout_s,
        )
        async with self.agent.adapter.open(request) as connection:
            yield connection
            self.version = connection.capabilities.version or self.version

    async def prompt(
        self,
        connection: AgentConnection,
        session: UpstreamSessionId,
        script: str = "[[SAY noted]]",
        *,
        on_event: OnEvent | None = None,
    ) -> PromptResult:
        """Send a prompt that carries a mark of its own, and then the script."""
        mark = f"KIWI{len(self.said) + 1}"
        self.said.append(mark)
        text = f"The word is {mark}. {script}"
        return await connection.prompt(session, text, on_event=on_event or _take)

    async def session_with_a_past(self) -> UpstreamSessionId:
        """Return a session that holds one prompt and its reply; its agent has ended."""
        async with self.opened() as connection:
            session = await connection.new_session()
            ended = await self.prompt(connection, session)
            assert ended.outcome is Outcome.OK, ended
        return session

    async def prompt_and_kill(
        self, connection: AgentConnection, session: UpstreamSessionId, script: str, *, when: Running
    ) -> PromptResult:
        """Prompt, and SIGKILL the agent's whole process group once `when` has come."""

        async def strike() -> None:
            await until(when)
            kill(connection)

        return await self._prompt_beside(strike, connection, session, script)

    async def prompt_and_cancel(
        self, connection: AgentConnection, session: UpstreamSessionId, script: str, *, when: Running
    ) -> PromptResult:
        """Prompt, and cancel it once `when` has come."""

        async def stop() -> None:
            await until(when)
            await connection.cancel(session)

        return await self._prompt_beside(stop, connection, session, script)

    async def _prompt_beside(
        self,
        beside: Callable[[], Coroutine[Any, Any, None]],
        connection: AgentConnection,
        session: UpstreamSessionId,
        script: str,
    ) -> PromptResult:
        ended: PromptResult | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            ended = await self.prompt(connection, session, script)
            tasks.cancel_scope.cancel()  # a prompt that ended by itself waits for nothing more
        assert ended is not None
        return ended

    async def goes_on(self, connection: AgentConnection, session: UpstreamSessionId) -> Sequel:
        """Prompt the session once more and say how that ended and what the model was shown."""
        earlier = tuple(self.said)
        ended = await self.prompt(connection, session, "[[SAY back]]")
        return Sequel(outcome=ended.outcome, history=self._history(earlier), shown=self.shown())

    async def goes_on_after_restart(
        self, session: UpstreamSessionId, directory: Path | None = None
    ) -> Sequel:
        """Start the agent again, attach the session and prompt it."""
        async with self.opened(directory) as connection:
            await attach(connection, session)
            return await self.goes_on(connection, session)

    # --- the model -----------------------------------------------------------------------------

    def shown(self) -> Conversation:
        """Return what the model was shown when it was last asked in the prompts' own session."""
        latest = self.said[-1]
        for request in reversed(self.model.model_requests):
            conversation = _read(request)
            if latest in "\n".join(conversation.user_texts):
                return conversation
        raise AssertionError(f"the prompt {latest} never reached the model")

    def _history(self, earlier: tuple[str, ...]) -> History:
        told = "\n".join(self.shown().user_texts)
        known = [mark for mark in earlier if mark in told]
        if len(known) == len(earlier):
            return "whole"
        return "part" if known else "none"

    def in_words(self, text: str) -> str:
        """Return an agent's own words without backticks and without what differs between runs."""
        told = _IDENTITIES.sub("…", text.replace(str(self.place), "…").replace("`", "'"))
        return " ".join(told.split())[:NOTE_CHARACTERS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequel:
    """How the next prompt on a session ended, and how much of its history the model was shown."""

    outcome: Outcome
    history: History
    shown: Conversation = field(repr=False)


Running: TypeAlias = Callable[[], bool]
"""Whether what a case waits for has come."""


async def until(when: Running) -> None:
    """Wait until something that another process does has come."""
    while not when():  # noqa: ASYNC110  # nothing tells us: it is another process's doing
        await anyio.sleep(POLL_INTERVAL_S)


def kill(connection: AgentConnection) -> None:
    """SIGKILL the agent's process group, as a crash of the machine's memory would."""
    assert connection.process is not None, "an agent that is no process of ours cannot be killed"
    os.killpg(connection.process.pid, signal.SIGKILL)


def _read(request: RecordedRequest) -> Conversation:
    body = request.body
    assert isinstance(body, dict), request
    return PROTOCOLS[request.path.partition("?")[0]].read(body)


async def _allow(request: PermissionRequest) -> PermissionAnswer:
    option = next((name for name, kind in request.options if kind == "allow_once"), None)
    return PermissionAnswer(option_id=option, answered_by="the continuity suite")


async def _take(_event: AgentEvent) -> None:
    """Nothing is kept: the model says what mattered."""
