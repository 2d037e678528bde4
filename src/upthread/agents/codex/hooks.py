"""Codex's hooks: the one of ours that asks before each call, and all that Codex knows.

Ours stands in the configuration of that one start, and so does the trust in it: Codex runs no hook
that nobody trusts, says so only when asked, and knows one by a hash of what it runs (as seen in
0.169.0). Hooks of others stay as they are, trusted or not.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from upthread.agents._json_lines import objects_at, text_at

TIMEOUT_S: Final = 3600
"""How long a call waits for us: a person may be asked."""

# What a hook of the command line is called in Codex's own list of trust (0.169.0): the first group
# of hooks for the event, and in it the first hook. Whether Codex takes that one for trusted is
# asked once it runs: what it does not trust it leaves out without a word.
_KEY: Final = "/<session-flags>/config.toml:pre_tool_use:0:0"
_RUNS: Final = frozenset({"trusted", "managed"})


def hook_command() -> str:
    """Return the line that Codex runs: an interpreter of nothing but its own library."""
    python = str(Path(sys.executable).resolve())
    return shlex.join([python, "-I", "-S", str(files("upthread").joinpath("agents/codex/gate.py"))])


def hook_words() -> tuple[str, ...]:
    """Return the words for Codex's command line. TOML reads JSON's strings as its own."""
    line = hook_command()
    hook = f'{{type="command",command={json.dumps(line)},timeout={TIMEOUT_S}}}'
    trust = f"{{trusted_hash={json.dumps(_hash(line))}}}"
    return (
        *("-c", f'hooks.PreToolUse=[{{matcher="*",hooks=[{hook}]}}]'),
        *("-c", f"hooks.state={{{json.dumps(_KEY)}={trust}}}"),
    )


def _hash(line: str) -> str:
    # Codex's own form of a hook, with the member it fills in by itself. One byte else, and it
    # leaves the hook out without a word (0.169.0).
    hook = {"async": False, "command": line, "timeout": TIMEOUT_S, "type": "command"}
    identity = {"event_name": "pre_tool_use", "hooks": [hook], "matcher": "*"}
    canonical = json.dumps(identity, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


class Hook(Struct, frozen=True, kw_only=True):
    """A hook of any configuration Codex reads. `event` is its own name for it: `preToolUse`."""

    event: str
    command: str
    is_run: bool


def hooks_in(answer: Mapping[str, Any]) -> tuple[Hook, ...]:
    """Return the hooks that an answer to `hooks/list` holds, in its order."""
    return tuple(
        Hook(
            event=text_at(listed, "eventName"),
            command=text_at(listed, "command"),
            is_run=listed.get("enabled") is True and text_at(listed, "trustStatus") in _RUNS,
        )
        for each in objects_at(answer, "data")
        for listed in objects_at(each, "hooks")
    )
