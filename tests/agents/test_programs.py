"""Where Claude Code is found: on PATH first, else inside the Claude Agent SDK."""

from __future__ import annotations

import subprocess
import sys

from upthread.agents.registry import find_agent
from upthread.core.agents import AGENTS

CLAUDE = AGENTS["claude-code"]


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_installed_claude_is_found_on_path(tmp_path):
    program(tmp_path / "claude")
    assert find_agent(CLAUDE, str(tmp_path)) == "claude"


def test_without_it_the_one_the_sdk_brings_is_found(tmp_path):
    """In a process of its own: what can be imported is settled at its start."""
    sdk = tmp_path / "site" / "claude_agent_sdk"
    bundled = program(sdk / "_bundled" / "claude")
    (sdk / "__init__.py").write_text("raise ImportError('finding it must not import it')\n")
    asking = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r});"
        "from upthread.agents.registry import find_agent; from upthread.core.agents import AGENTS;"
        "print(find_agent(AGENTS['claude-code'], '/nowhere'))"
    )
    said = subprocess.run(
        [sys.executable, "-c", asking], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(bundled)
    bundled.chmod(0o644)
    said = subprocess.run(
        [sys.executable, "-c", asking], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "None", "one that cannot be run is none"


def test_without_either_there_is_none(tmp_path):
    assert find_agent(CLAUDE, str(tmp_path)) is None
