"""Claude Code: hooks in the user's own settings, a skill, and the status line if wanted."""

import json
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from upthread.agent_stores.homes import home_of
from upthread.core.agents import AGENTS
from upthread.errors import UsageError
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import (
    Change,
    Changes,
    Environment,
    Target,
    as_json_object,
    read_file,
)
from upthread.surfaces.cli.setup.launcher import with_hooks, without_hooks, written

HOOK_AGENT = "claude-code"
AGENT = AGENTS[HOOK_AGENT].setup_name
SKILL = Path("skills/upthread/SKILL.md")
SETTINGS = "settings.json"
STATUS_LINE = "statusLine"
TOOLS = "Agent|Task|SendMessage"

EVENTS = {
    "SessionStart": "",
    "UserPromptSubmit": "",
    "PreToolUse": TOOLS,
    "PostToolUse": TOOLS,
    "PostToolUseFailure": TOOLS,
    "SubagentStart": "",
    "SubagentStop": "",
    "PostCompact": "",
    "SessionEnd": "",
}
"""The events and the tools they are asked for, all that is needed, so that trust is asked once."""

GUARDED = "Bash|PowerShell|WebFetch|WebSearch|mcp__.*"
"""The tools that may act beyond this machine; none that only reads or edits."""


def changes(environment: Environment, home: Path, *, has_status_line: bool = False) -> Changes:
    """Return what setting Claude Code up changes. A status line of ours stays where it is."""
    folder = home_of(HOOK_AGENT, environment)
    path, skill = folder / SETTINGS, folder / SKILL
    before = read_file(path)
    what = f"{len(EVENTS) + 1} hooks"
    after = with_hooks(path, before, agent=HOOK_AGENT, home=home, events=EVENTS, guarded=GUARDED)
    if has_status_line:
        what += " and the status line"
        settings = as_json_object(path, after)
        # There is room for one, and a person's own is never replaced.
        if STATUS_LINE in settings and not launcher.is_ours(_status_line_of(settings)):
            raise UsageError(
                f"{path} has a status line of its own already",
                hint="upthread status --snippet prints what shows the workstream, to put beside it",
            )
        after = written({**settings, STATUS_LINE: status_line(home)}, like=after)
    text = resources.files("upthread").joinpath("surfaces/hook/SKILL.md").read_bytes()
    return (
        Change(path=path, before=before, after=after, what=what),
        Change(path=skill, before=read_file(skill), after=text, what="a skill"),
    )


def taken_out(path: Path, content: bytes) -> bytes | None:
    """Return the settings without what is ours, the rest as it is now; of the skill nothing."""
    # All of that file is ours, whoever changed it since.
    if path.name == SKILL.name:
        return None
    settings = without_hooks(path, content)
    if launcher.is_ours(_status_line_of(settings)):
        settings = {name: value for name, value in settings.items() if name != STATUS_LINE}
    return written(settings, like=content)


def has_status_line(environment: Environment) -> bool:
    """Return whether Claude Code shows a status line already, whosever it is."""
    path = home_of(HOOK_AGENT, environment) / SETTINGS
    return STATUS_LINE in as_json_object(path, read_file(path))


def status_line(home: Path) -> dict[str, str]:
    """Return the setting that shows the workstream in Claude Code's status line."""
    return {"type": "command", "command": shlex.join(launcher.command(home, "status-line"))}


def _status_line_of(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings.get(STATUS_LINE, ""))


TARGET = Target(name=HOOK_AGENT, changes=changes, taken_out=taken_out)
