"""Codex: hooks beside the user's own, and an MCP server in the user's configuration.

Codex runs a hook only once a person has reviewed and trusted it, and leaves it out in silence until
then. Trust is that person's to give: nothing of it is written here. Seen in 0.169.0:
https://developers.openai.com/codex/hooks
"""

import importlib.util
import json
from pathlib import Path

from upthread.agent_stores.homes import home_of
from upthread.errors import ConfigError, UpstreamError
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import (
    Change,
    Changes,
    Environment,
    Target,
    Trust,
    read_file,
    with_block,
    without_block,
)
from upthread.surfaces.cli.setup.launcher import with_hooks, without_hooks, written
from upthread.surfaces.cli.terminal.phrases import counted

AGENT = "codex"

START_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 120
"""What Codex is to wait for our MCP server: an answer may be a whole turn of another agent's."""

ASKED_S_MAX = 20.0
"""How long Codex may take to start and to list its hooks."""

HOOKS = "hooks.json"
CONFIG = "config.toml"
SERVER = "upthread"
THEN = "Codex leaves new hooks out until you have trusted them: type /hooks in codex"

EVENTS = {
    "SessionStart": "",
    "UserPromptSubmit": "",
    "PreToolUse": ".*spawn_agent|.*send_input",
    "PostToolUse": ".*spawn_agent",
    "SubagentStop": "",
    "PostCompact": "",
    "SessionEnd": "",
}
"""The events and the tools they are asked for, whole names: some are `multi_agent_v1send_input`."""

GUARDED = "Bash|shell|exec_command|web_search|mcp__.*"
"""The tools that may act beyond this machine; none that only reads or edits."""


def changes(environment: Environment, home: Path) -> Changes:
    """Return what setting Codex up changes; of MCP only where what it needs is installed."""
    path = home_of(AGENT, environment) / HOOKS
    before = read_file(path)
    after = with_hooks(path, before, agent=AGENT, home=home, events=EVENTS, guarded=GUARDED)
    hooks = Change(path=path, before=before, after=after, what=f"{len(EVENTS) + 1} hooks")
    # Asked without loading it: its import takes more than a second (ADR 39).
    has_mcp = importlib.util.find_spec("mcp") is not None
    return (hooks, _mcp_server(environment, home)) if has_mcp else (hooks,)


def taken_out(path: Path, content: bytes) -> bytes | None:
    """Return a file without what is ours, everything else as it is now."""
    if path.name != HOOKS:
        return without_block(content)
    return written(without_hooks(path, content), like=content)


async def trust(working_directory: str) -> Trust:
    """Ask Codex which of our hooks it would leave out."""
    from upthread.agents.base import OpenRequest
    from upthread.agents.codex.adapter import CodexAdapter

    request = OpenRequest(
        working_directory=working_directory,
        stderr_path=None,
        start_timeout_s=ASKED_S_MAX,
    )
    try:
        known = await CodexAdapter().hooks(request)
    except (ConfigError, UpstreamError) as error:
        fault = f"whether it runs the hooks could not be asked: {error.message}"
        return Trust(None, fault, error.hint or "start codex and type /hooks")
    ours = [hook for hook in known if launcher.is_ours(hook.command)]
    left_out = [hook.event for hook in ours if not hook.is_run]
    # None of ours listed is no trust: then it runs none.
    if not left_out:
        return Trust(is_given=bool(ours))
    fault = f"{counted(len(left_out), 'hook')} left out, not trusted: {', '.join(left_out)}"
    return Trust(False, fault, "start codex, type /hooks and look through them")


def _mcp_server(environment: Environment, home: Path) -> Change:
    path = home_of(AGENT, environment) / CONFIG
    before = read_file(path)
    server = launcher.command(home, "mcp")
    lines = (
        f"[mcp_servers.{SERVER}]",
        f"command = {json.dumps(server[0])}",
        f"args = {json.dumps(server[1:])}",
        f"env = {{ UPTHREAD_HOME = {json.dumps(str(home.absolute()))} }}",
        f"startup_timeout_sec = {START_TIMEOUT_S}",
        f"tool_timeout_sec = {ANSWER_TIMEOUT_S}",
    )
    after = with_block(path, before, lines)
    return Change(path=path, before=before, after=after, what=f"the MCP server {SERVER!r}")


TARGET = Target(name=AGENT, changes=changes, taken_out=taken_out, then=THEN, trust=trust)
