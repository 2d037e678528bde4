"""A call that was cut off, seen by the next one: what it did is taken in, which is waited for.

Its agent was killed, so nobody told how it ended. A drain reads that back and writes what the next
sub-agent is told; without it that one would start as if there had been nothing.
"""

from __future__ import annotations

from upthread.runtime.bindings import files
from upthread.runtime.bindings.claims import OURS, is_claimed_by_another, is_of_call
from upthread.runtime.bindings.light_json import object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.waiting import wait_for_drain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from upthread.surfaces.hook.call import Call


class CutOffError(Exception):
    """What a conversation has come to is in the database, and not yet where hooks look."""


def is_left(binding: dict[str, Any], call_id: str) -> bool:
    """Return whether another call had begun in a conversation, and nobody saw its end."""
    return bool(object_in(binding, "claim")) and not is_of_call(binding, call_id)


def is_ours(binding: dict[str, Any]) -> bool:
    """Return whether a conversation is claimed by a turn of upthread's own."""
    return text_in(object_in(binding, "claim"), "agent") == OURS


def wait_until_taken_in(place: Place, paths: Iterator[str], call: Call) -> None:
    """Return when nothing is left of a call that was cut off, or nobody can tell.

    `paths` are the bindings of the conversation and of its siblings, in order: the first that
    nobody uses is the one that is gone on with. Nothing is waited for where nobody takes it in, and
    where the session itself is resumed, which knows what it did.
    """
    for path in paths:
        found = files.read(path)
        if found is None or not is_claimed_by_another(found, call.call_id):
            break
    else:
        return
    if found is None or not is_left(found, call.call_id):
        return
    is_resumed = call.can_resume and text_in(found, "session") and not is_ours(found)
    if not is_resumed:
        wait_for_drain(place, lambda: not is_left(files.read(path) or {}, call.call_id))
