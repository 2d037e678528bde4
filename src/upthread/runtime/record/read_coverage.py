"""How much of what a session read is known: from its calls and the files on record. Blocking."""

from __future__ import annotations

from upthread.core.decision.read_coverage import Reading, reading_of
from upthread.core.types import Link
from upthread.store.base import Store


def reading_in(store: Store, link: Link) -> Reading:
    """Return how much is known of what a link's session read."""
    session = link.upstream_session_id
    said = store.messages(link.conversation_id)
    return reading_of(
        (part for each in said if each.upstream_session_id == session for part in each.parts),
        store.examined(link.conversation_id, upstream_session_id=session),
        root=link.working_directory,
    )
