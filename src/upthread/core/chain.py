"""The chain: the upstream sessions a conversation has held, newest last.

The rules are source-true to the field notes this project grew from: an id is appended once, moves
to the end when it comes back, and the readable chain is capped; the store keeps every link.
"""

from __future__ import annotations

from collections.abc import Iterable

CHAIN_LENGTH_MAX = 16
"""How many upstream sessions a read spans. All links stay stored for the audit."""


def append(chain: tuple[str, ...], upstream_session_id: str) -> tuple[str, ...]:
    """Return the chain with the id last; blank or unchanged ids change nothing."""
    trimmed = upstream_session_id.strip()
    if not trimmed or (chain and chain[-1] == trimmed):
        return chain
    kept = tuple(held for held in chain if held != trimmed)
    return (*kept, trimmed)[-CHAIN_LENGTH_MAX:]


def readable(upstream_session_ids: Iterable[str]) -> tuple[str, ...]:
    """Fold the ids of all links, oldest first, into the readable chain."""
    chain: tuple[str, ...] = ()
    for upstream_session_id in upstream_session_ids:
        chain = append(chain, upstream_session_id)
    return chain
