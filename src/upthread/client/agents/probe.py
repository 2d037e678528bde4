"""The continuity probe, as it is called: `await up.probe("acp:my-agent --acp")`."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile

from msgspec import structs

from upthread.agents.base import AgentProcess
from upthread.client.delegation_setup import Preparing
from upthread.runtime.continuity_probe import Probed, ProbeRequest, probe


async def probe_agent(
    preparing: Preparing, agent: str, *, rate_limit_prompt: str | None = None
) -> Probed:
    """Probe an agent in a directory of its own; see Project.probe."""
    with tempfile.TemporaryDirectory(prefix="upthread-probe-") as directory:
        opening = preparing.open_request(agent)
        request = ProbeRequest(
            adapter=preparing.adapter(agent),
            open=structs.replace(opening, working_directory=_real(directory)),
            # By chance: a model that has not read it cannot say it.
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
