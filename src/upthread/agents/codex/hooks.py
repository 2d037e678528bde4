"""The hooks Codex knows, as it lists them: which of them it would run.

It runs none that a person has not trusted, and says so only when asked. As seen in 0.169.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from upthread.agents._json import objects_at, text_at

_RUNS: Final = frozenset({"trusted", "managed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
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
