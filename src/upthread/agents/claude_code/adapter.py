"""Starting Claude Code. It holds no state: every `open` is a conversation of its own with the CLI.

Opening asks the CLI for its version, unless that is remembered of this very program, and so finds
out whether it runs at all; the process that is spoken to starts with the session it is bound to.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio

from upthread.agents._connection import Adapter, start_of
from upthread.agents._probes import remember, remembered
from upthread.agents._process import started_child, whole_command
from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.claude_code.connection import ClaudeCodeConnection, Installation
from upthread.core.agents import AGENTS
from upthread.core.runs.stops import NOT_ANSWERED, STDERR_END
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.tasks import task_group

ROW: Final = AGENTS["claude-code"]
ENVIRONMENT: Final = {
    # A task that goes on in the background would answer after its turn.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+\S*")
SHOWN_CHARACTERS: Final = 200


class ClaudeCodeAdapter(Adapter):
    """Claude Code by its command line, `claude` without being told."""

    row = ROW

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        environment = {**request.environment, **ENVIRONMENT}
        installed = Installation(
            agent=self._agent,
            command=self._command,
            version=await self._version(request, environment),
            environment=environment,
        )
        async with task_group() as tasks:
            connection = ClaudeCodeConnection(tasks, request, installed)
            try:
                yield connection
            finally:
                # A caller that is cancelled leaves no process either (A1).
                with anyio.CancelScope(shield=True):
                    await connection.close()
                tasks.cancel_scope.cancel()

    async def _version(self, request: OpenRequest, environment: Mapping[str, str]) -> str:
        start = start_of(request, (*self._command, "--version"), environment)
        # A command of several words may be anybody's, and run another Claude Code tomorrow.
        command = whole_command(start) if len(self._command) == 1 else []
        # As it was printed: what lists the agents that are installed remembers it so as well.
        known = _VERSION.match(remembered(command) or "")
        if known is not None:
            return known[0]
        async with started_child(start) as child:
            line: bytes | None = b""
            with anyio.move_on_after(request.start_timeout_s) as patience:
                line = await child.read_line()
            printed = (line or b"").decode("utf-8", "replace").strip()
            found = _VERSION.match(printed)
            if found is not None:
                remember(command, printed)
                return found[0]
            is_late = patience.cancelled_caught
            said = f"printed {line[:SHOWN_CHARACTERS]!r}" if line else "printed nothing"
            tail = child.tail_of_stderr()
            raise UpstreamError(
                f"{self._agent} was asked for its version and {said}"
                + (f" within {request.start_timeout_s:g} s: it {NOT_ANSWERED}" if is_late else ""),
                outcome=Outcome.TIMED_OUT if is_late else Outcome.PROCESS_DIED,
                hint=f"run `{' '.join(start.command)}` once by hand"
                + (f"; {STDERR_END}{tail}" if tail else ""),
            )

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        return self.row.resume_command(upstream_session_id, self._command)


ADAPTER: Final = ClaudeCodeAdapter
"""By which the registry makes it."""
