"""Starting OpenCode's server, with the plug-in of ours that asks before each call."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final

import anyio.to_thread

from upthread.agent_stores.homes import agent_environment
from upthread.agents._connection import Adapter, require_usable
from upthread.agents._json_lines import as_object
from upthread.agents._prompt import CallListener, listening
from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.opencode.connection import OpenCodeConnection
from upthread.agents.opencode.server import started_server
from upthread.core.agents import AGENTS

CONFIG: Final = "OPENCODE_CONFIG_CONTENT"
"""The variable with more configuration. OpenCode adds up the plug-ins of all its configurations."""


class OpenCodeAdapter(Adapter):
    """OpenCode, natively."""

    row = AGENTS["opencode"]

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        async with listening() as calls:
            given = request.environment
            await anyio.to_thread.run_sync(require_usable, request, given)
            asking = _gate(given, calls) if request.hold_call is not None else None
            environment = {**given, **(asking or {})}
            async with started_server(self._agent, self._command, request, environment) as server:
                connection = OpenCodeConnection(
                    server, request, calls=calls if asking else None, now_ms=self.now_ms
                )
                async with connection.serving():
                    yield connection


def _gate(given: Mapping[str, str], calls: CallListener) -> dict[str, str] | None:
    """Return what has OpenCode ask us before each call, None where it cannot be had."""
    # What it would inherit: a configuration of the person's own in that variable stays in it.
    gate = with_gate(agent_environment(given))
    # Sooner without it, which `can_hold` tells, than in the place of what cannot be read.
    return {**calls.environment, **gate} if gate is not None else None


def with_gate(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the variable that adds the plug-in to what it held; None where that cannot be read."""
    given: Any = {}
    if environment.get(CONFIG):
        try:
            given = json.loads(environment[CONFIG])
        except ValueError:  # OpenCode also takes comments
            return None
    plugins = as_object(given).get("plugin", [])
    if not isinstance(given, dict) or not isinstance(plugins, list):
        return None
    gate = f"file://{files('upthread').joinpath('agents/opencode/gate.js')}"
    return {CONFIG: json.dumps({**given, "plugin": [*plugins, gate]})}


ADAPTER: Final = OpenCodeAdapter
"""By which the registry makes it."""
