"""The change note: what a resumed session is told has changed since it last worked.

Said once, before the prompt, and only with the decision `resume_with_update`.
"""

from __future__ import annotations

from typing import Final

from upthread.core.decision.changes import render_changes
from upthread.core.decision.freshness import Freshness
from upthread.core.roles.role import Role
from upthread.core.turns.prompt import role_block

NEW_INSTRUCTIONS: Final = "Your instructions have changed. From now on these hold:"


def render_update(found: Freshness, *, role: Role) -> str:
    """Return the block that goes before the prompt of a resumed session; empty for nothing new."""
    changes = render_changes(found)
    pieces = [changes] if changes else []
    if found.is_configuration_changed and role.instructions:
        pieces += [NEW_INSTRUCTIONS, role_block(role)]
    return "\n\n".join(pieces)
