"""The kinds of calls, and the words of rules on them: what a configuration is read with.

Apart from the judging of calls (core/shell/expected_call.py), which knows all of shell: whoever
only reads a configuration loads none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Rule: TypeAlias = Literal["allow", "deny", "ask"]

EXECUTE: Final = "execute"
OTHER: Final = "other"

KINDS: Final = frozenset(
    {"read", "edit", "delete", "move", "search", EXECUTE, "think", "fetch", "switch_mode"}
)
"""ACP's kinds of tools that say something; `other`, and what an agent makes up, says nothing."""

CHANGING: Final = frozenset({"edit", "delete", "move"})
"""The kinds that change files by name."""

STRICTNESS: Final[Mapping[Rule, int]] = {"allow": 0, "ask": 1, "deny": 2}
