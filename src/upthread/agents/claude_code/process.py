"""One running `claude -p`: the words it is started with, its frames, the requests both ways.

What we ask (`control_request`) is answered under the id we gave it; what it asks is a frame like
any other. A role's limits are words of its command line: the CLI forgets them with its process, so
they are said again with each `--resume`. Only words that take away: nothing a role allows becomes
an `--allowedTools`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import anyio

from upthread.agents._connection import JsonLines
from upthread.agents._json_lines import as_object, text_at
from upthread.agents._process import ChildProcess
from upthread.core.roles.limits import RoleLimits, allows_only_named, denies_wholly, named_tools
from upthread.core.types import Outcome

OnFrame: TypeAlias = Callable[[object], Awaitable[None]]

# `stream-json` is refused without `--verbose` (2.1.197). Without `--include-partial-messages` a
# reply comes only whole, and of one that is cut off there is nothing; a sub-agent's words stay in
# its transcript without `--forward-subagent-text`; and whatever would be asked is refused without
# `--permission-prompt-tool stdio`, since nobody is at a terminal (docs/agents/claude-code.md).
STREAMING: Final = (
    *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--include-partial-messages", "--forward-subagent-text"),
    *("--permission-prompt-tool", "stdio"),
)

UNATTENDED: Final = ("AskUserQuestion", "CronCreate", "ScheduleWakeup", "Monitor")
"""They wait for a person at a terminal, or go on when the turn is over."""

TOOLS: Final = (
    *("Agent", "Bash", "Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead"),
    *("PowerShell", "Read", "Skill", "Task", "TodoWrite", "WebFetch", "WebSearch", "Write"),
)
"""Its own tools that limits know by name, as seen in 2.1.330 and before."""

_IDENTITY: Final = "upthread-"


def limiting_words(limits: RoleLimits, *, agent: str) -> tuple[str, ...]:
    """Return the words. Where only named tools are allowed, no other is even offered."""
    denied = [tool for tool in (*TOOLS, *named_tools(limits)) if denies_wholly(limits, tool)]
    words = [f"--disallowedTools={','.join((*UNATTENDED, *denied))}"]
    if allows_only_named(limits):
        offered = [tool for tool in TOOLS if tool not in denied]
        words.append(f"--tools={','.join(offered)}")
    model = limits.model_for(agent)
    return (*words, *([f"--model={model}"] if model else []))


class ClaudeProcess(JsonLines):
    """A running CLI. `is_released` is set by whoever has heard its last words."""

    def __init__(
        self, child: ChildProcess, *, agent: str, timeout_s: float, on_frame: OnFrame
    ) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self.is_released = anyio.Event()
        self._on_frame = on_frame

    async def _take(self, message: object) -> None:
        kind = text_at(message, "type")
        if kind == "control_request":
            self.child.allowance.take_request()
        if kind != "control_response":
            await self._on_frame(message)
            return
        response = as_object(as_object(message).get("response"))
        number = text_at(response, "request_id").removeprefix(_IDENTITY)
        # An interrupt's answer finds nobody: it is not waited for.
        if number.isdecimal():
            self._questions.answer(int(number), response)

    async def ask(self, subtype: str, more: Mapping[str, Any] | None = None) -> None:
        """Ask and wait for the answer. UpstreamError when there is none, or it is a no."""
        answer = await self._answer_to(
            subtype, lambda number: self.request(subtype, f"{_IDENTITY}{number}", more)
        )
        if answer.get("subtype") == "error":
            raise self.refused(subtype, text_at(answer, "error"), outcome=Outcome.UNKNOWN)

    async def request(
        self, subtype: str, identity: str, more: Mapping[str, Any] | None = None
    ) -> None:
        """Ask without waiting."""
        request = {"subtype": subtype, **(more or {})}
        await self.send({"type": "control_request", "request_id": identity, "request": request})

    async def answer(self, request_id: str, response: Mapping[str, Any]) -> None:
        """Answer what the agent asked."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        await self.send({"type": "control_response", "response": body})

    async def refuse(self, request_id: str, why: str) -> None:
        """Say that what the agent asked cannot be answered."""
        body = {"subtype": "error", "request_id": request_id, "error": why}
        await self.send({"type": "control_response", "response": body})
