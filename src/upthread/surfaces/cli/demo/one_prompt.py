"""One prompt to a new session of the rehearsal agent, in a process of its own.

What delegating looks like without upthread: the prompt goes in, the reply comes out, the session id
is forgotten. Reads the prompt from stdin and prints JSON lines in the words of `run --json`.
"""

from __future__ import annotations

import json
import os
import sys

import anyio

from upthread.agents import registry
from upthread.agents.base import OpenRequest
from upthread.core.events import AgentEvent, ToolCallAnnounced
from upthread.runtime.permissions.policy import PermissionPolicy


async def prompt_once(text: str) -> None:
    """Start the agent, ask it once, print what it did."""
    reply: list[str] = []

    async def on_event(event: AgentEvent) -> None:
        if isinstance(event, ToolCallAnnounced):
            _print({"type": "part", "kind": "tool_call", "title": event.title})
        said = getattr(event, "text", None)
        if type(event).__name__ == "TextReceived" and isinstance(said, str):
            reply.append(said)

    request = OpenRequest(
        working_directory=os.getcwd(),  # noqa: PTH109 - as text, for the agent
        stderr_path=os.environ["UPTHREAD_HOME"] + "/without.log",
        answer_permission=PermissionPolicy(rules={"edit": "allow", "execute": "allow"}).answer,
        # The stage's own: what else is set belongs to the person, and the rehearsal needs none of
        # it.
        environment={k: v for k, v in os.environ.items() if k.startswith("UPTHREAD_")},
    )
    async with registry.adapter_for("rehearsal").open(request) as connection:
        session = await connection.new_session()
        result = await connection.prompt(session, text, on_event=on_event)
    _print({"type": "turn_ended", "outcome": str(result.outcome), "reply": "".join(reply)})


def _print(line: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(prompt_once, sys.stdin.read())
