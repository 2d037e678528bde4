"""Tell a role through the library, in a task that SIGUSR1 cancels: ADDRESS PROMPT AGENT."""

from __future__ import annotations

import json
import signal
import sys

import anyio

import upthread


async def _cancel_when_asked(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGUSR1) as signals:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        async for _each in signals:
            scope.cancel()


async def main(*words: str) -> int:
    """Print how the turn ended as `upthread tell --json` does; nothing where it was cancelled."""
    address, prompt, agent = words
    async with upthread.open_project(".") as project, anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_asked, tasks.cancel_scope)
        told = await project.tell(address, prompt, upthread.TellOptions(agent=agent))
        print(json.dumps({"type": "turn_ended", "outcome": str(told.outcome)}), flush=True)
        tasks.cancel_scope.cancel()
        return 0
    return 130


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    sys.exit(anyio.run(main, *sys.argv[1:]))
