"""The scripted agent, running and prompted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.agents.conftest import Recorded

from upthread.agents.acp import AcpAdapter
from upthread.agents.base import AgentConnection, OpenRequest, PromptResult
from upthread.core.types import UpstreamSessionId

SESSION = UpstreamSessionId("ses_scripted")


@pytest.fixture
async def connection(
    scripted: Callable[..., AcpAdapter], request_for: Callable[..., OpenRequest]
) -> AsyncIterator[AgentConnection]:
    async with scripted().open(request_for()) as connection:
        yield connection


@pytest.fixture
def prompted(
    scripted: Callable[..., AcpAdapter], request_for: Callable[..., OpenRequest], recorded: Recorded
) -> Callable[..., Awaitable[PromptResult]]:
    """Start the agent that misbehaves as a word says, send one prompt, and end the agent."""

    async def prompt(text: str, word: str = "well", **request: Any) -> PromptResult:
        async with scripted(word).open(request_for(**request)) as connection:
            return await connection.prompt(SESSION, text, on_event=recorded)

    return prompt
