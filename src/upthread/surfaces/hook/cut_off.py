"""What a conversation has come to and hooks do not know yet: it is taken in, which is waited for.

The agent of its last call was killed, so nobody told how it ended; or it has ended, and its words
are on their way into the record. A drain writes what the next sub-agent is told; without it that
one would start as if there had been nothing.
"""

from __future__ import annotations

from upthread.runtime.bindings import files
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another, is_of_call
from upthread.runtime.bindings.light_json import object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.drain_wait import wait_for_drain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NotTakenInError(Exception):
    """What a conversation has come to is not where hooks look; `path` is its binding's."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def is_left(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether another call had begun in a conversation, and nobody saw its end."""
    # Whether its process lives is not asked: who comes here has passed over what is in use.
    return bool(object_in(binding, "claim")) and not is_of_call(binding, call_id)


def is_ours(binding: dict[str, Any]) -> bool:
    """Return whether a conversation is claimed by a turn of upthread's own."""
    return text_in(object_in(binding, "claim"), "agent") == OURS


def is_taken_in(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether a binding tells all that its conversation has come to.

    A drain publishes `decided` with it; whatever moves the conversation on sets that to None.
    """
    return binding.get("decided") is not None and not is_left(binding, call_id)


def wait_until_taken_in(place: Place, path: str, call_id: str) -> None:
    """Return when a conversation is taken in or in use, or nobody is left to take it in."""

    def is_settled() -> bool:
        found = files.read(path) or {}
        # In use counts as settled: another call was quicker, and this one takes a sibling.
        return is_taken_in(found, call_id) or is_claimed_by_another(found, call_id)

    wait_for_drain(place, is_settled)
