"""Claude Code: hooks in the user's own settings, and a skill."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from upthread.surfaces.cli.setup.changes import Change, read_file
from upthread.surfaces.cli.setup.hook_entries import with_hooks, without_hooks

AGENT: Final = "claude"
HOOK_AGENT: Final = "claude-code"
SKILL: Final = Path("skills/upthread/SKILL.md")
TIMEOUT_S: Final = 5
TOOLS: Final = "Agent|Task|SendMessage"

EVENTS: Final[Mapping[str, str]] = {
    "SessionStart": "",
    "UserPromptSubmit": "",
    "PreToolUse": TOOLS,
    "PostToolUse": TOOLS,
    "PostToolUseFailure": TOOLS,
    "SubagentStop": "",
    "SessionEnd": "",
}
"""The events and the tools they are asked for; none on Read, Bash or Edit, which come too often."""


def changes(environment: Mapping[str, str], command: tuple[str, ...]) -> tuple[Change, ...]:
    """Return what setting Claude Code up changes."""
    path = _folder(environment) / "settings.json"
    before = read_file(path)
    after = with_hooks(path, before, events=EVENTS, command=command, timeout_s=TIMEOUT_S)
    skill = _folder(environment) / SKILL
    return (
        Change(path=path, before=before, after=after),
        Change(path=skill, before=read_file(skill), after=_skill()),
    )


def taken_out(path: Path, content: bytes) -> bytes | None:
    """Return the settings without our hooks, everything else as it is now; of the skill nothing."""
    return None if path.name == SKILL.name else without_hooks(path, content)


def _skill() -> bytes:
    return resources.files("upthread").joinpath("surfaces/hook/SKILL.md").read_bytes()


def _folder(environment: Mapping[str, str]) -> Path:
    chosen, home = environment.get("CLAUDE_CONFIG_DIR"), environment.get("HOME")
    return Path(chosen) if chosen else (Path(home) if home else Path.home()) / ".claude"
