"""How long after its last use a session's prefix is still in its provider's cache.

Nothing is imported: hooks ask this for every delegation.
"""

from __future__ import annotations


def state_of_cache(idle_s: float | None, *, warm_s: int, cold_s: int) -> str:
    """Return `warm`, `cold`, or `unknown` between them and where nobody knows how long it idled.

    Until `warm_s` it is there; after `cold_s` it is gone.
    """
    if idle_s is None or idle_s < 0:  # a clock that was set back tells nothing
        return "unknown"
    if idle_s > cold_s:
        return "cold"
    return "warm" if idle_s <= warm_s else "unknown"
