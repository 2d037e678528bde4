"""What an entry of a transcript is, said once for all who read one: the adapter, repairs, hooks.

Nothing is imported: a hook reads a sub-agent's transcript while its agent waits. An entry is what a
line decodes to, whoever decoded it. As seen in 2.1.330.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SUBAGENTS = "subagents"
"""The folder beside a session's transcript, named after the session, that has its sub-agents'."""


ENDS = {"completed": "ok", "killed": "cancelled", "stopped": "cancelled"}
"""What the status of a sub-agent that is over means, as outcomes; every other one is unknown."""

_COORDINATOR = "coordinator"
"""The `origin.kind` of a message that a main session sends to its sub-agent. It is a prompt, though
Claude Code marks it as its own (`isMeta`)."""


def file_of(agent_id: str) -> str:
    """Return what a sub-agent's transcript is called, in the folder SUBAGENTS."""
    return f"agent-{agent_id}.jsonl"


def is_put_in(entry: Mapping[str, Any]) -> bool:
    """Return whether Claude Code itself put a user's entry in: nobody has said it."""
    origin: dict[str, Any] | str | None = entry.get("origin")
    is_asked = isinstance(origin, dict) and origin.get("kind") == _COORDINATOR
    return bool(entry.get("isMeta")) and not is_asked
