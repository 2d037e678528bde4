"""The plug-in that asks us before each call, for a server of ours: how OpenCode is given it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from upthread.agents._json import as_object

CONFIG: Final = "OPENCODE_CONFIG_CONTENT"
"""The variable with more configuration. OpenCode adds up the plug-ins of all its configurations."""


def with_gate(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the variable that adds the plug-in to what it held; None where that cannot be read."""
    given: Any = {}
    if environment.get(CONFIG):
        try:
            given = json.loads(environment[CONFIG])
        except ValueError:  # OpenCode also takes comments
            return None
    plugins = as_object(given).get("plugin", [])
    if not isinstance(given, dict) or not isinstance(plugins, list):
        return None
    gate = f"file://{files('upthread').joinpath('agents/opencode/gate.js')}"
    return {CONFIG: json.dumps({**given, "plugin": [*plugins, gate]})}
