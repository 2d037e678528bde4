"""How a command ended, where an agent's history says it: what ran was not refused. Pure."""

from __future__ import annotations

import re
from typing import Final

ENDED_ITSELF_MAX: Final = 128
"""A shell gives a greater one for a command that a signal ended; an agent a negative one, or none,
for one that it did not run."""

_EXIT_CODE: Final = re.compile(r"\s*Exit code (\d{1,3})\b")
"""How Claude Code 2.1 begins what a failed command came to."""


def did_run(exit_code: object) -> bool:
    """Return whether a command ran and failed by itself: from 1 to ENDED_ITSELF_MAX."""
    # By its very type: JSON's `true` would pass for the exit code 1.
    return type(exit_code) is int and 0 < exit_code <= ENDED_ITSELF_MAX


def exit_code_in(text: str) -> int | None:
    """Return the exit code that a failed command's text begins with, None where it has none."""
    found = _EXIT_CODE.match(text)
    return int(found[1]) if found else None
