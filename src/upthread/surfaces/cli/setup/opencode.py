"""OpenCode: one plug-in file in the user's own plug-in folder. Its settings are not touched."""

import json
from importlib import resources
from pathlib import Path

from upthread.agent_stores.homes import settings_of
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import Change, Changes, Environment, Target, read_file

AGENT = "opencode"
PLUGIN = "upthread.js"
PLACEHOLDER = "__COMMAND__"


def changes(environment: Environment, home: Path) -> Changes:
    """Return what setting OpenCode up changes; its plug-in calls the launcher in `home`."""
    path = settings_of(AGENT, environment) / "plugin" / PLUGIN
    after = plugin(launcher.command(home, AGENT))
    return (Change(path=path, before=read_file(path), after=after, what="the plug-in"),)


def plugin(command: tuple[str, ...]) -> bytes:
    """Return the plug-in, with the command it asks."""
    template = resources.files("upthread").joinpath("surfaces/hook/opencode.js")
    return template.read_text(encoding="utf-8").replace(PLACEHOLDER, json.dumps(command)).encode()


def taken_out(_path: Path, _content: bytes) -> bytes | None:
    """Return the file without our part: all of it is ours."""
    return None


TARGET = Target(name=AGENT, changes=changes, taken_out=taken_out)
