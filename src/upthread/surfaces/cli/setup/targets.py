"""The agents that can be set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from upthread.core.agents import AGENTS
from upthread.surfaces.cli.setup import claude_code, codex, opencode
from upthread.surfaces.cli.setup.changes import Target

TARGETS: Final[Mapping[str, Target]] = {
    AGENTS[target.name].setup_name: target
    for target in (claude_code.TARGET, codex.TARGET, opencode.TARGET)
}
"""By what `upthread setup` calls each."""
