"""Probing, as it is called: `await up.probe("acp:my-agent --acp")`."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
from dataclasses import replace

from upthread.agents.base import AgentProcess
from upthread.client.preparing import Preparing
from upthread.runtime.probing import Probed, ProbeRequest, probe


class ProbeAgent:
    """Finds out what an agent really does about sessions."""

    def __init__(self, preparing: Preparing) -> None:
        self._preparing = preparing

    async def __call__(self, agent: str, *, rate_limit_prompt: str | None = None) -> Probed:
        """Probe an agent in a directory of its own: two prompts to its model, three starts.

        Its sessions stay with it. Raises UsageError for an agent nobody knows, UpstreamError for
        one that does not start.
        """
        with tempfile.TemporaryDirectory(prefix="upthread-probe-") as directory:
            opening = self._preparing.open_request(agent)
            request = ProbeRequest(
                adapter=self._preparing.adapter(agent),
                open=replace(opening, working_directory=_real(directory)),
                word=f"heron-{secrets.token_hex(4)}",
                kill=_kill_group,
                rate_limit_prompt=rate_limit_prompt,
            )
            return await probe(request)


def _real(directory: str) -> str:
    """Return the path as agents report it: on some systems the temporary one is a link."""
    return os.path.realpath(directory)


def _kill_group(process: AgentProcess) -> None:
    os.killpg(process.pid, signal.SIGKILL)
