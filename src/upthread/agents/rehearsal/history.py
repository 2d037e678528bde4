"""A session's history, read: what was said, who the agent was told to be, which files it saw.

Nothing is remembered between prompts. Each prompt reads the session's file again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from upthread.agents.rehearsal.protocol import Json

# As upthread's own continuation has it (core/turns/prompt.py).
_GOES_ON_WITH: Final = "Its prompt was:\n"
_ROLE_BLOCK: Final = re.compile(r'^<role name="([a-z0-9][a-z0-9_-]*)">', re.MULTILINE)


class History:
    """The entries of a session, oldest first."""

    def __init__(self, entries: Sequence[Json]) -> None:
        self._entries = entries

    @property
    def prompts(self) -> list[str]:
        """All prompts, the running one last."""
        return [str(entry["text"]) for entry in self._entries if entry["entry"] == "prompt"]

    @property
    def told(self) -> list[str]:
        """All prompts as a reader takes them: the one a continuation quotes may be news."""
        return ["\n\n".join([prompt, *_quoted(prompt)]) for prompt in self.prompts]

    @property
    def replies(self) -> list[str]:
        """The agent's own words, one text per prompt; empty where it said nothing."""
        replies: list[str] = []
        for entry in self._entries:
            if entry["entry"] == "prompt":
                replies.append("")
            elif replies:
                replies[-1] += _spoken(entry)
        return replies

    @property
    def role(self) -> str:
        """The role the newest role block names; empty without one."""
        found = [name for prompt in self.told for name in _ROLE_BLOCK.findall(prompt)]
        return found[-1] if found else ""

    @property
    def has_spoken(self) -> bool:
        """Whether the agent has said anything in this session."""
        return any(self.replies)

    @property
    def calls_of_children(self) -> int:
        """How many sub-agents were called in this session."""
        return sum(
            "childSessionId" in (update.get("rawInput") or {})
            for update in self._updates
            if update["sessionUpdate"] == "tool_call"
        )

    @property
    def files_read(self) -> frozenset[str]:
        """The paths, as asked for, of all files whose content this session holds."""
        asked = {
            update["toolCallId"]: str(update["rawInput"]["path"])
            for update in self._updates
            if update["sessionUpdate"] == "tool_call" and update["kind"] == "read"
        }
        return frozenset(
            asked[update["toolCallId"]]
            for update in self._updates
            if update.get("status") == "completed" and update["toolCallId"] in asked
        )

    @property
    def _updates(self) -> list[Json]:
        return [entry["update"] for entry in self._entries if entry["entry"] == "update"]


def replay(entries: Sequence[Json], *, names_messages: bool) -> list[Json]:
    """Return a history as the ACP updates that tell it, those of the agent word for word.

    Without ids of messages where it does not `names_messages`, which ACP leaves to the agent.
    """
    updates: list[Json] = []
    for entry in entries:
        if entry["entry"] == "prompt":
            content = {"type": "text", "text": entry["text"]}
            updates.append(
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": content,
                    "messageId": entry["messageId"],
                }
            )
        elif entry["entry"] == "update":
            updates.append(cast("Json", entry["update"]))
    if names_messages:
        return updates
    return [{k: v for k, v in update.items() if k != "messageId"} for update in updates]


def _quoted(prompt: str) -> list[str]:
    """Return the prompt that a continuation goes on with, and the one that this goes on with."""
    lines = prompt.partition(_GOES_ON_WITH)[2].splitlines()
    quoted = [line.removeprefix(">").removeprefix(" ") for line in lines if line.startswith(">")]
    inner = "\n".join(quoted)
    return [inner, *_quoted(inner)] if inner else []


def _spoken(entry: Json) -> str:
    update: Any = entry.get("update")
    if entry["entry"] != "update" or update["sessionUpdate"] != "agent_message_chunk":
        return ""
    return str(update["content"]["text"])
