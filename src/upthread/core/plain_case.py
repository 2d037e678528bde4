"""The handshake's plain cases, for hooks: what `core.handshake.decide` says, without its imports.

A hook starts for every delegation, and nearly all of them are plain: a first session, a policy, or
nothing that stands against going on. Anything else is left to `decide` itself. That both agree
wherever this one answers is a test.
"""

from __future__ import annotations

FIRST = "first"
RESUME = "resume"
START_FRESH = "start_fresh_with_briefing"


def plain_decision(
    *,
    turns: int,
    agent: str,
    current_agent: str | None,
    continuity: str,
    is_fresh_asked: bool,
    has_failed: bool,
    was_interrupted: bool,
    has_condition_changed: bool,
    has_moved: bool,
) -> tuple[str, str] | None:
    """Return the decision and its reason, None where the whole table has to be asked.

    The arguments are those of `HandshakeInputs`; `has_moved` is whether anything around the session
    is not as it was: a file, the branch, the directory, the configuration.
    """
    if turns == 0 and current_agent is None and not has_failed:
        return FIRST, "none_yet"
    if is_fresh_asked:
        return START_FRESH, "asked"
    if continuity == "fresh":
        return START_FRESH, "policy"
    is_moved = has_condition_changed or has_moved or was_interrupted or has_failed
    return None if is_moved or current_agent != agent else (RESUME, "unchanged")
