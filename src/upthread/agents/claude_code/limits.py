"""A role's limits as words for Claude Code's command line, with every start of it. Pure.

The CLI forgets them with its process, so they are said again with each `--resume`. Only words that
take away: nothing a role allows becomes an `--allowedTools`.
"""

from __future__ import annotations

from typing import Final

from upthread.core.roles.limits import RoleLimits, allows_only_named, denies_wholly, named_tools

UNATTENDED: Final = ("AskUserQuestion", "CronCreate", "ScheduleWakeup", "Monitor")
"""They wait for a person at a terminal, or go on when the turn is over."""

TOOLS: Final = (
    *("Agent", "Bash", "Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead"),
    *("PowerShell", "Read", "Skill", "Task", "TodoWrite", "WebFetch", "WebSearch", "Write"),
)
"""Its own tools that limits know by name, as seen in 2.1.330 and before."""


def limiting_words(limits: RoleLimits, *, agent: str) -> tuple[str, ...]:
    """Return the words. Where only named tools are allowed, no other is even offered."""
    denied = [tool for tool in (*TOOLS, *named_tools(limits)) if denies_wholly(limits, tool)]
    words = [f"--disallowedTools={','.join((*UNATTENDED, *denied))}"]
    if allows_only_named(limits):
        offered = [tool for tool in TOOLS if tool not in denied]
        words.append(f"--tools={','.join(offered)}")
    model = limits.model_for(agent)
    return (*words, *([f"--model={model}"] if model else []))
